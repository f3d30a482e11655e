"""The built-in catalog fits together; its figures are reviewed in ``golden/`` (the wide view)."""

import ast
import importlib
import pathlib
import re
import statistics
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from k8sbench import trainers
from k8sbench.catalog import spec_files
from k8sbench.catalog.spec import BenchmarkSpec, Variant
from k8sbench.trainers.parts import settings
from tests.unit.images import dockerfiles
from tests.unit.presence import present


def spec(name: str) -> BenchmarkSpec:
    return spec_files.load_spec(name).spec


def variant(benchmark: str, name: str) -> Variant:
    return next(v for v in spec(benchmark).variants if v.name == name)


def every_variant() -> Iterator[tuple[str, Variant]]:
    for found in spec_files.load_all():
        yield from ((found.spec.name, v) for v in found.spec.variants)


EVERY = list(every_variant())
OURS = [(name, v) for name, v in EVERY if v.impl == "k8sbench"]


def ids(variants: list[tuple[str, Variant]]) -> list[str]:
    return [f"{name}-{v.name}" for name, v in variants]


def test_a_published_figure_is_that_of_its_runs_or_its_note_says_how_it_is_odd() -> None:
    for _, found in EVERY:
        for figure in found.published:
            if figure.anomalous:
                assert figure.note
            elif figure.runs:  # reports round to two digits or more
                if figure.aggregate == "median":
                    median = statistics.median(figure.runs)
                    assert figure.throughput == pytest.approx(median, abs=0.0051)
                if figure.mean is not None:
                    assert figure.mean == pytest.approx(statistics.fmean(figure.runs), abs=0.0051)


@pytest.mark.parametrize(
    ("benchmark", "name", "multiply_adds", "share"),
    [  # outputs × height × width × taps of the first layer; its input gradient ÷ all, percent
        ("resnet50", "dle", 64 * 112 * 112 * 147, 0.96),
        ("resnet50", "report", 64 * 112 * 112 * 147, 0.96),
        ("tsm", "kinetics", 8 * 64 * 112 * 112 * 147, 0.96),
        ("tsm", "lr-all-gpus", 8 * 64 * 112 * 112 * 147, 0.96),
        ("deeplabv3p", "mmseg", 32 * 256 * 512 * 27, 0.01),
        ("deeplabv3p", "paddleseg", 32 * 256 * 512 * 27, 0.02),
        ("deeplabv3p", "matched", 32 * 256 * 512 * 27, 0.01),
        ("arcface", "plsc", 64 * 112 * 112 * 27, 0.11),
    ],
)
def test_the_first_layers_share_follows_from_its_shape(
    benchmark: str, name: str, multiply_adds: int, share: float
) -> None:
    model = present(variant(benchmark, name).fingerprint)
    assert model.first_layer_gmac is not None
    assert model.first_layer_gmac == pytest.approx(multiply_adds / 1e9, rel=0.003)
    assert round(100 * model.first_layer_gmac / (3 * model.gmac), 2) == share
    head = 512 * 85_742 / 1e9 if benchmark == "arcface" else None
    assert model.head_gmac == (head and pytest.approx(head, rel=0.001))


def test_a_variant_runs_our_trainer_locally_in_small_or_a_program_in_an_image_of_ours() -> None:
    for _, found in OURS:
        assert found.local
        assert found.smoke is not None
    others = {
        present(present(found.upstream).image): found.framework
        for _, found in EVERY
        if found.trainer is None
    }
    assert others == dockerfiles.UPSTREAM


def words(benchmark: str, found: Variant, *, smoke: bool) -> list[str]:
    options = {**found.args, **(present(found.smoke).args if smoke else {})}
    given = ["--benchmark", benchmark, "--variant", found.name]
    for key, value in options.items():
        given += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    return given


class Understood(Exception):
    """The trainer has read its options."""


@pytest.mark.parametrize(("benchmark", "found"), OURS, ids=ids(OURS))
def test_the_trainer_takes_the_catalogs_options_and_agrees_on_the_full_size(
    benchmark: str, found: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = settings.read

    def read_and_end(*args: Any) -> NoReturn:
        read(*args)
        raise Understood

    monkeypatch.setattr(settings, "read", read_and_end)
    trainer = importlib.import_module(f"k8sbench.trainers.{found.trainer_module}")
    for smoke in (False, True):
        with pytest.raises(Understood):
            trainer.main(words(benchmark, found, smoke=smoke))
    defaults = trainer.DEFAULTS
    assert defaults.benchmark == benchmark
    if found.args.get("model", "gpt2") != "gpt2":
        return  # a larger model of the same trainer, which takes a smaller batch
    assert defaults.batch_size == found.batch_size["fp32"]
    assert (defaults.batch_size_amp or defaults.batch_size) == found.batch_size.get(
        "amp", defaults.batch_size
    )
    assert defaults.warmup == found.window.warmup
    assert defaults.iterations == found.window.iterations


def test_each_trainer_has_a_benchmark_and_each_benchmark_its_trainer() -> None:
    folder = pathlib.Path(trainers.__path__[0])
    programs = {
        file.stem
        for file in folder.glob("*.py")
        if any(
            isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == "DEFAULTS" for t in node.targets)
            for node in ast.parse(file.read_text()).body
        )
    }
    assert {found.trainer_module for _, found in OURS} == programs


UPSTREAM = [(name, found) for name, found in EVERY if found.upstream is not None]


def commands(found: Variant) -> list[str]:
    """Return the launch commands of a published program with their variables, by precision."""
    upstream = present(found.upstream)
    some = [*upstream.command.values(), *upstream.command_one_gpu.values()]
    return [" ".join([*upstream.env, *words]) for words in some]


@pytest.mark.parametrize(("benchmark", "found"), UPSTREAM, ids=ids(UPSTREAM))
def test_an_environment_has_no_link_that_no_page_names(benchmark: str, found: Variant) -> None:
    """The pages name no NVLink; InfiniBand is optional on TSM's and of a later ResNet-50's."""
    environment = present(found.upstream).environment
    links = [text for text in environment.values() if re.search("NVLink|InfiniBand", text)]
    assert links == []
    if found.name == "mmseg":
        assert "driver" not in environment


@pytest.mark.parametrize(("benchmark", "found"), UPSTREAM, ids=ids(UPSTREAM))
def test_a_word_that_differs_from_the_published_command_is_in_a_command(
    benchmark: str, found: Variant
) -> None:
    changed = present(found.upstream).changed
    assert [one for one in changed if not any(one in text for text in commands(found))] == []


@pytest.mark.parametrize(("benchmark", "found"), UPSTREAM, ids=ids(UPSTREAM))
def test_what_k8sbench_changed_in_a_published_command_is_listed(
    benchmark: str, found: Variant
) -> None:
    own = {"--use_env": "--use_env", "{stop_iteration}": "--prof", "python3 -c": "python3 -c"}
    text = " ".join(commands(found))
    expected = {name for word, name in own.items() if found.published and word in text}
    assert expected <= {*present(found.upstream).changed}


def test_each_command_of_arcface_has_the_loss_head_of_its_number_of_gpus() -> None:
    """The published train.py has dist_arcface."""
    upstream = present(variant("arcface", "plsc").upstream)
    assert "arcface" in " ".join(upstream.command_one_gpu["fp32"])
    assert "arcface" not in " ".join(upstream.command["fp32"])

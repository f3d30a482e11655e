"""The built-in catalog against the reports, typed a second time: a slip in the YAML fails here."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import pytest

from k8sbench import benchmarks, trainers
from k8sbench.adapters.files import catalog
from k8sbench.model.spec import PLACEHOLDERS, BenchmarkSpec, Precision, Published, Variant
from k8sbench.trainers.parts import settings

V100_32, V100_16 = "Tesla V100-SXM2-32GB", "Tesla V100-SXM2-16GB"


class Row(NamedTuple):
    """A published row as the report has it."""

    case: str
    precision: str
    batch: int
    throughput: float | None
    speedup: float | None = None
    seconds: float | None = None
    accuracy: float | None = None


MMSEG_2021_04 = [
    Row("1x1", "fp32", 2, 4.073),
    Row("1x8", "fp32", 2, 29.74, 7.3),
    Row("2x8", "fp32", 2, 49.23, 12.1),
    Row("4x8", "fp32", 2, 81.01, 19.9),
    Row("1x1", "amp", 4, 8.33),
    Row("1x8", "amp", 4, 58.2, 6.98, 44338.456, 78.5),
    Row("2x8", "amp", 4, 103.2, 12.36),
    Row("4x8", "amp", 4, 182.07, 21.86, None, 77.3),
]
MMSEG_2021_06 = [
    Row("1x1", "fp32", 4, 4.3),
    Row("1x8", "fp32", 4, 16.84),
    Row("4x8", "fp32", 4, 60.95),
    Row("1x1", "amp", 4, 8.33),
    Row("1x8", "amp", 4, 58.18),
    Row("4x8", "amp", 4, 203.2),
]
PADDLESEG_2021_05 = [
    Row(case, precision, batch, None)
    for precision, batch in (("fp32", 2), ("amp", 4))
    for case in ("1x1", "1x8", "4x8")
]
PADDLESEG_2021_06 = [
    Row("1x1", "fp32", 4, 6.3),
    Row("1x8", "fp32", 4, 46),
    Row("4x8", "fp32", 4, 176),
    Row("1x1", "amp", 4, 17.0),
    Row("1x8", "amp", 4, 99.2),
    Row("4x8", "amp", 4, 373.76),
]
TSM_FIRST = [
    Row("1x1", "fp32", 16, None),
    Row("1x8", "fp32", 16, None),
    Row("4x8", "fp32", 16, None),
    Row("1x1", "amp", 16, None),
    Row("1x8", "amp", 16, None),
    Row("4x8", "amp", 16, 1380.045, None, None, 71.199),
]
TSM_LATER = [
    Row("1x1", "fp32", 16, 28.828),
    Row("1x8", "fp32", 16, 226.148, None, None, 71.103),
    Row("1x1", "amp", 16, 56.537),
    Row("1x8", "amp", 16, 386.707, None, None, 71.235),
]
RESNET = [
    Row("1x1", "fp32", 128, 366.14, 1.0),
    Row("1x4", "fp32", 128, 1448.06, 3.95),
    Row("1x8", "fp32", 128, 2802.14, 7.65),
]
ARCFACE = [
    Row("1x1", "fp32", 128, 397.78, 1.0),
    Row("1x4", "fp32", 128, 1539.66, 3.87),
    Row("1x8", "fp32", 128, 2545.3, 6.4),
    Row("2x8", "fp32", 128, 5953.84, 14.97),
    Row("4x8", "fp32", 128, 11084.53, 27.87),
]
REPORTS: dict[tuple[str, str, str], tuple[str, list[Row]]] = {
    ("deeplabv3p", "mmseg", "ai-rank-2021-04"): (V100_32, MMSEG_2021_04),
    ("deeplabv3p", "mmseg", "perf-2021-06"): (V100_32, MMSEG_2021_06),
    ("deeplabv3p", "paddleseg", "perf-2021-05"): (V100_32, PADDLESEG_2021_05),
    ("deeplabv3p", "paddleseg", "perf-2021-06"): (V100_32, PADDLESEG_2021_06),
    ("tsm", "kinetics", "ai-rank-2021-04-06"): (V100_16, TSM_FIRST),
    ("tsm", "kinetics", "ai-rank-2021-04-07"): (V100_16, TSM_LATER),
    ("resnet50", "dle", "dlperf-2020-08"): (V100_16, RESNET),
    ("resnet50", "report", "dlperf-2020-08"): (V100_16, RESNET),
    ("arcface", "plsc", "dlperf-2021-03"): (V100_16, ARCFACE),
}
RUNS = {
    ("resnet50", "1x1"): ([366.54, 366.27, 365.81, 366.14, 365.51], 366.05),
    ("resnet50", "1x4"): ([1449.08, 1448.06, 1445.03, 1447.61, 1448.58], 1447.67),
    ("resnet50", "1x8"): ([2806.66, 2833.72, 2800.71, 2808.11, 2803.56], 2014.63),
    ("arcface", "1x1"): ([397.44, 398.05, 398.98, 397.64, 397.78], 397.98),
    ("arcface", "1x4"): ([1555.18, 1534.62, 1540.66, 1539.66, 1535.04], 1541.03),
    ("arcface", "1x8"): ([2536.04, 2545.3, 2563.28, 2554.13, 2542.14], 2548.18),
    ("arcface", "2x8"): ([5950.34, 5953.84, 5982.75, 5961.68, 5934.43], 5956.61),
    ("arcface", "4x8"): ([11165.17, 11109.91, 11084.53, 11077.58, 10997.67], 11086.97),
}
"""Case → the five runs and their mean as published."""


def spec(name: str) -> BenchmarkSpec:
    return catalog.find(name).spec


def variant(benchmark: str, name: str) -> Variant:
    return next(v for v in spec(benchmark).variants if v.name == name)


def every_variant() -> Iterator[tuple[str, Variant]]:
    for found in catalog.load_all():
        yield from ((found.spec.name, v) for v in found.spec.variants)


def figure(benchmark: str, name: str, case: str, precision: str, source: str) -> Published:
    (found,) = [
        p
        for p in variant(benchmark, name).published
        if (p.case, p.precision, p.source) == (case, precision, source)
    ]
    return found


EVERY = list(every_variant())
IDS = [f"{name}-{v.name}" for name, v in EVERY]


def test_the_catalog_holds_the_four_files_of_the_five_benchmarks() -> None:
    assert catalog.names() == ["arcface", "deeplabv3p", "resnet50", "tsm"]
    assert spec("deeplabv3p").frameworks == ("pytorch", "paddle")
    assert {name: spec(name).frameworks for name in ("arcface", "resnet50", "tsm")} == {
        "arcface": ("paddle",),
        "resnet50": ("pytorch",),
        "tsm": ("pytorch",),
    }


@pytest.mark.parametrize("key", REPORTS, ids=" ".join)
def test_every_published_figure_is_the_reports(key: tuple[str, str, str]) -> None:
    benchmark, name, source = key
    gpu_model, rows = REPORTS[key]
    found = [p for p in variant(benchmark, name).published if p.source == source]
    assert [
        Row(
            p.case,
            p.precision,
            p.batch_size,
            p.throughput,
            p.speedup,
            p.time_to_train_s,
            p.accuracy.value if p.accuracy else None,
        )
        for p in found
    ] == rows
    assert {p.gpu_model for p in found} == {gpu_model}


def test_the_catalog_publishes_nothing_beside_the_reports() -> None:
    found = {(name, v.name, p.source) for name, v in EVERY for p in v.published}
    assert found == set(REPORTS)


@pytest.mark.parametrize(
    ("benchmark", "name"), [("resnet50", "dle"), ("resnet50", "report"), ("arcface", "plsc")]
)
def test_every_single_run_and_mean_is_the_reports(benchmark: str, name: str) -> None:
    for p in variant(benchmark, name).published:
        runs, mean = RUNS[benchmark, p.case]
        assert (list(p.runs), p.mean, p.aggregate) == (runs, mean, "median")


@pytest.mark.parametrize("key", RUNS, ids=" ".join)
def test_medians_means_and_speedups_follow_from_the_runs_where_the_report_is_right(
    key: tuple[str, str],
) -> None:
    benchmark, case = key
    published = spec(benchmark).variants[0].published
    found = next(p for p in published if p.case == case)
    base = next(p for p in published if p.case == "1x1")
    median, mean = statistics.median(found.runs), statistics.fmean(found.runs)
    speedup = median / statistics.median(base.runs)
    as_computed = (round(median, 2), round(mean, 2), round(speedup, 2))
    if key == ("resnet50", "1x8"):
        assert as_computed == (2806.66, 2810.55, 7.67)
        assert (found.throughput, found.mean, found.speedup) == (2802.14, 2014.63, 7.65)
    else:
        assert as_computed == (found.throughput, found.mean, found.speedup)


def test_the_wrong_resnet_row_is_marked_and_carries_the_right_figures() -> None:
    for name in ("dle", "report"):
        row = figure("resnet50", name, "1x8", "fp32", "dlperf-2020-08")
        assert row.anomalous
        assert row.note is not None
        for number in ("2806.66", "2810.55", "7.67", "688.80", "701.07", "674.42"):
            assert number in row.note


def test_both_resnet_variants_carry_the_same_report_and_program() -> None:
    dle, report = variant("resnet50", "dle"), variant("resnet50", "report")
    assert dle.published == report.published
    assert dle.upstream is not None
    assert report.upstream is not None
    assert dle.upstream.command == report.upstream.command


def test_odd_figures_are_marked_with_a_note_that_says_how() -> None:
    odd = {
        (name, v.name, p.case, p.precision, p.source)
        for name, v in EVERY
        for p in v.published
        if p.anomalous
    }
    assert odd == {
        ("resnet50", "dle", "1x8", "fp32", "dlperf-2020-08"),
        ("resnet50", "report", "1x8", "fp32", "dlperf-2020-08"),
        ("arcface", "plsc", "1x8", "fp32", "dlperf-2021-03"),
        ("deeplabv3p", "mmseg", "1x8", "fp32", "perf-2021-06"),
        ("deeplabv3p", "mmseg", "4x8", "fp32", "perf-2021-06"),
    }
    assert "2.34" in (figure("arcface", "plsc", "1x8", "fp32", "dlperf-2021-03").note or "")


def test_estimators_are_named_where_known_and_unknown_elsewhere() -> None:
    known = {
        (name, p.case, p.precision, p.source): p.estimator
        for name, v in EVERY
        for p in v.published
        if p.estimator != "unknown"
    }
    assert known.pop(("deeplabv3p", "1x1", "amp", "ai-rank-2021-04")) == "median"
    by_benchmark = {(key[0], estimator) for key, estimator in known.items()}
    assert by_benchmark == {("resnet50", "timestamps"), ("arcface", "arithmetic")}


def test_notes_say_what_the_figures_alone_do_not() -> None:
    def note(benchmark: str, name: str, case: str, precision: str, source: str) -> str:
        return figure(benchmark, name, case, precision, source).note or ""

    assert "0.480 s" in note("deeplabv3p", "mmseg", "1x1", "amp", "ai-rank-2021-04")
    assert "12.39" in note("deeplabv3p", "mmseg", "2x8", "amp", "ai-rank-2021-04")
    assert "batch/sec" in note("tsm", "kinetics", "4x8", "amp", "ai-rank-2021-04-06")
    assert "samples/s" in note("tsm", "kinetics", "4x8", "amp", "ai-rank-2021-04-06")
    assert "arcface" in note("arcface", "plsc", "1x1", "fp32", "dlperf-2021-03")
    assert "arcface" in variant("arcface", "plsc").case_notes["1x1"]
    assert any("GradScaler" in text for text in spec("tsm").notes)
    assert any("different models" in text for text in spec("deeplabv3p").notes)
    assert "never merged" in " ".join(s.note or "" for s in spec("deeplabv3p").sources.values())
    assert "never merged" in " ".join(s.note or "" for s in spec("tsm").sources.values())


def test_only_arcface_was_measured_on_synthetic_data() -> None:
    assert {(name, p.data) for name, v in EVERY for p in v.published} == {
        ("arcface", "synthetic"),
        ("deeplabv3p", "real"),
        ("resnet50", "real"),
        ("tsm", "real"),
    }


def test_every_figure_has_a_source_of_a_known_version() -> None:
    for found in catalog.load_all():
        for source in found.spec.sources.values():
            assert re.fullmatch(r"[0-9a-f]{40}", source.commit or "")
            assert source.repository
            assert source.path


@pytest.mark.parametrize(
    ("benchmark", "name", "warmup", "iterations", "one", "many"),
    [
        ("deeplabv3p", "mmseg", 20, 80, 10, 5),
        ("deeplabv3p", "paddleseg", 20, 80, 10, 5),
        ("deeplabv3p", "matched", 20, 80, 10, 5),
        ("tsm", "kinetics", 100, 200, 32, 4),
        ("tsm", "lr-all-gpus", 100, 200, 32, 4),
        ("resnet50", "dle", 20, 100, 1, 1),
        ("resnet50", "report", 20, 100, 1, 1),
        ("arcface", "plsc", 50, 100, 10, 10),
    ],
)
def test_windows_are_the_reports_or_say_that_they_are_ours(
    benchmark: str, name: str, warmup: int, iterations: int, one: int, many: int
) -> None:
    window = variant(benchmark, name).window
    assert (window.warmup, window.iterations) == (warmup, iterations)
    assert window.log_interval == {"one_gpu": one, "many_gpus": many}
    assert ("ours" in window.rule) == (benchmark in ("deeplabv3p", "tsm"))


@pytest.mark.parametrize(
    ("benchmark", "name", "batch", "cases", "repeats", "parameters", "gmac"),
    [
        ("deeplabv3p", "mmseg", {"fp32": 2, "amp": 4}, "1x1 1x8 2x8 4x8", 1, 43.590, 371.7),
        ("deeplabv3p", "paddleseg", {"fp32": 2, "amp": 4}, "1x1 1x8 4x8", 1, 26.794, 228.4),
        ("deeplabv3p", "matched", {"fp32": 2, "amp": 4}, "1x1 1x8 2x8 4x8", 1, 43.590, 371.7),
        ("tsm", "kinetics", {"fp32": 16, "amp": 16}, "1x1 1x8 4x8", 1, 24.328, 32.7),
        ("tsm", "lr-all-gpus", {"fp32": 16, "amp": 16}, "1x1 1x8 4x8", 1, 24.328, 32.7),
        ("resnet50", "dle", {"fp32": 128}, "1x1 1x4 1x8", 5, 25.557, 4.089),
        ("resnet50", "report", {"fp32": 128}, "1x1 1x4 1x8", 5, 25.557, 4.089),
        ("arcface", "plsc", {"fp32": 128}, "1x1 1x4 1x8 2x8 4x8", 5, 43.585, 6.309),
    ],
)
def test_batches_cases_repeats_and_models_are_the_benchmarks(
    benchmark: str,
    name: str,
    batch: dict[str, int],
    cases: str,
    repeats: int,
    parameters: float,
    gmac: float,
) -> None:
    found = variant(benchmark, name)
    assert found.batch_size == batch
    assert found.cases == tuple(cases.split())
    assert found.repeats == repeats
    assert found.fingerprint is not None
    assert round(found.fingerprint.parameters / 1e6, 3) == parameters
    assert found.fingerprint.gmac == gmac


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
    model = variant(benchmark, name).fingerprint
    assert model is not None
    assert model.first_layer_gmac is not None
    assert model.first_layer_gmac == pytest.approx(multiply_adds / 1e9, rel=0.003)
    assert round(100 * model.first_layer_gmac / (3 * model.gmac), 2) == share
    head = 512 * 85_742 / 1e9 if benchmark == "arcface" else None
    assert model.head_gmac == (head and pytest.approx(head, rel=0.001))


def test_defaults_data_set_and_target_are_the_benchmarks() -> None:
    deeplab = spec("deeplabv3p")
    defaults = [v.name for v in deeplab.variants if deeplab.default_variant(v.framework) is v]
    assert defaults == ["mmseg", "paddleseg"]
    assert deeplab.target_accuracy is not None
    assert (deeplab.target_accuracy.value, deeplab.target_accuracy.metric) == (78.5, "mIoU")
    for name in ("mmseg", "paddleseg"):
        data = variant("deeplabv3p", name).data_set
        assert data is not None
        assert (data.file, data.md5) == ("cityscapes.tar", "37724b19b6e5d41f9f147936d60b3c29")
    assert [v.name for _, v in EVERY if v.sync_bn] == ["mmseg", "paddleseg", "matched"]
    assert {found.spec.unit for found in catalog.load_all()} == {"samples"}
    assert {v.amp_dtype for _, v in EVERY} == {"fp16"}


COMMITS = {
    "mmseg": "d0a71c15",
    "paddleseg": "318dd24c",
    "dle": "5cc03caa",
    "report": "5cc03caa",
    "plsc": "9bba9c90",
    "kinetics": "5cb9b7f6",
}


@pytest.mark.parametrize(("name", "commit"), COMMITS.items())
def test_upstream_is_the_version_that_the_report_ran(name: str, commit: str) -> None:
    (upstream,) = [v.upstream for _, v in EVERY if v.name == name]
    assert upstream is not None
    assert upstream.commit.startswith(commit)
    assert upstream.environment


KNOWN: dict[str, int | str] = {
    **dict.fromkeys(PLACEHOLDERS, "X"),
    "batch_size": 16,
    "replicas": 4,
    "gpus_per_replica": 8,
    "world_size": 32,
    "total_iterations": 120,
    "log_interval": 4,
    "data": "/data",
    "gpu_ids": "0,1",
}


def filled(benchmark: str, name: str, precision: Precision, world_size: int = 32) -> str:
    upstream = variant(benchmark, name).upstream
    assert upstream is not None
    words = upstream.words(precision, world_size=world_size, mode="throughput")
    values = upstream.values(KNOWN | {"world_size": world_size})
    return " ".join(re.sub(r"\{(\w+)\}", lambda m: str(values[m[1]]), word) for word in words)


def test_upstreams_commands_are_the_reports_own() -> None:
    several = filled("deeplabv3p", "mmseg", "amp")
    assert several.startswith(
        "python3 -m torch.distributed.launch --nproc_per_node=8 --nnodes=4 --node_rank=$(RANK) "
        "--master_addr=$(MASTER_ADDR) --master_port=$(MASTER_PORT) tools/train.py "
        "configs/fp16/deeplabv3plus_r50-d8_512x1024_80k_fp16_cityscapes_c8.py --launcher pytorch "
    )
    assert "runner.max_iters=120 log_config.interval=4" in several
    assert filled("deeplabv3p", "mmseg", "fp32", 1).startswith("python3 tools/train.py configs/")
    assert "--gd 20 --lr 0.02 --wd 1e-4 --lr_steps 20 40 --epochs 50" in filled(
        "tsm", "kinetics", "amp"
    )
    assert filled("tsm", "kinetics", "amp").endswith("--npb -p 4 --amp --epochs 1")
    assert "--lr 0.128 --optimizer-batch-size -1" in filled("resnet50", "report", "fp32")
    assert "--mom 0.125" in filled("resnet50", "report", "fp32")
    assert filled("resnet50", "report", "fp32").endswith("--no-checkpoints /data")
    assert "--data_format NHWC --fp16" in filled("deeplabv3p", "paddleseg", "amp")
    assert filled("deeplabv3p", "paddleseg", "fp32", 1).startswith("python train.py --config")
    assert filled("arcface", "plsc", "fp32", 1) == "python3 train.py"
    assert filled("arcface", "plsc", "fp32").endswith("--selected_gpus=0,1 train.py")


def test_only_what_was_published_has_a_command() -> None:
    with pytest.raises(KeyError):
        filled("arcface", "plsc", "amp")


@pytest.mark.parametrize(("benchmark", "found"), EVERY, ids=IDS)
def test_no_command_needs_a_shell(benchmark: str, found: Variant) -> None:
    if found.upstream is None:
        return
    everything = (
        *found.upstream.command.values(),
        *found.upstream.command_one_gpu.values(),
        *found.upstream.added.values(),
    )
    for word in (word for words in everything for word in words):
        assert not re.search(r"[;&|<>`\s]|\$(?!\((RANK|MASTER_ADDR|MASTER_PORT)\))", word), word


def test_every_built_in_variant_runs_our_own_trainer_locally_with_a_small_form() -> None:
    for _, found in EVERY:
        assert found.trainer is not None
        assert found.local
        assert found.smoke is not None


def words(benchmark: str, found: Variant, *, smoke: bool) -> list[str]:
    assert found.smoke is not None
    options = {**found.args, **(found.smoke.args if smoke else {})}
    given = ["--benchmark", benchmark, "--variant", found.name]
    for key, value in options.items():
        given += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    return given


class Understood(Exception):
    """The trainer has read its options."""


@pytest.mark.parametrize(("benchmark", "found"), EVERY, ids=IDS)
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
    assert defaults.batch_size == found.batch_size["fp32"]
    assert (defaults.batch_size_amp or defaults.batch_size) == found.batch_size.get(
        "amp", defaults.batch_size
    )
    assert defaults.warmup == found.window.warmup
    assert defaults.iterations == found.window.iterations


NO_BENCHMARK = {"allreduce"}
"""Programs that start like a trainer and train nothing: ``doctor`` runs them."""


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
    assert {found.trainer_module for _, found in EVERY} == programs - NO_BENCHMARK


def test_built_in_files_use_no_tricks_of_yaml() -> None:
    for file in pathlib.Path(benchmarks.__path__[0]).glob("*.yaml"):
        assert len(file.read_bytes()) < 32 * 1024
        assert max(map(len, file.read_text().splitlines())) <= 100

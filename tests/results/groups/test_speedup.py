"""Speedups over the otherwise equal 1x1 case, or a reason."""

from typing import Any

import msgspec
import pytest

from k8sbench.model import titles
from k8sbench.model.group import Figure
from k8sbench.model.identity import GroupKey, fields_for
from k8sbench.model.measurement import DataSet
from k8sbench.model.plan import PlannedWindow
from k8sbench.model.pool import NodePool
from k8sbench.model.run import Run
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.speedup import SYNC_BN_NOTE, results
from tests.results.groups.rows import by_case, catalog
from tests.results.groups.trained_groups import TRAINING, trained
from tests.results.report.factory import START, V100_16, V100_32, repeats, run, smoke, throughput
from tests.results.said import text, texts
from tests.unit.presence import present


def test_a_head_that_only_the_program_tells_is_footnoted_too() -> None:
    one = run(100.0, case="1x1", measured={"environment": {"head": "arcface"}})
    many = run(700.0, measured={"environment": {"head": "dist_arcface"}})
    found = by_case([one, many])
    assert found["1x8"].speedup.value == 7.0
    assert texts(found["1x8"].speedup.notes) == ("head: dist_arcface, on one GPU arcface",)


@pytest.mark.parametrize(
    ("backend", "source"), [("kubernetes", ""), ("imported", "by the catalog, ")]
)
def test_notes_on_the_cases_replace_the_general_one_and_name_the_catalog(
    backend: str, source: str
) -> None:
    one = run(100.0, case="1x1", backend=backend)
    runs = [one, run(700.0, backend=backend, sync_bn=True)]
    general = f"{source}{text(SYNC_BN_NOTE)}"
    assert texts(by_case(runs)["1x8"].speedup.notes) == (general,)
    found = by_case(runs, find=lambda _: catalog())["1x8"]
    of_cases = (f"{source}1x1: no all-reduce", f"{source}1x8: a full node")
    assert (texts(found.speedup.notes), texts(found.efficiency.notes)) == (of_cases, (general,))


WINDOW = PlannedWindow(
    warmup=0, iterations=100, log_interval=1, min_steady_seconds=120.0, rule="ours"
)
FILES = DataSet(name="imagenet", digest="d1", train=1_281_167, val=50_000)
UNLIKE: dict[str, dict[str, Any]] = {
    "variant": {"variant": "other"},
    "impl": {"impl": "user"},
    "precision": {"precision": "amp", "measured": {"precision_effective": "fp32"}},
    "precision_effective": {"measured": {"precision_effective": "amp"}},
    "amp_dtype": {"amp_dtype": "bf16", "measured": {"amp_dtype": None}},
    "batch_size": {"batch_size": 64},
    "preset": {"preset": "smoke"},
    "mode": {"mode": "train"},
    "data": {"data": "pvc:imagenet"},
    "window": {"window": WINDOW},
    "backend": {"backend": "local"},
    "pool": {"pool": NodePool(name="other", gpus_per_node=8, gpu_model=V100_16)},
    "gpu_model": {"measured": {"gpu_model": V100_32}},
    "image": {"image": "registry.example/pytorch:2"},
    "data_digest": {"measured": {"data_set": FILES}},
    "options": {"options": {"channels_last": True}},
    "node": {"node": "gpu-07"},
    "program": {"trainers_digest": "f" * 64},
    "measured_by": {"measured": {"measured_by": "meter 1.3"}},
}


@pytest.mark.parametrize("field", UNLIKE)
def test_a_different_1x1_case_is_no_baseline_and_the_cell_names_it(field: str) -> None:
    found = by_case([run(100.0, case="1x1", **UNLIKE[field]), run(700.0)])["1x8"]
    assert (found.speedup.value, found.efficiency.value, found.baseline) == (None, None, None)
    assert found.speedup.reason is not None
    assert found.speedup.reason.args["fields"] == (titles.of_field(field),)


def test_a_1x1_case_of_another_namespace_is_no_baseline_and_one_without_any_is() -> None:
    def found(alone: str | None) -> Figure:
        one = run(100.0, case="1x1", namespace=alone)
        return by_case([one, run(700.0, namespace="team-a")])["1x8"].speedup

    assert text(found("team-b").reason).endswith("differs in namespace")
    assert (found("team-a").value, found(None).value) == (7.0, 7.0)


def test_imported_logs_of_different_length_have_a_speedup_with_a_note() -> None:
    one = run(100.0, case="1x1", backend="imported", window=WINDOW)
    found = by_case([one, run(700.0, backend="imported")])["1x8"].speedup
    assert found.value == 7.0
    assert texts(found.notes) == ("windows: 20+100 iterations, on one GPU 0+100",)
    alike = run(101.0, case="1x1", backend="imported", at=1.0)
    made = results(groups([one, alike, run(700.0, backend="imported")]))
    speedups = [(result.group.key.case, result.speedup.value) for result in made]
    assert sorted(speedups) == [("1x1", 1.0), ("1x1", 1.0), ("1x8", pytest.approx(700 / 101))]


def test_one_gpu_has_no_speedup_over_one_gpu_of_a_shorter_training() -> None:
    shorter = msgspec.structs.replace(TRAINING, length=2)
    one = trained(rate=100.0, case="1x1")
    another = trained(rate=97.0, case="1x1", training=shorter, at=START + 1e6)
    made = results(groups([one, another]))
    assert [(found.speedup.value, found.efficiency.value) for found in made] == [(1.0, 1.0)] * 2


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (smoke(1.0), "smoke run: a functional test, not a speed measurement"),
        (smoke(1.0, preset="full"), "CPU processes share the machine: no speedup"),
        (run(700.0, case="2x4", backend="local"), "the replicas shared one machine: no speedup"),
        (run(None), "no valid figure"),
        (run(700.0, measured={"gpu_model": None}), "the GPU model is not stated"),
        (run(700.0), "no 1x1 case to refer to"),
        (run(90.0, unit="GB"), "bus bandwidth: comparable as it is"),
    ],
)
def test_a_speedup_that_cannot_be_says_why(one: Run, reason: str) -> None:
    (found,) = results(groups([one]))
    assert (found.speedup.value, text(found.speedup.reason)) == (None, reason)
    assert (found.efficiency.value, text(found.efficiency.reason)) == (None, reason)


def test_a_baseline_without_a_valid_figure_is_no_baseline() -> None:
    lost = run(None, case="1x1", measured={"verdict": "valid"})
    for alone in ([lost], repeats([80.0, 95.0, 114.0], case="1x1")):
        found = by_case([*alone, run(800.0)])["1x8"]
        assert (found.group.state, found.speedup.value) == ("valid", None)


def test_the_command_of_a_program_may_differ_by_its_number_of_gpus_and_the_program_not() -> None:
    """A comment in a file of one's own makes no other program."""
    one: dict[str, Any] = {
        "case": "1x1",
        "command": ("train", "-n", "1"),
        "trainer": None,
        "trainers_digest": None,
    }
    many = one | {"case": "1x8", "command": ("train", "-n", "8")}
    own: dict[str, Any] = {"impl": "user", "program_digest": "p"}
    for known, other, expected in (
        ({"impl": "upstream"}, {}, 7.0),
        ({"impl": "upstream"}, {"spec_digest": "0" * 64}, None),
        (own, {"spec_digest": "c"}, 7.0),
        (own, {"spec_digest": "c", "program_digest": "q"}, None),
    ):
        found = by_case([run(100.0, **(one | known)), run(700.0, **(many | known | other))])["1x8"]
        assert found.speedup.value == expected
        assert expected or text(found.speedup.reason).endswith("differs in program")


def test_the_ratio_is_by_one_estimator_on_both_sides() -> None:
    figures = throughput(100.0, time_weighted=None)
    alone = run(100.0, case="1x1", measured={"throughput": figures, "estimator": "median"})
    reason = present(by_case([alone, run(700.0)])["1x8"].speedup.reason)
    assert text(reason).endswith("has no figure by time_weighted")


def test_every_field_of_a_group_key_is_judged_in_a_speedup() -> None:
    allowed = {"replicas", "processes_per_replica", "case", "set_name"}
    # A step is as fast whatever it starts from and aims at.
    allowed |= {"training", "weights", "weights_digest"}
    judged = set(GroupKey.__struct_fields__) - allowed
    assert set(fields_for("baseline")) == judged
    assert set(UNLIKE) | {"benchmark", "framework", "namespace"} == judged

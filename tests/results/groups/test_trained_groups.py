"""Groups of time-to-accuracy runs, and their published figures."""

from typing import Any

import msgspec
import pytest

from k8sbench import messages
from k8sbench.catalog.published import Accuracy, PublishedDataSet
from k8sbench.catalog.spec import Train
from k8sbench.model.errors import Finding
from k8sbench.model.group import Deviation, Group, Result
from k8sbench.model.measurement import OWN_TIME_TO_TRAIN
from k8sbench.model.run import Run
from k8sbench.model.verdict import NO_EVALUATION, NO_VALUE
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.speedup import results
from k8sbench.results.report import layout
from k8sbench.results.report.noted_tables import Cell
from tests.results.groups.rows import catalog
from tests.results.groups.trained_groups import TRAINING, trained
from tests.results.report.factory import accuracy
from tests.results.said import text, texts
from tests.unit.presence import present

TRAIN = Train(
    length=90,
    unit="epochs",
    evaluate_every={"one_gpu": 1, "many_gpus": 1},
    metric="top-1",
    rule="as the report",
    start="resnet50_v1c",
)


def one_group(*runs: Run) -> Group:
    (found,) = groups(runs)
    return found


def ids(group: Group) -> list[str]:
    return [reason.id for member in group.members for reason in member.reasons]


OF_AN_OLDER_STORE = "The log's evaluations have no value."


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        ({"missing_notes": {"accuracy": NO_VALUE}}, "no value of an evaluation is read"),
        ({"missing": {"accuracy": OF_AN_OLDER_STORE}}, "no value of an evaluation is read"),
        ({"missing_notes": {"accuracy": NO_EVALUATION}}, "no run evaluated its model"),
    ],
)
def test_a_row_without_accuracy_says_whether_its_runs_were_evaluated(
    measured: dict[str, Any], why: str
) -> None:
    found = one_group(trained(None, measured={"accuracy": None, **measured}))
    assert (found.accuracy, text(found.missing["accuracy"])) == (None, why)
    assert text(found.missing["time_to_train_s"]) == text(found.missing["runs_at_target"]) == why


# What stands beside a time to train

OTHERS: dict[str, Any] = {"format": "dle-resnet50", "mode": None, "weights": None}
"""Fields of other programs' logs."""


def cell_of(result: Result, title: str) -> Cell:
    (table,) = layout.tables([result], ())
    return table.rows[0][[column.title for column in table.columns].index(title)]


def accuracy_cell(found: Group) -> Cell:
    (result,) = results([found])
    return cell_of(result, "accuracy (%)")


def test_beside_a_time_to_train_stands_the_accuracy_of_the_evaluation_that_ends_it() -> None:
    cell = accuracy_cell(one_group(trained()))
    assert text(cell.text).startswith("75.95 ")
    assert any("best: 76.5" in note for note in texts(cell.notes))
    assert text(accuracy_cell(one_group(trained(None))).text).startswith("70 ")


@pytest.mark.parametrize(("best", "is_reached"), [(76.63, True), (75.9, True), (75.8, False)])
def test_a_target_that_was_reached_at_no_known_time_is_not_called_missed(
    best: float, is_reached: bool
) -> None:
    why = "The log has no AI-Rank test_begin line."
    measured = OTHERS | {"accuracy": accuracy(best), "missing": {"time_to_train_s": why}}
    found = one_group(trained(None, measured=measured))
    assert (found.time_to_train_s, found.runs_at_target) == (None, int(is_reached))
    assert (why.rstrip(".") in text(found.missing["time_to_train_s"])) is is_reached


@pytest.mark.parametrize("claims", [None, 8130.06])
@pytest.mark.parametrize("backend", ["imported", "kubernetes"])
def test_a_target_that_no_run_reached_is_named_beside_what_its_log_claims(
    backend: str, claims: float | None
) -> None:
    measured = OTHERS | {"environment": {OWN_TIME_TO_TRAIN: claims}, "ended_by": None}
    found = one_group(trained(None, measured=measured, backend=backend))
    said = found.missing["time_to_train_s"]
    why = text(said)
    assert "75.9 %" in why
    assert ("catalog" in why) is (backend == "imported")
    assert ("8130.06 s" in why) is (claims is not None)
    assert ("基准库" in messages.text("zh", said)) is (backend == "imported")


def test_half_of_the_runs_at_the_target_are_no_time_to_train() -> None:
    found = one_group(trained(100.0), trained(None, repeat=2))
    assert found.time_to_train_s is None
    assert text(found.missing["time_to_train_s"]).endswith("reached a target accuracy: no majority")


@pytest.mark.parametrize(
    ("best", "middle"),
    [([76.0, 75.0], 75.0), ([76.0, 74.0, 75.0], 75.0), ([77.0, 74.0, 75.0, 76.0], 75.0)],
)
def test_the_accuracy_is_that_of_the_middle_run_and_of_two_the_worse(
    best: list[float], middle: float
) -> None:
    runs = [
        trained(100.0, measured={"accuracy": accuracy(one)}, repeat=number)
        for number, one in enumerate(best, 1)
    ]
    assert present(one_group(*runs).accuracy).best == middle


# Published figures

PUBLISHED: dict[str, Any] = {
    "accuracy": {"metric": "top-1", "value": 75.9},
    "time_to_train_s": 40000.0,
    "data": "real",
}


def deviations(one: Run, **figure: Any) -> dict[str, Deviation]:
    """By quantity, of the source ``dlperf``."""
    spec = msgspec.structs.replace(
        catalog(**(PUBLISHED | figure)), target_accuracy=Accuracy(metric="top-1", value=75.9)
    )
    data = PublishedDataSet(name="ImageNet", md5=MD5)
    variants = [msgspec.structs.replace(one, train=TRAIN, data_set=data) for one in spec.variants]
    spec = msgspec.structs.replace(spec, variants=variants)
    (found,) = results(groups([one]), find=lambda _: spec, published=True)
    return {d.quantity: d for d in found.deviations or () if d.source == "dlperf"}


def test_time_to_train_and_accuracy_stand_beside_the_published_ones() -> None:
    found = deviations(trained())
    assert list(found) == ["throughput", "time_to_train", "accuracy"]
    time, reached = found["time_to_train"], found["accuracy"]
    assert (time.published, time.ours, time.not_comparable) == (40000.0, 44000.0, ())
    assert time.ratio == pytest.approx(0.1)
    assert (reached.published, reached.ours) == (75.9, 76.5)
    assert reached.ratio == pytest.approx(76.5 / 75.9 - 1)
    assert texts(time.notes) == texts(reached.notes) == ("impl k8sbench",)


@pytest.mark.parametrize(
    ("changes", "figure", "unlike"),
    [
        ({"measured": {"weights": None}}, {}, ("weights",)),
        ({"data": "unknown"}, {}, ("data",)),
        ({}, {"data": "synthetic"}, ("data",)),
        ({"measured": {"target": 70.0}}, {}, ("target",)),
        ({"measured": {"time_to_train_s": None}}, {}, ("no-figure",)),
        ({}, {"estimator": "unknown"}, ()),
    ],
)
def test_a_time_to_train_is_compared_between_equals_only(
    changes: dict[str, Any], figure: dict[str, Any], unlike: tuple[str, ...]
) -> None:
    found = deviations(trained(**changes), **figure)["time_to_train"]
    assert (found.not_comparable, found.ratio is None) == (unlike, bool(unlike))


def test_a_shorter_training_is_not_compared() -> None:
    found = deviations(trained(training=msgspec.structs.replace(TRAINING, length=1)))
    assert found["time_to_train"].not_comparable == found["accuracy"].not_comparable == ("length",)


MD5 = "37724b19b6e5d41f9f147936d60b3c29"


@pytest.mark.parametrize(
    ("md5", "seconds", "unlike"),
    [
        (MD5, 44000.0, ((), ())),
        ("ab" * 16, 44000.0, (("data",), ("data",))),
        (None, 44000.0, (("data",), ("data",))),
        (MD5, None, (("no-figure",), ("length",))),
    ],
)
def test_a_log_that_states_the_archive_is_compared_where_it_reached_the_target(
    md5: str | None, seconds: float | None, unlike: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    """The accuracy of a log that ends early is that of a part."""
    ends = Finding(id="ends-early", severity="warn", sentence="It ends at iteration 8 of 10.")
    stopped = {"ended_by": "target"} if seconds else {"ended_by": None, "reasons": (ends,)}
    measured = OTHERS | {"environment": {"data_md5": md5}} | stopped
    changes: dict[str, Any] = {"mode": "throughput", "training": None, "data": "unknown"}
    found = deviations(trained(seconds, measured=measured, impl="upstream", **changes))
    time, reached = found["time_to_train"], found["accuracy"]
    assert (time.not_comparable, reached.not_comparable) == unlike
    if reached.ratio is not None:
        assert text(reached.notes[-1]) == "stopped at the target"


def test_an_accuracy_of_another_metric_is_not_compared() -> None:
    figure: dict[str, Any] = {"accuracy": {"metric": "mIoU", "value": 75.9}}
    assert deviations(trained(), **figure)["accuracy"].not_comparable == ("metric",)


def test_an_accuracy_needs_no_target_and_says_where_the_run_stopped_at_it() -> None:
    found = deviations(trained(measured={"target": None, "ended_by": "target"}))["accuracy"]
    assert found.not_comparable == ()
    assert texts(found.notes) == ("impl k8sbench", "stopped at the target")

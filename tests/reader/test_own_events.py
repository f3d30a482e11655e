"""Our own trainers' lines: the contract with their module of events."""

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from k8sbench.model.sample import Evaluation, Fact, GpuSamples
from k8sbench.trainers.parts import events
from tests.reader.own_events import START, STEP, line
from tests.reader.support import items, marks, records

GPU: dict[str, Any] = json.loads(
    '{"event": "gpu", "rank": 1, "every": 1.0, "at": [1772445600.5, 1772445601.5], '
    '"power": [200.5, null], "sm_clock": [1380, 1530], "of_a_later_version": [1, 2]}'
)
EVALUATION: dict[str, Any] = json.loads(
    '{"event": "evaluation", "step": 8000, "epoch": 5.38, "metric": "mIoU", "value": 71.2, '
    '"unit": "%", "figures": {"aAcc": 95.0, "mIoU": 71.2}, "samples": 499, "of": 500, '
    '"seconds": 31.2, "target": 78.5, "reached": false, "time": 1772445600.5}'
)


def test_a_step_covers_several_iterations_and_says_so() -> None:
    fields = {key: value for key, value in STEP.items() if key != "event"}
    (found,) = records("k8sbench", line(START), events.line("step", fields))
    assert (found.iteration, found.steps, found.seconds, found.total) == (10, 5, 0.5, 100)
    assert (found.loss, found.waiting, found.memory_mib) == (1.5, 0.1, 100.5)
    assert found.stamp == 1772445600.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("step", value) for value in (None, 0, 10**30)),
        *(("steps", value) for value in (0, 11)),
        *(("seconds", value) for value in (0, -1.0)),
    ],
)
def test_a_step_without_a_time_or_a_place_is_no_record(name: str, value: object) -> None:
    assert records("k8sbench", line(START), line({**STEP, name: value})) == []


@pytest.mark.parametrize("body", ["[1, 2]", "null", "{", '{"event": 5}', "{}"])
def test_other_json_is_passed_over(body: str) -> None:
    assert len(items("k8sbench", line(START), f"K8SBENCH {body}")) == len(
        items("k8sbench", line(START))
    )


def facts(*events: Mapping[str, object]) -> dict[str, str]:
    found = items("k8sbench", *map(line, events))
    return {fact.name: fact.value for fact in found if isinstance(fact, Fact)}


def test_the_summary_tells_how_a_gpu_was_clocked_in_the_end() -> None:
    clock = {"clock_sm_mhz": 1380, "throttle_reasons": 4}
    found = facts(START, {"event": "summary", "machine": clock})
    assert (found["at_end.clock_sm_mhz"], found["at_end.throttle_reasons"]) == ("1380", "4")


def test_the_summary_tells_its_window() -> None:
    window = {"first_step": 3, "last_step": 10, "seconds": 4.0, "samples_per_second": 16.0}
    event = {"event": "summary", "window": window, "status": "finished", "final_loss": "nan"}
    mark = marks(items("k8sbench", line(START), line(event)))[-1]
    assert mark.values["samples_per_second"] == 16.0
    loss = mark.values["final_loss"]
    assert isinstance(loss, float)
    assert math.isnan(loss)


@pytest.mark.parametrize(
    ("before", "taken"),
    [
        ("2026-03-02T10:00:01.25Z ", 1772445601.25),
        ("2026-03-02T11:00:01.25+01:00 ", 1772445601.25),
        ("[pod/a-master-0/pytorch] 2026-03-02T10:00:01Z ", 1772445601.0),
        ("", None),
        ("2026-03-02T10:61:01.25Z ", None),
    ],
)
def test_a_nodes_stamp_is_a_lines_second_time(before: str, taken: float | None) -> None:
    line = f"K8SBENCH {json.dumps(STEP)}"
    found, *glued = records("k8sbench", f"{before}{line}{line.replace('10', '11', 1)}")
    assert (found.taken, found.stamp, found.text) == (taken, STEP["time"], line)
    assert [each.taken for each in glued] == [None]


def samples(**changes: object) -> list[GpuSamples]:
    found = items("k8sbench", line(START), line({**GPU, **changes}))
    return [item for item in found if isinstance(item, GpuSamples)]


def test_samples_of_a_gpu_are_read_by_the_names_of_the_table_of_metrics() -> None:
    (found,) = samples()
    assert (found.rank, found.every, found.at) == (1, 1.0, (1772445600.5, 1772445601.5))
    assert found.values == {"power": (200.5, None), "sm_clock": (1380.0, 1530.0)}


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"power": [1.0]}, {"sm_clock"}),
        ({"power": ["nan", True]}, {"sm_clock"}),
        ({"rank": None}, None),
        ({"at": []}, None),
        ({"at": [1772445600.5, None]}, None),
    ],
)
def test_broken_samples_of_a_gpu_are_none(changes: dict[str, object], values: object) -> None:
    found = samples(**changes)
    assert [{n for n, v in each.values.items() if set(v) != {None}} for each in found] == (
        [] if values is None else [values]
    )


def evaluations(event: Mapping[str, object]) -> list[Evaluation]:
    found = items("k8sbench", line(START), line(event))
    return [item for item in found if isinstance(item, Evaluation)]


def test_an_evaluation_is_its_headline_and_then_its_other_figures() -> None:
    first, second = evaluations(EVALUATION)
    assert (first.metric, first.value, first.unit, first.target) == ("mIoU", 71.2, "%", 78.5)
    assert (first.step, first.samples, first.of) == (8000, 499, 500)
    assert first.stamp == 1772445600.5
    assert (second.metric, second.value, second.target) == ("aAcc", 95.0, None)


def test_restarts_checkpoints_and_broken_samples_are_marks() -> None:
    told = [
        {"event": "resume", "step": 1200, "restored": "step-001200", "time": 1.5},
        {"event": "checkpoint", "step": 8000, "failed": "No space left.", "time": 2.5},
        {"event": "broken", "part": "val", "path": "a.png", "why": "cut off", "count": 3},
    ]
    found = marks(items("k8sbench", line(START), *map(line, told)))[1:]
    assert [(mark.kind, mark.stamp) for mark in found] == [
        ("resume", 1.5),
        ("checkpoint", 2.5),
        ("broken", None),
    ]
    assert found[0].values["step"] == 1200
    assert found[1].values["failed"] == "No space left."
    assert (found[2].values["part"], found[2].values["path"]) == ("val", "a.png")


@pytest.mark.parametrize(
    ("changes", "metrics"),
    [
        ({"value": None}, ["aAcc"]),
        ({"value": "nan"}, ["aAcc"]),
        ({"value": True}, ["aAcc"]),
        ({"figures": None}, ["mIoU"]),
        ({"figures": {"aAcc": None}}, ["mIoU"]),
    ],
)
def test_what_is_no_number_is_no_evaluation(changes: dict[str, object], metrics: list[str]) -> None:
    assert [each.metric for each in evaluations({**EVALUATION, **changes})] == metrics

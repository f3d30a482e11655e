"""Formats that a catalog file declares by regular expressions."""

import math

import pytest

from k8sbench.messages import note
from k8sbench.model.log_format import LogFormat
from k8sbench.model.sample import Fact, Mark, Record
from k8sbench.reader import declared
from k8sbench.reader.reading import FamilyLog
from tests.reader.support import ended

BY_RATE = LogFormat(
    name="mine",
    unit="sequences",
    per="card",
    record=(
        r"at (?P<stamp>\S+ \S+) step (?P<iteration>\d+)/(?P<total>\d+) of epoch (?P<epoch>\d+) "
        r"loss (?P<loss>\S+) ips (?P<rate>\S+)"
    ),
    first_iteration=0,
    stamp_format="%d.%m.%Y %H:%M:%S",
)
LINE = "at 20.11.2026 08:15:30 step 9/100 of epoch 2 loss 1.5 ips 64.5"


def read(log_format: LogFormat, *lines: str) -> list[object]:
    return list(FamilyLog(ended(lines), [declared.family(log_format, "paddle")]))


def test_named_groups_become_a_record() -> None:
    (found,) = read(BY_RATE, "noise", LINE)
    assert isinstance(found, Record)
    assert (found.iteration, found.total, found.epoch) == (10, 100, 2)
    assert (found.rate, found.loss, found.stamp) == (64.5, 1.5, 1795162530.0)
    assert (found.shape.per, found.shape.numbering) == ("card", None)


@pytest.mark.parametrize("text", ["fast", "64,5", "64.5x"])
def test_what_matches_and_cannot_be_read_is_named(text: str) -> None:
    (found,) = read(BY_RATE, LINE.replace("64.5", text))
    assert isinstance(found, Mark)
    assert found.kind == "unread"
    assert found.values == {"name": "rate", "text": text, "why": note("unread-not-a-number")}


@pytest.mark.parametrize(
    "line", [LINE.replace("64.5", "nan"), LINE.replace("step 9/", "step 99999999999999999999/")]
)
def test_what_is_no_number_is_no_record(line: str) -> None:
    assert read(BY_RATE, line) == []


def test_a_stamp_of_another_format_is_absent_and_the_record_stays() -> None:
    (found,) = read(BY_RATE, LINE.replace("20.11.2026", "2026-11-20"))
    assert isinstance(found, Record)
    assert found.stamp is None


def test_step_times_and_running_means() -> None:
    running = LogFormat(
        name="mine",
        unit="x",
        per="job",
        averaged="running",
        record=r"(?P<iteration>\d+): (?P<step_seconds>\S+)s wait (?P<data_seconds>\S+)",
    )
    (found,) = read(running, "iteration 4: 0.5s wait 0.1")
    assert isinstance(found, Record)
    assert (found.mean_seconds, found.seconds, found.waiting) == (0.5, None, 0.2)


BY_KEYS = LogFormat(
    name="mine",
    unit="images/s",
    per="job",
    fields={
        "epoch": "step.0",
        "iteration": "step.1",
        "rate": "data.train.total_ips",
        "loss": "data.loss",
        "stamp": "at",
    },
)
OBJECT = '{"at": 1608118348.5, "step": [2, 50], "data": {"train.total_ips": 64.50, "loss": NaN}}'


@pytest.mark.parametrize(
    "prefix", ["", "DLLL ", "12:00 {rank 0} [{}] ", '{"level": "INFO"} ', '{"at": 5, "torn']
)
def test_the_values_of_a_json_object_become_a_record(prefix: str) -> None:
    (found,) = read(BY_KEYS, "noise", prefix + OBJECT + " }")
    assert isinstance(found, Record)
    assert (found.epoch, found.iteration, found.rate) == (2, 50, 64.5)
    assert (found.stamp, math.isnan(found.loss or 0), found.text) == (1608118348.5, True, OBJECT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("64.50", "null"),
        ("[2, 50]", "[2]"),
        ("[2, 50]", "50"),
        ('"step"', '"steps"'),
        ("}}", "}"),
        ("64.50", "[" * 3000 + "1" + "]" * 3000),
        (OBJECT, "{" * 4000),
        (OBJECT, "[[]]"),
    ],
)
def test_an_object_that_lacks_a_value_or_is_torn_is_no_record(old: str, new: str) -> None:
    assert read(BY_KEYS, OBJECT.replace(old, new)) == []


def test_a_value_of_a_json_object_that_is_text_is_read_or_named() -> None:
    (found,) = read(BY_KEYS, OBJECT.replace("64.50", '"64.50"'))
    assert isinstance(found, Record)
    (mark,) = read(BY_KEYS, OBJECT.replace("64.50", '"fast"'))
    assert isinstance(mark, Mark)
    assert (mark.values["name"], mark.values["text"]) == ("rate", "fast")


FACTS = LogFormat(
    name="mine",
    unit="images/s",
    per="job",
    record=r"^step (?P<iteration>\d+) rate (?P<rate>\S+)",
    facts=(
        r"^GPUs: (?P<gpus>\S+) on (?P<replicas>\d+)",
        r"batch (?P<batch_size>\d+)",
        r"amp (?P<precision>\w+)",
        r"device (?P<gpu_model>.*)$",
        r"^each node has (?P<gpus_per_node>\d+)",
        r"^(?P<replicas>\d+) nodes",
    ),
)


def facts(*lines: str) -> dict[str, str]:
    return {each.name: each.value for each in read(FACTS, *lines) if isinstance(each, Fact)}


@pytest.mark.parametrize("lines", [["each node has 8", "2 nodes"], ["2 nodes", "each node has 8"]])
def test_gpus_of_one_node_are_those_of_the_job_once_its_nodes_are_known(lines: list[str]) -> None:
    assert facts(*lines, "step 1 rate 5")["gpus"] == "16"
    assert "gpus" not in facts("each node has 8", "step 1 rate 5")


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("True", {"precision": "amp"}),
        ("False", {"precision": "fp32"}),
        ("FP16", {"precision": "amp", "amp_dtype": "fp16"}),
        ("bfloat16", {"precision": "amp", "amp_dtype": "bf16"}),
        ("float32", {"precision": "fp32"}),
        ("perhaps", {}),
    ],
)
def test_a_precision_is_read_from_the_words_of_programs(text: str, stated: dict[str, str]) -> None:
    assert facts(f"amp {text}", "step 1 rate 5") == stated


# Totals, samples of a step, and times of several steps


def of_steps(record: str, *lines: str, unit: str = "s/step") -> list[Record]:
    """Read lines; nothing but records is in them."""
    found = read(LogFormat(name="mine", unit=unit, per="job", record=record), *lines)
    assert all(isinstance(each, Record) for each in found)
    return [each for each in found if isinstance(each, Record)]


@pytest.mark.parametrize(
    ("unit", "texts"),
    [
        ("s/step", ("100", "150", "225.0")),
        ("ms/step", ("100000", "150000", "225000")),
        ("ms/step", ("100 s", "150 s", "225 s")),
        ("s/step", ("0:01:40", "0:02:30", "0:03:45")),
        ("tokens/s", ("1 day, 0:01:40", "1 day, 0:02:30", "1 day, 0:03:45")),
        ("s/step", ("01:40", "02:30", "03:45")),
        ("s/step", ("23:59:10", "1 day, 0:00:00", "1 day, 0:01:15")),
    ],
)
def test_totals_give_what_a_line_adds(unit: str, texts: tuple[str, ...]) -> None:
    record = r"step (?P<iteration>\S+) seen (?P<all_samples>\d+) took (?P<elapsed>.*)"
    lines = [f"step {10 * n}.0 seen {640 * n} took {text}" for n, text in enumerate(texts, 1)]
    found = of_steps(record, *lines, unit=unit)
    assert [(each.iteration, each.steps, each.step_samples) for each in found] == [
        (20, 10, 64.0),
        (30, 10, 64.0),
    ]
    assert [each.seconds for each in found] == [5.0, 7.5]


@pytest.mark.parametrize(("unit", "text"), [("s/sample", "0.05"), ("ms/sample", "50ms")])
def test_the_time_of_a_sample_is_read_as_a_rate(unit: str, text: str) -> None:
    record = r"step (?P<iteration>\d+) time (?P<step_seconds>\S+)"
    one_gpu = LogFormat(name="mine", unit=unit, per="card", record=record)
    (found,) = read(one_gpu, f"step 100 time {text}")
    assert isinstance(found, Record)
    assert found.rate == pytest.approx(20.0)
    assert found.seconds is None
    assert (found.shape.is_rate, found.shape.is_per_card) == (True, True)
    summary = LogFormat(name="mine", unit=unit, per="job", summary=r"mean (?P<step_seconds>\S+)")
    (mark,) = read(summary, f"mean {text}")
    assert isinstance(mark, Mark)
    assert mark.number("whole_run_rate") == pytest.approx(20.0)
    assert mark.number("whole_run_seconds") is None


def test_a_second_time_is_added_and_the_time_of_several_steps_divided() -> None:
    record = r"step (?P<iteration>\d+) (?P<steps>\d+) iters (?P<step_seconds>\S+) \+ "
    record += r"(?P<added_seconds>\S+) batch (?P<step_samples>\d+)"
    (found,) = of_steps(record, "step 100 50 iters 20ms + 10ms batch 64", unit="ms/step")
    assert found.seconds == pytest.approx(0.0006)
    assert found.steps == 50
    assert found.step_samples == 64.0
    assert (
        read(
            LogFormat(name="mine", unit="ms/step", per="job", record=record),
            "step 100 0 iters 20ms + 10ms batch 64",
        )
        == []
    )

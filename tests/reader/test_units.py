"""Units of declared formats: what a file says, and what stands beside a number."""

from typing import Any

import pytest

from k8sbench import messages
from k8sbench.messages import Note
from k8sbench.model import notation
from k8sbench.model.log_format import LogFormat
from k8sbench.model.sample import Mark, Record
from k8sbench.reader import declared
from k8sbench.reader.reading import FamilyLog
from tests.reader.support import ended


@pytest.mark.parametrize(
    ("text", "scale", "noun"),
    [
        ("images/s", 1.0, "images"),
        ("img/sec", 1.0, "images"),
        ("Ktokens/s", 1e3, "tokens"),
        ("M tokens/s", 1e6, "tokens"),
        ("images/min", 1 / 60, "images"),
        ("it/s", 1.0, "steps"),
        ("ms/step", 1e-3, "steps"),
        ("µs/iteration", 1e-6, "steps"),
        ("s/batch", 1.0, "steps"),
        ("s/sample", 1.0, "samples"),
        ("ms/image", 1e-3, "images"),
        ("s", 1.0, "steps"),
    ],
)
def test_a_declared_unit_has_a_scale(text: str, scale: float, noun: str) -> None:
    read = notation.parse_unit(text)
    assert read is not None
    assert read.scale == pytest.approx(scale)
    assert read.noun == noun
    # The text of a unit is one that a file may declare.
    assert notation.parse_unit(str(read)) == read


@pytest.mark.parametrize("text", ["s/", "ms/GB", "ms/epoch", "images/x", ""])
def test_other_texts_declare_no_unit_of_a_step_or_a_second(text: str) -> None:
    read = notation.parse_unit(text)
    assert read is None or not (read.is_time or read.kind)


@pytest.mark.parametrize(
    ("ahead", "behind", "scale"),
    [
        ("time ", "ms, mfu 41.2%", 1e-3),
        ("elapsed time per iteration (ms): ", " | throughput per GPU", 1e-3),
        ("| ms/batch ", " | loss", 1e-3),
        ("step_time_us=", "", 1e-6),
        ("stepTimeMs: ", "", 1e-3),
        ("train_step_timing in s: ", " | consumed", 1.0),
        ("", " sec/batch", 1.0),
        ("time: ", " data: 0.1", None),
        ("412 img/sec 16 ms ", " x", None),
        ("items: ", " minimum", None),
    ],
)
def test_the_unit_of_a_time_stands_before_or_after_it(
    ahead: str, behind: str, scale: float | None
) -> None:
    found = declared.after(behind, is_time=True)[0] or declared.before(ahead, is_time=True)
    assert (found and found.scale) == scale


@pytest.mark.parametrize(
    ("ahead", "behind", "scale", "noun", "per_card"),
    [
        ("throughput=", "K tks/s lr", 1e3, "tokens", False),
        ("", " ktok/s", 1e3, "tokens", False),
        ("", "M tokens/sec/gpu", 1e6, "tokens", True),
        ("CurrSamplesPerSec=", ", Mem", 1.0, "samples", False),
        ("tokens per gpu per second (tgs): ", "", 1.0, "", True),
        ("loss: 2.1, tokens/s: ", "", 1.0, "tokens", False),
        ("throughput (K tokens/s): ", "", 1e3, "tokens", False),
        ("Ktok_per_sec=", " x", 1e3, "tokens", False),
        ("speed ", "it/s", 1.0, "steps", False),
        ("samples_per_second_per_device: ", "", 1.0, "samples", True),
        ("", " images/min", 1 / 60, "images", False),
    ],
)
def test_the_unit_of_a_rate_stands_before_or_after_it(
    ahead: str, behind: str, scale: float, noun: str, per_card: bool
) -> None:
    found = declared.after(behind, is_time=False)[0] or declared.before(ahead, is_time=False)
    assert found is not None
    assert found.scale == pytest.approx(scale)
    assert (found.noun, found.per_card) == (noun, per_card)


# One line of a declared format


def read(line: str, number: str, unit: str, **changes: Any) -> Record | str:
    """Read a line; return its record, or what is wrong with its number."""
    known: dict[str, Any] = {"name": "mine", "per": "job", "unit": unit}
    known["record"] = rf"step (?P<iteration>[\d,]+) {number}"
    form = LogFormat(**known | changes)
    items = list(FamilyLog(ended([f"step 7 {line}"]), [declared.family(form, "paddle")]))
    assert len(items) == 1
    (item,) = items
    if isinstance(item, Mark):
        why = item.values["why"]
        assert isinstance(why, Note)
        return messages.text("en", why)
    assert isinstance(item, Record)
    return item


@pytest.mark.parametrize(
    ("line", "number", "unit", "seconds"),
    [
        ("time 135.0ms", r"time (?P<step_seconds>[\d.]+)", "ms/step", 0.135),
        ("time 135.0ms", r"time (?P<step_seconds>\S+)", "s/step", 0.135),
        ("time (us): 135.0", r".*: (?P<step_seconds>\S+)", "µs/step", 135e-6),
        ("time 0.135 s", r"time (?P<step_seconds>[\d.]+)", "s/step", 0.135),
        ("1,350.5 ms", r"(?P<step_seconds>[\d.,]+)", "ms/step", 1.3505),
        ("time_ms: 12.1K", r"time_ms: (?P<step_seconds>\S+)", "ms/step", 12.1),
        ("time 1.2k ms", r"time (?P<step_seconds>[\d.]+k)", "ms/step", 1.2),
        ("time: 1.2K", r"time: (?P<step_seconds>\S+)", "ms/step", 1.2),
        ("30 it/min", r"(?P<rate>\S+)", "it/min", 2.0),
    ],
)
def test_a_time_is_read_in_seconds(line: str, number: str, unit: str, seconds: float) -> None:
    record = read(line, number, unit, thousands=",")
    assert isinstance(record, Record)
    assert record.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("line", "number", "unit", "rate"),
    [
        ("122.5K tks/s", r"(?P<rate>[\d.]+)K", "Ktokens/s", 122500.0),
        ("122.5K tks/s", r"(?P<rate>\S+)", "tokens/s", 122500.0),
        ("1.2M tks/s", r"(?P<rate>[\d.]+ ?[KMG]?)", "tokens/s", 1.2e6),
        ("tps: 7,301", r"tps: (?P<rate>\S+)", "tokens/s", 7301.0),
        ("600 img/min", r"(?P<rate>\d+)", "images/min", 10.0),
    ],
)
def test_a_rate_is_read_a_second(line: str, number: str, unit: str, rate: float) -> None:
    record = read(line, number, unit, thousands=",")
    assert isinstance(record, Record)
    assert record.rate == pytest.approx(rate)


@pytest.mark.parametrize(
    ("line", "number", "unit", "why"),
    [
        ("time 135.0ms", r"time (?P<step_seconds>[\d.]+)", "s/step", "declare `unit: ms/step`"),
        ("time (ms): 135", r".*: (?P<step_seconds>\S+)", "s/step", "declare `unit: ms/step`"),
        ("time 0.5 s", r"time (?P<step_seconds>[\d.]+)", "ms/step", "declare `unit: s/step`"),
        ("122.0K tks/s", r"(?P<rate>[\d.]+)", "tokens/s", "declare `unit: Ktokens/s`"),
        ("122.0K tks/s", r"(?P<rate>[\d.]+)K", "samples/s", "tokens/s, not samples/s"),
        ("3.2 it/s", r"(?P<rate>[\d.]+)", "images/s", "steps/s, not images/s"),
        ("41.2 TFLOP/s", r"(?P<rate>[\d.]+)", "samples/s", "FLOP/s, not samples/s"),
        ("7301 tokens/s/gpu", r"(?P<rate>[\d.]+)", "tokens/s", "declare `per: card`"),
        ("2.2 s/10 iters", r"(?P<step_seconds>[\d.]+)", "s/step", "time of several steps"),
        ("per 100 iterations (ms): 9", r".*: (?P<step_seconds>.+)", "ms/step", "of several steps"),
        ("took 1.5min", r"took (?P<step_seconds>[\d.]+)", "s/step", "declare `unit: min/step`"),
        ("7301 tps", r"(?P<rate>[\d.]+)", "images/s", "tokens/s, not images/s"),
        ("tps: 7,301 x", r"tps: (?P<rate>[\d.]+)", "tokens/s", "declare `thousands`"),
        ("tps 7,301 tok/s", r".*?(?P<rate>[\d.]+) tok/s", "tokens/s", "declare `thousands`"),
        ("tps: 4.1E+03 x", r"tps: (?P<rate>[\d.]+)", "tokens/s", "which is part of a number"),
        ("tps: 7,301", r"tps: (?P<rate>\S+)", "tokens/s", "unless `thousands` declares"),
    ],
)
def test_a_number_with_another_unit_than_the_declared_one_is_not_read(
    line: str, number: str, unit: str, why: str
) -> None:
    found = read(line, number, unit)
    assert isinstance(found, str)
    assert why in found

"""Measuring logs of declared formats: patterns that are wrong, and patterns that never end."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.files import line_limit
from k8sbench.adapters.files.log_files import LogFile
from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.measuring import measure
from k8sbench.model.errors import InputError
from k8sbench.model.measurement import ESTIMATORS, Measurement
from k8sbench.model.spec import LogFormat
from tests.unit.measure.support import ids
from tests.unit.measure.support import measured as measured_by

LINES = [f"step {step} loss 2.5 ips 64.5" for step in range(1, 11)]
SUMMARY = "done: 64.0 img/s"
PATTERNS: dict[str, Any] = {
    "record": r"step (?P<iteration>\S+) loss (?P<loss>\S+) ips (?P<rate>\S+)",
    "summary": r"done: (?P<rate>\S+) img/s",
}


def measured(lines: list[str], **changes: Any) -> Measurement:
    declared = LogFormat(name="mine", unit="images", per="job", **(PATTERNS | changes))
    return measured_by(lines, format=declared, batch_size=None)


def test_a_record_that_matches_nothing_beside_a_summary_that_does_is_an_error() -> None:
    with pytest.raises(InputError, match="training lines matches no line") as caught:
        measured([*LINES, SUMMARY], record=r"Step (?P<iteration>\d+) (?P<rate>\d+)")
    assert "train.log:11" in caught.value.message
    alone = measured([*LINES, SUMMARY], record=None)
    assert (alone.rate, ids(alone)) == (64.0, ["summary-only"])
    # Each estimator that such a log has no figure by says so.
    assert alone.throughput is not None
    figures = {f"throughput.{name}": getattr(alone.throughput, name) for name in ESTIMATORS}
    assert {name for name, figure in figures.items() if figure is None} == {
        name for name in alone.missing if name.startswith("throughput.")
    }


@pytest.mark.parametrize("line", ["step (?P<iteration>\\S+) .* ips (?P<rate>\\S+)", None])
def test_steps_per_second_become_samples_by_the_batch_of_the_job(line: str | None) -> None:
    """16 images per GPU on 4 GPUs: 64 images a step."""
    form = LogFormat(**{**PATTERNS, "record": line}, name="mine", unit="steps/s", per="job")
    lines = [f"step {step} loss 2.5 ips 4.5" for step in range(1, 31)] if line else []
    found = measured_by([*lines, "done: 4.5 img/s"], format=form, gpus=4, batch_size=16)
    assert found.rate == pytest.approx(288.0)
    without = measured_by([*lines, "done: 4.5 img/s"], format=form, gpus=4, batch_size=None)
    assert (without.rate, "batch-unknown" in ids(without, "reject")) == (None, True)


def test_the_seconds_of_a_whole_run_are_those_of_one_step_of_the_job() -> None:
    """64 images per GPU in steps of 0.25 s on 4 GPUs."""
    declared = LogFormat(
        name="mine", unit="images", per="job", summary=r"done: (?P<step_seconds>\S+) s/step"
    )
    found = measured_by(["done: 0.25 s/step"], format=declared, gpus=4, batch_size=64)
    assert (found.verdict, found.rate, ids(found)) == ("valid", 1024.0, ["summary-only"])
    without = measured_by(["done: 0.25 s/step"], format=declared, gpus=4, batch_size=None)
    assert (without.rate, ids(without, "reject")) == (None, ["batch-unknown"])


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        (31.9, ["summary-mismatch"]),
        (32.5, []),
        (70.5, []),
        (71.5, ["summary-mismatch"]),
    ],
)
def test_a_whole_runs_rate_is_half_of_its_lines_to_a_tenth_more(
    whole: float, expected: list[str]
) -> None:
    """The lines say 64.5; a whole run holds the warm-up, too."""
    assert ids(measured([*LINES, f"done: {whole} img/s"])) == expected


def test_a_whole_runs_rate_and_seconds_per_step_are_not_compared() -> None:
    """Without the batch they have nothing to do with each other, and the window's figure counts."""
    seconds = r"step (?P<iteration>\S+) loss (?P<loss>\S+) ips (?P<step_seconds>\S+)"
    found = measured_by(
        [*LINES, SUMMARY],
        format=LogFormat(name="mine", unit="images", per="job", **(PATTERNS | {"record": seconds})),
    )
    assert found.rate == pytest.approx(4 / 64.5)
    assert ids(found) == []
    found = measured([*LINES, "done: 64.0 img/s"], summary=r"done: (?P<step_seconds>\S+) img/s")
    assert (found.rate, ids(found)) == (64.5, [])


@pytest.mark.parametrize("text", ["1,356.8", "950.1k", "n/a"])
def test_rates_that_cannot_be_read_are_an_error_that_names_the_first(text: str) -> None:
    with pytest.raises(InputError, match=f"rate matches '{text}'") as caught:
        measured([line.replace("64.5", text) for line in LINES])
    assert "train.log:1" in caught.value.message
    with pytest.raises(InputError, match=f"rate matches '{text}'"):
        measured([SUMMARY.replace("64.0", text)], record=None)


def test_a_few_that_cannot_be_read_are_named_with_their_line() -> None:
    lines = [*LINES, "step 11 loss 2.5 ips 1,064.5", "step 12 loss 2.5 ips 1,065.5"]
    found = measured(lines)
    assert ids(found, "reject") == ["unread-number"]
    (reason,) = found.reasons
    assert [place.line for place in reason.evidence] == [11]
    # A loss decides nothing.
    found = measured([*LINES, "step 11 loss - ips 64.5"])
    assert (found.verdict, ids(found), found.records) == ("valid", ["unread-number"], 11)


ENDLESS = LogFormat(
    name="mine", unit="x", per="job", record=r"(\S+\s*)+# (?P<iteration>\d+) (?P<rate>\S+)"
)


def limited(path: Path, *lines: str) -> Measurement:
    path.write_text("\n".join(lines))
    opened = line_limit.opened({str(path): None}, declared=True)
    return measure(opened, Expectation(format=ENDLESS, gpus=1, warmup=0))


def test_a_pattern_that_never_ends_is_ended_and_its_line_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_limit, "SECONDS", 0.2)
    with pytest.raises(InputError, match="busy for more than") as caught:
        limited(tmp_path / "a.log", "short # 1 5.0", "abcdefghij " * 6)
    assert "a.log:2" in caught.value.message
    # The error holds on to the reader, and the signal is free again all the same.
    assert signal.getsignal(signal.SIGVTALRM) == signal.SIG_DFL


def test_a_pattern_that_ends_is_not_disturbed(tmp_path: Path) -> None:
    found = limited(tmp_path / "a.log", *(f"x # {step} 5.0" for step in range(1, 11)))
    assert found.rate == pytest.approx(5.0)
    assert found.records == 10
    # Nothing is left behind: time passes, and no signal comes.
    assert sum(range(2_000_000)) > 0


def test_other_threads_read_without_a_limit(tmp_path: Path) -> None:
    found: list[Measurement] = []

    def read() -> None:
        found.append(limited(tmp_path / "a.log", *(f"x # {n} 5.0" for n in range(1, 11))))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert found[0].records == 10


def test_only_declared_formats_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("x")
    (log,) = line_limit.opened({str(path): "master.log"}, declared=False)
    assert isinstance(log, LogFile)
    assert log.name == "master.log"

"""Measuring logs of declared formats: what they read, and expressions that are wrong."""

from typing import Any

import pytest

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


def test_a_summary_alone_has_one_figure_and_the_others_say_so() -> None:
    alone = measured([*LINES, SUMMARY], record=None)
    assert (alone.rate, ids(alone)) == (64.0, ["summary-only"])
    assert alone.throughput is not None
    figures = {f"throughput.{name}": getattr(alone.throughput, name) for name in ESTIMATORS}
    assert {name for name, figure in figures.items() if figure is None} == {
        name for name in alone.missing if name.startswith("throughput.")
    }


@pytest.mark.parametrize("line", ["step (?P<iteration>\\S+) .* ips (?P<rate>\\S+)", None])
def test_steps_per_second_become_samples_by_the_batch_of_the_job(line: str | None) -> None:
    """16 images per GPU on 4 GPUs: 64 images a step."""
    patterns: dict[str, Any] = {"record": line, "summary": r"done: (?P<rate>\S+) it/s"}
    form = LogFormat(**patterns, name="mine", unit="steps/s", per="job")
    lines = [f"step {step} loss 2.5 ips 4.5" for step in range(1, 31)] if line else []
    found = measured_by([*lines, "done: 4.5 it/s"], format=form, gpus=4, batch_size=16)
    assert found.rate == pytest.approx(288.0)
    without = measured_by([*lines, "done: 4.5 it/s"], format=form, gpus=4, batch_size=None)
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


def test_several_summaries_alone_are_several_runs_with_all_figures_named() -> None:
    """As of several collectives; training lines show by themselves of which run they are."""
    others = [SUMMARY.replace("64", "48"), SUMMARY.replace("64", "32")]
    found = measured([SUMMARY, *others], record=None)
    (said,) = (each for each in found.reasons if each.severity == "reject")
    assert (said.id, [place.line for place in said.evidence]) == ("two-runs", [1, 2, 3])
    assert "64 and 48 and 32" in said.sentence
    assert measured([SUMMARY, SUMMARY], record=None).rate == 64.0
    assert measured([*LINES, SUMMARY, *others[:1]]).verdict == "valid"


def test_a_whole_runs_rate_and_seconds_per_step_are_not_compared() -> None:
    """Without the batch they are unrelated, and the window's figure counts."""
    seconds = r"step (?P<iteration>\S+) loss (?P<loss>\S+) ips (?P<step_seconds>\S+)"
    found = measured_by(
        [*LINES, SUMMARY],
        format=LogFormat(name="mine", unit="images", per="job", **(PATTERNS | {"record": seconds})),
    )
    assert found.rate == pytest.approx(4 / 64.5)
    assert ids(found) == []
    found = measured([*LINES, "done: 64.0 img/s"], summary=r"done: (?P<step_seconds>\S+) img/s")
    assert (found.rate, ids(found)) == (64.5, [])


@pytest.mark.parametrize("text", ["1,356.8", "950.1x", "n/a"])
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


def test_an_expression_with_a_repetition_within_another_reads_a_long_line_to_its_end() -> None:
    """Python's re tries every way to divide the line, which takes for ever."""
    record = r"(a+)+ (?P<iteration>\d+) (?P<rate>\S+)$"
    ends = [f"{'a' * 4000} {step} 5.0" for step in range(1, 11)]
    found = measured([*("a" * 4000 for _ in range(100)), *ends], record=record)
    assert found.records == 10
    assert found.rate == pytest.approx(5.0)


def test_letters_of_any_language_and_bytes_that_are_none_are_read() -> None:
    record = r"(?i)(?P<iteration>\d+) Länge (?P<loss>\S+) 吞吐 (?P<rate>[\d.]+)$"
    lines = [f"{step} LÄNGE 2.5 吞吐 64.5" for step in range(1, 5)]
    lines += [f"\udcff 图 {step} länge 2.5 吞吐 64.5" for step in range(5, 11)]
    found = measured(lines, record=record)
    assert found.records == 10
    assert found.rate == pytest.approx(64.5)


# Epochs


def epochs(*counts: int, first: int = 0, resets: bool = True, total: str = "/200") -> list[str]:
    """Return lines of 200-iteration epochs: 1 s each, from 100 on 0.1 s."""
    return [
        f"epoch {number + first} step {step if resets else number * 200 + step}"
        f"{total if resets else ''} time {1.0 if number * 200 + step <= 100 else 0.1}"
        for number, count in enumerate(counts)
        for step in range(20, count + 1, 20)
    ]


def by_epoch(lines: list[str], **changes: Any) -> Measurement:
    """Ten images a step: 100 images/s after the slow steps."""
    record = r"^epoch (?P<epoch>\d+) step (?P<iteration>\d+)(?:/(?P<total>\d+))? "
    record += r"time (?P<step_seconds>\S+)"
    known: dict[str, Any] = {"name": "mine", "unit": "s/step", "per": "job", "record": record}
    return measured_by(lines, format=LogFormat(**known | changes), batch_size=10, warmup=100)


def window(found: Measurement) -> tuple[str, float | None, int, int]:
    assert found.window is not None
    first, last = found.window.first_iteration, found.window.last_iteration
    return found.verdict, found.rate and round(found.rate, 6), first, last


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("declared", [True, False])
def test_the_first_line_shows_if_epochs_count_from_0_or_1(first: int, declared: bool) -> None:
    said = {"first_epoch": first, "numbering": "epoch"} if declared else {}
    found = by_epoch(epochs(200, 200, 200, first=first), **said)
    assert (window(found), ids(found)) == (("valid", 100.0, 101, 600), [])


@pytest.mark.parametrize(("first", "said"), [(2, {}), (1, {"first_epoch": 0})])
def test_a_log_from_a_later_epoch_lacks_iterations(first: int, said: dict[str, Any]) -> None:
    found = by_epoch(epochs(200, 200, first=first), **said)
    assert window(found)[2:] == (201, 600)
    assert "iterations-missing" in ids(found, "reject")


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("said", [{}, {"numbering": "run"}])
def test_steps_through_epochs_are_those_of_the_run(first: int, said: dict[str, Any]) -> None:
    found = by_epoch(epochs(200, 200, 200, 200, first=first, resets=False), **said)
    assert (window(found), ids(found)) == (("valid", 100.0, 101, 800), [])


def test_steps_of_the_run_may_be_printed_less_often_than_epochs_pass() -> None:
    lines = [f"epoch {3 * n} step {20 * n} time {1.0 if n <= 5 else 0.1}" for n in range(1, 20)]
    found = by_epoch(lines)
    assert (window(found), ids(found)) == (("valid", 100.0, 101, 380), [])


def test_epochs_of_one_line_each_are_counted_anew() -> None:
    lines = [f"epoch {n} step 20 time {1.0 if n <= 5 else 0.1}" for n in range(1, 20)]
    assert window(by_epoch(lines)) == ("valid", 100.0, 101, 380)


def test_lines_that_are_lost_at_the_end_of_an_epoch_are_missing_however_steps_are_counted() -> None:
    lines = epochs(140, 200)
    for later in (13, 15):
        assert "iterations-missing" in ids(by_epoch(lines[:7] + lines[later:]), "reject")
    # Exactly an epoch that is lost looks like none: only the declaration tells.
    found = by_epoch(lines[:7] + lines[14:], numbering="epoch")
    assert "iterations-missing" in ids(found, "reject")
    lines = epochs(200, 200, resets=False)
    assert ids(by_epoch(lines[:7] + lines[12:]), "reject") == ["iterations-missing"]


def test_steps_of_the_run_that_go_back_are_another_run() -> None:
    lines = epochs(200, 200, resets=False)
    assert ids(by_epoch([*lines, *lines[8:]]), "reject") == ["iterations-back"]


# Evaluations and checkpoints

STAMPED: dict[str, Any] = {
    "name": "mine",
    "unit": "s/step",
    "per": "job",
    "record": r"^(?P<stamp>\S+ \S+) step (?P<iteration>\d+) time (?P<step_seconds>\S+)",
    "stamp_format": "%Y-%m-%d %H:%M:%S",
}


def stamped(*seconds: float, between: str = "", step: int = 50, took: float = 0.4) -> list[str]:
    """Lines some seconds apart, with another line before longer ones."""
    lines, at = [], 0.0
    for number, passed in enumerate(seconds, 1):
        at += passed
        if between and passed > seconds[0]:
            lines.append(between)
        clock = f"10:{int(at) // 60:02d}:{int(at) % 60:02d}"
        lines.append(f"2026-03-02 {clock} step {step * number} time {took:.4f}")
    return lines


def by_stamps(lines: list[str], **changes: Any) -> Measurement:
    return measured_by(lines, format=LogFormat(**STAMPED | changes), batch_size=8, warmup=50)


PAUSED = (20.0, *([20.0] * 4 + [35.0]) * 4)
"""Four evaluations of 15 s beside steps of 0.4 s × 50."""
READS = {"evaluation": r"^val (?P<metric>\w+): (?P<value>\S+)", "checkpoint": "^saved"}


@pytest.mark.parametrize("said", [{}, READS])
@pytest.mark.parametrize("between", ["val mIoU: 68.7", "saved"])
def test_stamps_may_differ_over_other_lines(said: dict[str, str], between: str) -> None:
    found = by_stamps(stamped(*PAUSED, between=between), **said)
    assert (found.verdict, found.rate, ids(found)) == ("valid", 20.0, ["clocks-apart"])


@pytest.mark.parametrize("said", [{}, READS])
def test_stamps_of_lines_without_others_between_must_agree(said: dict[str, str]) -> None:
    assert ids(by_stamps(stamped(*PAUSED), **said), "reject") == ["clock-mismatch"]
    # As many lines as between any two are no reason for more time.
    lines = [text for line in stamped(*PAUSED) for text in ("", line)]
    assert ids(by_stamps(lines), "reject") == ["clock-mismatch"]
    if said:  # what lies between is known, and was none
        lines = stamped(*PAUSED, between="epoch over")
        assert ids(by_stamps(lines, **said), "reject") == ["clock-mismatch"]


@pytest.mark.parametrize(
    ("line", "said", "metric", "value", "unit"),
    [
        ("val mIoU: 68.7", {}, "mIoU", 68.7, "%"),
        ("val mIoU: 0.687", {}, "mIoU", 0.687, "fraction"),
        ("val mIoU: 0.7", {"metric_unit": "%"}, "mIoU", 0.7, "%"),
        ("val 0.9", {"evaluation": r"^val (?P<value>\S+)", "metric": "top-1"}, "top-1", 0.9, None),
    ],
)
def test_an_evaluation_s_value_is_the_accuracy(
    line: str, said: dict[str, Any], metric: str, value: float, unit: str | None
) -> None:
    found = by_stamps([*stamped(*[20.0] * 8), line], **READS | said)
    assert found.accuracy is not None
    assert (found.accuracy.metric, found.accuracy.final) == (metric, value)
    assert found.accuracy.unit == (unit or "fraction")


def test_an_evaluation_without_a_number_is_one_all_the_same() -> None:
    for line in ("val mIoU: n/a", "evaluating"):
        said = {**READS, "evaluation": f"{READS['evaluation']}|^evaluating"}
        found = by_stamps(stamped(*PAUSED, between=line), **said)
        assert (found.verdict, found.accuracy) == ("valid", None)


# Means of the last few steps


def test_a_mean_of_the_last_few_steps_is_no_mean_of_the_interval() -> None:
    """50 steps take 22 s; the last ten took 0.4 s each."""
    lines = stamped(*[22.0] * 10)
    assert ids(by_stamps(lines), "reject") == ["clock-mismatch"]
    found = by_stamps(lines, averaged="last", last=10)
    assert (found.verdict, ids(found)) == ("valid", ["sampled-steps", "unsteady"])
    assert found.rate == pytest.approx(8 * 450 / 198)
    assert found.throughput is not None
    assert found.throughput.printed_steps == pytest.approx(20.0)


def test_rates_of_the_last_few_steps_are_those_of_the_printed_steps_alone() -> None:
    lines = [line.replace("time 0.4000", "ips 20.0") for line in stamped(*[22.0] * 10)]
    record = STAMPED["record"].replace("time (?P<step_seconds>", "ips (?P<rate>")
    found = by_stamps(lines, averaged="last", last=10, record=record, unit="images/s")
    assert found.rate == pytest.approx(20.0)
    assert (found.estimator, found.iterations) == ("printed_steps", 90)


@pytest.mark.parametrize("number", ["ips (?P<rate>", "time (?P<step_seconds>"])
def test_means_of_the_last_few_steps_are_exact_where_they_overlap(number: str) -> None:
    """Steps of 0.5 s, and of 3 s after evaluations."""
    times = [3.0 if step % 40 == 0 else 0.5 for step in range(400)]
    lines = []
    for step in range(10, 401, 10):
        last = times[max(step - 40, 0) : step]
        mean = sum(last) / len(last)
        lines.append(f"step {step} time {mean:.4f} ips {8 / mean:.4f}")
        if step % 40 == 0:
            lines.append("val mIoU: 68.7")
    record = rf"^step (?P<iteration>\d+) .*?\b{number}[\d.]+)"
    unit = "images/s" if "rate" in number else "s/step"
    declared = LogFormat(name="mine", unit=unit, per="job", record=record, averaged="last", last=40)
    found = measured_by(lines, format=declared, batch_size=8, warmup=50)
    assert (found.verdict, found.iterations) == ("valid", 350)
    assert found.rate == pytest.approx(8 * 350 / sum(times[50:]), rel=1e-4)


def test_a_line_of_json_is_measured_by_its_keys() -> None:
    lines = [
        f'{{"step": {step}, "metrics": {{"ips": 64.5, "loss": 2.5}}}}' for step in range(1, 11)
    ]
    fields = {"iteration": "step", "rate": "metrics.ips", "loss": "metrics.loss"}
    found = measured(lines, record=None, fields=fields)
    assert (found.verdict, found.rate, found.final_loss) == ("valid", 64.5, 2.5)


# Tokens of a batch in sequences


def by_tokens(unit: str, line: str, **changes: Any) -> Measurement:
    """Return 32 sequences of 2048 tokens in steps of 2.5 s."""
    head = ["world_size=8 micro_batch=4 dtype=bf16 seq_len=2048"]
    record = r"^(?P<stamp>\S+ \S+) step (?P<iteration>\d+) (?P<NAME>[\d.]+)"
    known: dict[str, Any] = {
        "name": "mine",
        "unit": unit,
        "per": "job",
        "record": record.replace("NAME", "step_seconds" if "/step" in unit else "rate"),
        "stamp_format": "%Y-%m-%d %H:%M:%S",
        "facts": (r"world_size=(?P<gpus>\d+) micro_batch=(?P<batch_size>\d+)",),
    }
    lines = [text.replace("time 2.5000", line) for text in stamped(*[25.0] * 20, step=10, took=2.5)]
    form = LogFormat(**known | changes)
    return measured_by(
        [*head, *lines], format=form, unit="tokens/s", gpus=8, warmup=50, batch_size=None
    )


@pytest.mark.parametrize(
    ("unit", "line"), [("tokens/s", "26214.4"), ("s/step", "2.5000"), ("steps/s", "0.4")]
)
@pytest.mark.parametrize(
    "said",
    [
        {"sequence_length": 2048},
        {
            "facts": (
                r"world_size=(?P<gpus>\d+) micro_batch=(?P<batch_size>\d+)",
                r"seq_len=(?P<sequence_length>\d+)",
            )
        },
    ],
)
def test_tokens_a_second_and_a_batch_in_sequences_agree(
    unit: str, line: str, said: dict[str, Any]
) -> None:
    found = by_tokens(unit, line, **said)
    assert (found.verdict, ids(found)) == ("valid", [])
    assert found.rate == pytest.approx(26214.4)
    assert found.throughput is not None
    assert found.throughput.timestamps == pytest.approx(26214.4)


def test_the_clock_of_tokens_whose_sequences_are_unknown_names_the_key() -> None:
    found = by_tokens("tokens/s", "26214.4")
    (reason,) = [each for each in found.reasons if each.id == "clock-mismatch"]
    assert "4 tokens; of a batch in sequences, declare the `sequence_length`" in reason.sentence

"""Logs of LitGPT: micro steps with and without an optimizer step, and the time of a step."""

import datetime
from collections.abc import Callable, Iterator, Mapping

import pytest

from k8sbench.model.measurement import Measurement
from k8sbench.model.sample import Fact
from k8sbench.reader.families import litgpt
from tests.reader.measuring.support import figure, ids, lines_of, measured

WITH, WITHOUT = 0.26, 0.09
"""Seconds of a micro step with an optimizer step, and of one without."""

Form = Callable[[int, int, float, str], str]


def of_2023(micro: int, step: int, seconds: float, optimizer: str) -> str:
    tail = " (optimizer.step)" if optimizer else ""
    return f"iter {micro} step {step}: loss 1.9000, iter time: {1000 * seconds:.2f}ms{tail}"


def of_early_2024(micro: int, step: int, seconds: float, optimizer: str) -> str:
    tail = " (optimizer.step)" if optimizer else ""
    return f"iter {micro} | step {step}: loss 1.9000, iter time: {1000 * seconds:.2f} ms{tail}"


def of_tinyllama_script(micro: int, step: int, seconds: float, optimizer: str) -> str:
    tail = " (optimizer.step)," if optimizer else ","
    line = f"iter {micro} | step {step}: loss 1.9000, iter time: {1000 * seconds:.2f} ms{tail}"
    return f"{line} remaining time: 1.25 days"


def of_today(micro: int, step: int, seconds: float, optimizer: str) -> str:
    tail = " (step)" if optimizer else ""
    line = f"Epoch 1 | iter {micro} step {step} | loss train: 1.900, val: n/a | iter time:"
    return f"{line} {1000 * seconds:.2f} ms{tail}"


def of_a_pretraining(micro: int, step: int, seconds: float, optimizer: str) -> str:
    return f"{of_today(micro, step, seconds, optimizer)} remaining time: 1 day, 0:10:00"


FORMS = [of_2023, of_early_2024, of_tinyllama_script, of_today, of_a_pretraining]


def log(form: Form = of_today, *, every: int, accumulated: int, last: int = 800) -> list[str]:
    """Return every n-th of a run's micro steps."""
    return [
        form(
            micro,
            micro // accumulated,
            WITHOUT if micro % accumulated else WITH,
            "" if micro % accumulated else "with",
        )
        for micro in range(1, last + 1)
        if micro % every == 0
    ]


def of(lines: list[str]) -> Measurement:
    return measured(lines, format="litgpt", gpus=1, batch_size=4, warmup=None)


def mixture(accumulated: int) -> float:
    """Samples per second if one micro step of so many ends in an optimizer step."""
    return 4 * accumulated / (WITH + (accumulated - 1) * WITHOUT)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("every", "accumulated"), [(1, 1), (1, 8), (10, 8), (3, 4), (10, 4)])
def test_micro_steps_count_as_often_as_they_run(form: Form, every: int, accumulated: int) -> None:
    found = of(log(form, every=every, accumulated=accumulated))
    assert found.rate == pytest.approx(mixture(accumulated), rel=1e-4)
    assert found.verdict == "valid"
    assert ("sampled-steps" in ids(found)) == (every > 1)


def test_lines_of_optimizer_steps_alone_are_refused_until_the_whole_time_proves_them() -> None:
    lines = log(every=40, accumulated=8)
    found = of(lines)
    assert "clock-mismatch" in ids(found, "reject")
    assert "sampled-steps" in ids(found, "warn")
    slow = of([*lines, f"Training time: {800 * WITH:.2f}s"])
    assert slow.verdict == "valid"
    assert slow.rate == pytest.approx(4 / WITH)
    # Each micro step is an optimizer step.
    assert of(log(every=40, accumulated=1)).verdict == "valid"


def test_a_log_that_lacks_a_line_of_a_micro_step_has_lines_of_both_kinds() -> None:
    lines = log(every=10, accumulated=4)
    for part in (lines[1:], lines[:20] + lines[21:], lines[:22] + lines[23:]):
        assert ids(of(part), "reject") == []


def test_an_optimizer_step_that_lacks_a_line_is_left_out() -> None:
    lines = log(every=1, accumulated=4)
    found = of(lines[:397] + lines[398:])
    assert ids(found, "warn") == ["iterations-missing"]
    assert found.rate == pytest.approx(mixture(4), rel=1e-4)


def test_an_excerpt_that_begins_anywhere_has_the_same_rate() -> None:
    for accumulated in (1, 4):
        for first in (0, 1, 2, 3):
            found = of(log(every=1, accumulated=accumulated)[40 + first :])
            assert found.rate == pytest.approx(mixture(accumulated), rel=1e-4)


def test_an_evaluation_is_in_no_time_and_its_loss_is_none_of_a_line() -> None:
    lines = log(every=1, accumulated=4)
    lines[400:400] = ["Validating ...", "iter 400: val loss 1.2345, val time: 9000.00 ms"]
    lines[402:] = [line.replace("val: n/a", "val: 1.234") for line in lines[402:]]
    assert of(lines).rate == pytest.approx(mixture(4), rel=1e-4)


@pytest.mark.parametrize("accumulated", [1, 4])
def test_a_time_that_was_taken_too_early_is_refused(accumulated: int) -> None:
    """Lit-GPT counted from 0 when it took the time before it waited for the GPU."""
    from_0 = [
        of_2023(micro, (micro + 1) // accumulated, WITH, "" if (micro + 1) % accumulated else "x")
        for micro in range(200)
    ]
    for lines in (from_0, from_0[40:]):
        if accumulated > 1 or lines is from_0:
            assert "clock-mismatch" in ids(of(lines), "reject")
    tail = " remaining time: 12.50 hours.  or 0.52 days. "
    hours = [line + tail for line in log(of_2023, every=1, accumulated=4)]
    assert "clock-mismatch" in ids(of(hours), "reject")


@pytest.mark.parametrize("label", ["Training time: {:.2f}s", "| - Training Time : {:.2f} s"])
def test_lines_cannot_claim_more_time_than_the_whole_training_took(label: str) -> None:
    lines = log(every=40, accumulated=8)
    right = 800 / 8 * (WITH + 7 * WITHOUT) + 20
    assert "clock-mismatch" in ids(of([*lines, label.format(right)]), "reject")
    every = log(every=10, accumulated=8)
    assert of([*every, label.format(right)]).verdict == "valid"


def pretraining(seconds: float) -> list[str]:
    """Begin a pretraining of 2,000 micro steps of 0.15 s each, whose lines have another time."""
    text = "\n".join(lines_of("litgpt_pretrain.log"))
    head = text[: text.index("Epoch 1 | ")].replace("size': 128", "size': 1024").splitlines()
    for micro in range(8, 801, 8):
        left = datetime.timedelta(seconds=int(0.15 * (2000 - micro)))
        line = of_today(micro, micro // 8, seconds, "with")
        head.append(f"{line} remaining time: {left}")
    return head


def test_the_remaining_time_of_a_pretraining_is_its_clock() -> None:
    known = {"gpus": None, "batch_size": None, "warmup": None}
    right = measured(pretraining(0.15), format="litgpt", **known)
    assert figure(right, "timestamps") == pytest.approx(128 / 0.15, rel=0.02)
    assert right.rate == pytest.approx(128 / 0.15)
    assert ids(right) == ["sampled-steps", "ends-early"]
    slower = measured(pretraining(0.2), format="litgpt", **known)
    assert "clock-mismatch" in ids(slower, "reject")


def test_the_head_s_facts_are_derived_once_for_all_remaining_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    derived: list[Mapping[str, Fact]] = []

    def derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
        derived.append(stated)
        return litgpt.FAMILY.derive(stated) if litgpt.FAMILY.derive else iter(())

    monkeypatch.setattr(litgpt, "_derive", derive)
    of(pretraining(WITH))
    assert len(derived) == 1

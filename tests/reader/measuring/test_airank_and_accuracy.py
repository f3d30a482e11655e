"""Time to train by AI-Rank's definition, accuracy, and what is wrong in hand-written lines."""

import pytest

from k8sbench.catalog.published import Accuracy
from k8sbench.model.measurement import OWN_TIME_TO_TRAIN, AccuracyResult
from k8sbench.model.sample import Place
from k8sbench.reader.measuring.evaluations import Evaluated, reaching
from tests.reader.measuring.airank import airank
from tests.reader.measuring.support import measured, run
from tests.unit.presence import present


def trained(*accuracies: str, last: str = "test_finish") -> list[str]:
    """A run with an evaluation behind each twenty iterations, ten seconds apart."""
    lines = [airank(0, "test_begin")]
    records = run([0.5] * (2 * len(accuracies) + 4))
    for index, accuracy in enumerate(accuracies):
        lines += records[2 * index : 2 * index + 2]
        lines.append(airank(10 * (index + 1), f"eval_accuracy:{accuracy}, total_epoch_cnt:{index}"))
    lines += records[2 * len(accuracies) :]
    lines.append(airank(100, last))
    return lines


@pytest.mark.parametrize(
    ("best", "seconds", "unit"),
    [("1.0", 20.0, "fraction"), ("0.759", 20.0, "fraction"), ("1.1", None, "%")],
)
def test_accuracies_up_to_one_are_fractions(best: str, seconds: float | None, unit: str) -> None:
    found = measured(trained("0.5", best), target=Accuracy(metric="x", value=75.9))
    assert found.time_to_train_s == pytest.approx(seconds)
    assert (present(found.accuracy).best, present(found.accuracy).unit) == (float(best), unit)


def test_time_to_train_begins_with_the_first_test_begin() -> None:
    lines = trained("60.0", "75.9")
    lines.insert(0, airank(-50, "load_data, checksum: 0f1e2d"))
    lines.insert(2, airank(5, "test_begin"))
    found = measured(lines, target=Accuracy(metric="x", value=75.9))
    assert found.time_to_train_s == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("target", "said"), [(Accuracy(metric="x", value=75.9), "75.9"), (None, "--benchmark")]
)
def test_without_a_target_or_below_it_there_is_no_time(target: Accuracy | None, said: str) -> None:
    found = measured(trained("60.0", "70.0"), target=target)
    assert found.time_to_train_s is None
    assert said in found.missing["time_to_train_s"]


def test_an_evaluation_that_is_stamped_before_the_test_begins_gives_no_time() -> None:
    lines = [airank(50, "test_begin"), *trained("60.0", "76.0")[1:]]
    found = measured(lines, target=Accuracy(metric="x", value=75.9))
    assert found.time_to_train_s is None
    assert "stamped before the test" in found.missing["time_to_train_s"]


def planned(*after: str) -> list[str]:
    """A log of eight iterations of 80,000 whose last evaluation is at 78.6 %."""
    lines = [airank(0, "test_begin"), *run([0.5] * 8, total=80_000)]
    return [*lines, airank(10, "eval_accuracy:78.6, total_epoch_cnt:1"), *after]


@pytest.mark.parametrize(
    ("lines", "ended_by"),
    [
        (planned(), "target"),
        (planned(airank(11, "target_quality_time:10sec"), airank(12, "test_finish")), "target"),
        # It trained on: whatever would have followed is missing.
        (planned(run([0.5] * 9, total=80_000)[-1]), None),
        (planned(airank(20, "eval_accuracy:78.9, total_epoch_cnt:2")), None),
    ],
)
def test_a_log_that_ends_with_the_evaluation_at_the_target_does_not_end_early(
    lines: list[str], ended_by: str | None
) -> None:
    found = measured(lines, target=Accuracy(metric="x", value=78.5))
    assert found.time_to_train_s == pytest.approx(10.0)
    assert found.ended_by == ended_by
    ids = [reason.id for reason in found.reasons]
    assert ("ends-early" in ids) is (ended_by is None)


def test_a_log_that_ends_below_the_target_ends_early() -> None:
    found = measured(planned(), target=Accuracy(metric="x", value=79.0))
    assert found.ended_by is None
    assert "ends-early" in [reason.id for reason in found.reasons]


def test_the_time_to_the_target_that_a_log_claims_is_kept_as_its_claim() -> None:
    claims = airank(11, "target_quality_time:8130.06sec")
    found = measured(planned(claims), target=Accuracy(metric="x", value=79.0))
    assert found.time_to_train_s is None
    assert found.environment[OWN_TIME_TO_TRAIN] == 8130.06


# Accuracy.


def test_the_programs_own_evaluations_come_before_airanks() -> None:
    lines = trained("78.6")
    assert measured(lines).accuracy == AccuracyResult(
        metric="eval_accuracy", best=78.6, final=78.6, unit="%", evaluations=1
    )
    lines.insert(4, "Iter(val) [20]\tmIoU: 0.7860, aAcc: 1.0000")
    found = measured(lines).accuracy
    assert found is not None
    assert found.metric == "mIoU"


def evaluated(*own: float) -> list[str]:
    """A run that reaches 78.6 in AI-Rank's lines, with the program's ``own`` lines of some."""
    lines = trained("69.66", "77.25", "78.6")
    for number, value in enumerate(own):
        at = next(n for n, line in enumerate(lines) if f"total_epoch_cnt:{number}" in line)
        lines.insert(at + 1, f"Iter(val) [{20 * (number + 1)}]\tmIoU: {value:.4f}, aAcc: 1.0000")
    return lines


MIOU = Accuracy(metric="mIoU", value=78.5)


def test_an_evaluation_that_only_airanks_lines_have_counts() -> None:
    found = measured(evaluated(0.6966, 0.7725), target=MIOU)
    result = present(found.accuracy)
    assert (result.evaluations, result.best, result.final) == (3, 0.786, 0.786)
    assert (result.metric, result.unit, result.at_target) == ("mIoU", "fraction", 0.786)
    assert found.verdict == "valid"


def test_a_best_evaluation_below_the_one_at_the_target_is_rejected() -> None:
    found = measured(evaluated(0.6966, 0.7725, 0.7701), target=MIOU)
    (reason,) = (each for each in found.reasons if each.id == "evaluation-missing")
    assert reason.severity == "reject"
    assert "eval_accuracy:78.6" in reason.evidence[0].text


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("37724b19b6e5d41f9f147936d60b3c29", {"data_md5": "37724b19b6e5d41f9f147936d60b3c29"}),
        ("234584", {"data_samples": 234584}),
        ("0f1e2d", {}),
    ],
)
def test_the_checksum_of_the_data_is_kept(said: str, expected: dict[str, object]) -> None:
    lines = [airank(-1, f"load_data, checksum:{said}"), *trained("60.0")]
    kept = measured(lines).environment
    assert {name: kept[name] for name in kept if name.startswith("data_")} == expected


def test_a_target_that_is_a_fraction_is_reached_by_its_percent() -> None:
    """0.55 × 100 is above 55 by a rounding."""
    place = Place(file="a.log", line=1, text="x")
    values = [Evaluated(at=float(value), value=value, place=place) for value in (54.9, 55.0, 56.0)]
    found = reaching(values, Accuracy(metric="top-1", value=0.55, unit="fraction"))
    assert present(found).value == 55.0
    assert present(reaching(values, Accuracy(metric="top-1", value=56.0))).value == 56.0

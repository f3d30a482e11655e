"""The columns of rows that train to an accuracy, in two tables' words.

The default table has units in its cells; the wide one and documents have AI-Rank's titles.
"""

from __future__ import annotations

from collections.abc import Sequence

from k8sbench.model.counts import ABSENT
from k8sbench.model.group import SCRATCH, Result
from k8sbench.model.measurement import AccuracyResult
from k8sbench.report import numbers
from k8sbench.report.gpu_columns import Cells
from k8sbench.report.tables import Cell, absent

TITLES = ("Time2train(sec)", "accuracy(%)", "time to train", "restarts")
"""Columns of numbers."""


def of_groups(results: Sequence[Result], *, short: bool) -> Cells:
    """Make the columns; none where no row was trained."""
    trains = any(result.group.plan.mode == "train" for result in results)
    if not trains and all(result.group.runs_at_target is None for result in results):
        return {}
    restarts: Cells = {"restarts": _restarts} if trains else {}
    if short:
        return {"time to train": _short_time, "accuracy": _short_accuracy, **restarts}
    return {"Time2train(sec)": _time, "accuracy(%)": _accuracy, **restarts}


def _time(result: Result) -> Cell:
    group, training = result.group, result.group.training
    if group.time_to_train_s is None:
        return absent(group.missing.get("time_to_train_s", "no valid figure"))
    aim = "" if training is None or training.target is None else f" of {training.target:g} %"
    notes = [f"{group.runs_at_target} of {group.counted} runs reached the target{aim}"]
    if training is not None and training.ended_by == "target":
        notes.append("stopped at the target")
    return Cell(numbers.seconds(group.time_to_train_s), tuple(notes))


def _short_time(result: Result) -> Cell:
    cell = _time(result)
    return cell if cell.text == ABSENT else Cell(f"{cell.text} s", cell.notes)


def _accuracy(result: Result, percent: str = "") -> Cell:
    """Write the accuracy, and that there were no start weights."""
    group, training = result.group, result.group.training
    if group.accuracy is None:
        return absent(group.missing.get("accuracy", "no valid figure"))
    is_scratch = training is not None and training.weights == SCRATCH
    return Cell(_written(group.accuracy, percent), (SCRATCH,) if is_scratch else ())


def _short_accuracy(result: Result) -> Cell:
    return _accuracy(result, " %")


def _written(reached: AccuracyResult, percent: str) -> str:
    unit = percent if reached.unit == "%" else f" {reached.unit}"
    return f"{numbers.plain(reached.best, 5)}{unit} ({reached.metric})"


def _restarts(result: Result) -> Cell:
    training = result.group.training
    if training is not None:
        return Cell(str(training.restarts))
    trains = result.group.plan.mode == "train"
    return absent("no valid figure" if trains else "the runs do not train to an accuracy")

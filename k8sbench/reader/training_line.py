"""The training line of a log whose format is unknown, and what the labels of its numbers name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from k8sbench.model.notation import compile_expression
from k8sbench.reader import field_names, line_stamps
from k8sbench.reader.field_names import Meaning
from k8sbench.reader.line_expressions import Group, expression, number_pattern
from k8sbench.reader.line_stamps import Stamp
from k8sbench.reader.numbered_lines import Number, numbers_of, similar_lines

FEWEST = 5
"""Similar lines that make a training line."""
_EVALUATION = re.compile(
    r"\b(?:test\w*|val|valid(?:at\w+)?|eval\w*|infer(?:ence|ring)?|predict(?:ion|ing)?)\b",
    re.IGNORECASE,
)
_PREPARATION = re.compile(
    r"\b(?:tokeniz(?:e|ing)|pre-?process(?:ing)?|read)\b|\bMap:|%(?:\|| ?━)", re.IGNORECASE
)
"""Preparation of data, and progress bars with their smoothed rates."""


class Field(NamedTuple):
    """A number that may be a field of the format."""

    meaning: Meaning
    number: Number
    place: str
    """Its group in the expression, from 1; or its path in a JSON object."""


class TrainingLine(NamedTuple):
    """Similar training lines, and their numbers."""

    lines: tuple[str, ...]
    fields: tuple[Field, ...]
    stamp: Stamp | None
    stamp_place: str
    """Place of the stamp; empty without one."""
    similar: int
    """Number of similar lines in the log."""
    expression: str | None
    """Expression with a group for each number; None for JSON objects."""

    def named(self, name: str) -> list[Field]:
        """Return the numbers whose label names a field."""
        return [field for field in self.fields if field.meaning.field == name]

    @property
    def speeds(self) -> list[Field]:
        """Numbers that may be the speed of a step: those whose label says so, else any."""
        named = [field for name in ("rate", "step_seconds") for field in self.named(name)]
        if not named:
            named = [field for field in self.named("elapsed") if field.number.grows]
        possible = [
            field
            for field in self.named("")
            if min(field.number.values) > 0 and not field.number.is_constant
        ]
        # A time without a label may be the exact one of a smoothed rate.
        times = [f for f in possible if not f.number.words and f.meaning.unit is not None]
        return [*named, *times] if named else [f for f in possible if not _only_counts(f)]

    @property
    def iterations(self) -> list[Field]:
        """Numbers that may be the iteration's, by label, a total behind it, or growth alone."""
        growing = [
            field
            for field in self.fields
            if field.meaning.field in {"iteration", ""} and _only_counts(field)
        ]
        named = [field for field in growing if field.meaning.field == "iteration"]
        of_job = [field for field in named if "global" in field.number.words]
        with_total = [field for field in growing if self.total_of(field) is not None]
        return of_job or named or with_total or growing

    @property
    def restarts(self) -> bool:
        """True if an iteration is lower than the one before it, as in a new epoch."""
        values = self.iterations[0].number.values
        return any(later <= earlier for earlier, later in itertools.pairwise(values))

    @property
    def epochs(self) -> list[Field]:
        """Numbers without a known label that may be the epoch's."""
        return [
            field
            for field in self.fields
            if field.meaning.field == "" and field.number.is_whole and not field.number.counts_up
        ]

    @property
    def losses(self) -> list[Field]:
        """Losses, the usual one first."""
        losses = self.named("loss")
        return sorted(losses, key=lambda field: not field_names.is_usual_loss(field.number))

    def total_of(self, iteration: Field) -> Field | None:
        """Return the number after ``/``."""
        following = self.fields[self.fields.index(iteration) + 1 :][:1]
        return next((field for field in following if field.meaning.field == "total"), None)

    def in_brackets(self, field: Field) -> Field | None:
        """Return the number in brackets right after another: ``time 0.35 (0.40)``."""
        following = self.fields[self.fields.index(field) + 1 :][:1]
        is_next = field.number.behind.strip() == "("
        return next(iter(following), None) if is_next else None

    def places(self, line: str) -> list[tuple[str, int]]:
        """Return the groups of a line and where they begin."""
        if self.expression is None:
            return []
        match: Any = compile_expression(self.expression).search(line)
        groups = len(self.fields) + bool(self.stamp_place)
        return [(str(n), match.span(n)[0]) for n in range(1, groups + 1)] if match else []


def _only_counts(field: Field) -> bool:
    """True if a number counts up and is no time: ``32 sec`` is one."""
    return field.number.counts_up and not (field.meaning.unit and field.meaning.unit.is_time)


def find(lines: Sequence[str]) -> TrainingLine | None:
    """Return the most frequent line with an iteration and a speed; None without one.

    Lines with a loss go first; evaluations and the preparation of data are none.
    """
    kinds = [kind for kind in similar_lines(lines) if len(kind) >= FEWEST]
    usable = [k for k in kinds if not (is_evaluation(k[0]) or _PREPARATION.search(k[0]))]
    for kind in sorted(usable, key=lambda kind: not re.search("loss", kind[0], re.IGNORECASE)):
        training = _read_line(kind)
        if training.iterations and training.speeds:
            return training
    return None


def is_evaluation(line: str) -> bool:
    """True if a line names an evaluation before its first number.

    Never for JSON, whose training lines may have keys of evaluations, too.
    """
    _, numbers = numbers_of([line])
    return not any(number.path for number in numbers) and evaluation_text(line) is not None


def evaluation_text(line: str) -> str | None:
    """Return the text that tells an evaluation's line; None if it is none.

    From the evaluation's name to the first number, or a key of a JSON object.
    """
    word = _EVALUATION.search(line)
    if word is None:
        return None
    _, numbers = numbers_of([line])
    keys = [number for number in numbers if number.path and _EVALUATION.search(number.words)]
    if keys:
        return f'"{keys[0].path.split(".")[-1]}"'
    begins = [number.begin for number in numbers if number.begin >= 0 and number.label]
    if not begins or min(begins) < word.start():
        return None
    end = re.search(r"\d", line[word.end() :])
    return line[word.start() : word.end() + (end.start() if end else 0)].rstrip()


def _read_line(kind: Sequence[str]) -> TrainingLine:
    lines, numbers = numbers_of(kind)
    is_json = bool(numbers and numbers[0].path)
    stamp = line_stamps.find_stamp(lines, is_json=is_json)
    if stamp is not None and not is_json:
        numbers = [n for n in numbers if n.end <= stamp.begin or n.begin >= stamp.end]
    elif stamp is not None:
        numbers = [number for number in numbers if number.path != stamp.path]
    known = [(field_names.meaning_of(number), number) for number in numbers]
    known = [(meaning, number) for meaning, number in known if meaning.field != "none"]
    if is_json:
        fields = tuple(Field(meaning, number, number.path) for meaning, number in known)
        return TrainingLine(
            tuple(lines), fields, stamp, stamp.path if stamp else "", len(kind), None
        )
    begins = sorted([*(n.begin for _, n in known), *([stamp.begin] if stamp else [])])
    place = {begin: str(index) for index, begin in enumerate(begins, 1)}
    fields = tuple(Field(meaning, number, place[number.begin]) for meaning, number in known)
    groups = [Group(n.begin, n.end, number_pattern(n.texts, n.behind), n.label) for _, n in known]
    if stamp is not None:
        groups.append(Group(stamp.begin, stamp.end, stamp.pattern))
    written = expression(lines[0], sorted(groups)) if groups else ""
    stamp_place = place[stamp.begin] if stamp else ""
    return TrainingLine(tuple(lines), fields, stamp, stamp_place, len(kind), written)

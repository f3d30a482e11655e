"""The template of a log format: what the labels of a log name, and questions for the rest.

``?`` stands for an answer that a person gives. Nothing follows from the size of a number.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from k8sbench.model.notation import Unit, compile_expression
from k8sbench.model.plain_text import clean
from k8sbench.reader import field_names, head_facts, training_line
from k8sbench.reader.line_expressions import literal, quoted
from k8sbench.reader.numbered_lines import DATE, similar_lines
from k8sbench.reader.training_line import Field, TrainingLine

_SHOWN = 3
"""Lines of a kind that the template shows."""
_WIDTH = 88
"""Characters of a line that are shown in one piece."""
_INDENT = "\n      "
"""Before a line of the format."""
_FIELD_INDENT = "\n        "
_DATED = re.compile(rf"(?:{DATE})(?<=\d\d:\d\d:\d\d)")
"""A date and a time."""


def fill(lines: Sequence[str], *, batch: int | None = None) -> dict[str, str | int] | None:
    """Return the values of the template of a benchmark file; None without a training line.

    ``batch`` per GPU is the user's, and answers its question.
    """
    training = training_line.find(lines)
    if training is None:
        return None
    first = lines.index(training.lines[0])
    # What later lines state of another run must contradict the head, not hide its statement.
    facts, precision = head_facts.find_facts(lines[: first + 1])
    counts = _counted_unit(training)
    every = _distance(training)
    number = int(training.iterations[0].number.values[0])
    begin = number - every if number > every and len(training.iterations) == 1 else 0
    return {
        "count": training.similar,
        "examples": "\n".join(_examples(training)),
        "sample": counts or "?  # what is counted: samples, images, clips, sequences or tokens",
        "precision": precision or "fp32",
        "batch": batch or "?",
        "batch_hint": "".join(f"\n    #   {text}" for text in _batch_hints(lines[:first])),
        "questions": "".join(_questions(training, facts)),
        "fields": "".join(_fields(training)),
        "expression": "".join(_expression(training)),
        "evaluation": "".join(_evaluation(lines[first:], training)),
        "facts": "".join(_facts(facts)),
        "warmup": begin + training.similar // 4 * every,
        "iterations": max(training.similar // 2, 1),  # where single steps are printed, one a line
        "every": every,
    }


def _distance(training: TrainingLine) -> int:
    """Return the iterations from a line to the next, most often; 1 where they are not known."""
    if len(training.iterations) > 1:
        return 1
    numbers = training.iterations[0].number.values
    steps = [int(b - a) for a, b in itertools.pairwise(numbers) if b > a]
    return Counter(steps).most_common(1)[0][0]


def _counted_unit(training: TrainingLine) -> str | None:
    """Return the benchmark's unit by that of the speed; None if no label names it."""
    if len(training.speeds) > 1:
        return None
    unit = training.speeds[0].meaning.unit
    if _is_time(training.speeds[0]) or (unit and unit.kind == "steps"):
        return "samples"
    return unit.noun if unit and unit.kind else None


# -- the lines ------------------------------------------------------------------------------------


def _examples(training: TrainingLine) -> Iterator[str]:
    """Show the first lines, with the number of each group under it."""
    for line in training.lines[:_SHOWN]:
        text = clean(line)
        marks = [" "] * len(text)
        for place, begin in training.places(text):
            marks[begin : begin + len(place)] = place
        for at in range(0, len(text), _WIDTH):
            yield f"#   {text[at : at + _WIDTH]}".rstrip()
            if under := "".join(marks)[at : at + _WIDTH].rstrip():
                yield f"#   {under}"


def _batch_hints(head: Sequence[str]) -> Iterator[str]:
    """Yield what the lines before the training say of a batch."""
    statements = head_facts.stated_batches(head)
    yield from (f"the log says: {clean(text)[:_WIDTH]}" for text in statements[:_SHOWN])


# -- the questions --------------------------------------------------------------------------------


def _asked(key: str, answer: str | None, answers: str, *why: str) -> str:
    """Write a key; without an answer as a question, with the allowed answers and why it matters."""
    if answer is not None:
        return f"{_INDENT}{key}: {answer}"
    reasons = "".join(f"{_INDENT}# {text}" for text in why)
    return f"{reasons}{_INDENT}{key}: ?  # {answers}"


def _questions(training: TrainingLine, facts: dict[str, str]) -> Iterator[str]:
    """Yield the keys that decide the figure; what no label names is asked."""
    names = {name for field in training.speeds for name in _possible_names(field)}
    known = len(training.speeds) == 1
    unit = training.speeds[0].meaning.unit if known else None
    is_time = all(map(_is_time, training.speeds))
    times = "s or ms" if names == {"elapsed"} else "s/step, ms/step, s/sample or ms/sample"
    if "elapsed" in names and names != {"elapsed"}:
        times += "; s or ms of elapsed"
    rates = "samples/s, images/s, tokens/s, Ktokens/s or steps/s"
    printed_units = times if is_time else rates if names == {"rate"} else f"{times}; {rates}"
    may_be_of_a_sample = is_time and names != {"elapsed"} and not (unit and unit.kind)
    yield _asked(
        "unit",
        _written_unit(unit, names) if unit and unit.kind else None,
        f"of the speed as printed: {printed_units}",
        "In which unit is the speed printed? A wrong unit makes the figure wrong. The time of a",
        "step becomes a speed by the batch, that of a sample does not.",
    )
    yield _asked(
        "per",
        f"job{'  # card, if it is the time of a sample of one GPU' * may_be_of_a_sample}"
        if is_time
        else "card"
        if known and _is_of_one_gpu(training.speeds[0])
        else None,
        "job or card; job for the time of a step",
        "Is it the speed of the whole job, or of one GPU (card)? That of one is multiplied by the",
        "number of GPUs.",
    )
    yield _asked(
        "averaged",
        "interval" if names == {"elapsed"} else None,
        "interval, step, running or last",
        "Of which steps is the speed the mean? One step says nothing of the others between lines.",
        "  interval: all since the line before     step: that step alone",
        "  running: all since the beginning        last: the last N; add a line `last: N`",
        "Numbers that jump from line to line are of a step or the interval; those that hardly",
        "change are running means. The stamps of the lines often disprove a wrong answer.",
    )
    yield from _iteration_questions(training)
    may_be_tokens = not is_time and (unit is None or unit.kind in {"", "tokens"})
    if may_be_tokens and "sequence_length" not in facts:
        yield _asked(
            "sequence_length",
            None,
            "a number; null if the speed is not in tokens, or the batch is, too",
            "How many tokens has one sample of the batch? A speed in tokens is checked by them.",
        )


def _written_unit(unit: Unit, names: Collection[str]) -> str:
    """Write a unit as the file declares it; that of a total is a time alone."""
    return str(unit).removesuffix("/step") if set(names) == {"elapsed"} else str(unit)


def _is_time(field: Field) -> bool:
    """True if the label or unit says that a number is a time."""
    name, unit = field.meaning
    is_clock = not name and field.number.is_clock
    return name in {"step_seconds", "elapsed"} or is_clock or (unit is not None and unit.is_time)


def _is_of_one_gpu(field: Field) -> bool:
    return field_names.is_of_one_gpu(field.meaning.field, field.number, field.meaning.unit)


def _iteration_questions(training: TrainingLine) -> Iterator[str]:
    numbers = [int(value) for value in training.iterations[0].number.values]
    every = _distance(training)
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    is_known = len(training.iterations) == 1 and numbers == list(range(numbers[0], numbers[-1] + 1))
    yield _asked(
        "iteration_counts",
        "steps" if is_known else None,
        "steps or samples; with samples, divide `warmup` below by the samples of a step of the"
        " job, and leave `iterations`",
        f"What does the iteration count: {shown} …? Samples are no steps.",
    )
    is_from_0 = 0 in numbers or (every > 1 and numbers[0] % every == every - 1)
    yield f"{_INDENT}first_iteration: {int(not is_from_0)}"


def _evaluation(lines: Sequence[str], training: TrainingLine) -> Iterator[str]:
    """Ask which of the other lines is an evaluation."""
    patterns: dict[str, str] = {}
    for kind in similar_lines(lines):
        if (text := training_line.evaluation_text(kind[0])) is not None:
            patterns.setdefault(literal(text), kind[0])
    others = [
        (pattern, line)
        for pattern, line in patterns.items()
        if not compile_expression(pattern).search(training.lines[0])
    ]
    if not others:
        return
    yield f"{_INDENT}# Which line is an evaluation? Its time is not that of training."
    for pattern, line in others[:_SHOWN]:
        yield f"{_INDENT}#   {quoted(pattern)} matches: {clean(line)[:_WIDTH]}"
    yield f"{_INDENT}evaluation: ?  # the one whose lines each evaluation prints; or null for none"


# -- the fields and the expression ---------------------------------------------------------------


def _fields(training: TrainingLine) -> Iterator[str]:
    """Yield the fields: those that labels name, and questions which number is which."""
    where = "path" if training.expression is None else "number"
    yield f"{_INDENT}fields:  # name: its {where} in the lines above; docs/catalog.md has all names"
    if training.stamp:
        yield f"{_FIELD_INDENT}stamp: {_written_place(training.stamp_place)}"
    elif unread := _DATED.search(training.lines[0]):
        text = clean(unread[0])
        yield f"{_FIELD_INDENT}# The stamp {text} is not read: its form is unknown, or it does not"
        yield f"{_FIELD_INDENT}# advance from line to line."
    chosen = dict(_chosen(training))
    for name, field in chosen.items():
        yield f"{_FIELD_INDENT}{name}: {_written_place(field.place)}  # {_spelled(field, name)}"
        if field in training.speeds and (other := training.in_brackets(field)):
            yield from _second_number(name, other)
    yield from _open_fields(training, chosen)


def _expression(training: TrainingLine) -> Iterator[str]:
    """Yield the expression of the line, and the forms of its stamps and numbers."""
    if training.stamp:
        yield f'{_INDENT}stamp_format: "{training.stamp.form}"'
    texts = [text for field in training.fields for text in field.number.texts]
    if any("," in text and ":" not in text for text in texts):
        yield f'{_INDENT}thousands: ","'
    if training.expression is not None:
        yield f"{_INDENT}record: {quoted(training.expression)}"


def _chosen(training: TrainingLine) -> Iterator[tuple[str, Field]]:
    """Yield the fields that labels name for certain."""
    if len(training.iterations) == 1:
        yield "iteration", training.iterations[0]
        if total := training.total_of(training.iterations[0]):
            yield "total", total
    if training.restarts and training.named("epoch"):
        yield "epoch", training.named("epoch")[0]
    if training.losses:
        yield "loss", training.losses[0]
    counts = _counted_unit(training)
    for field in training.named("all_samples"):
        if counts and field.meaning.unit and field.meaning.unit.noun == counts:
            yield "all_samples", field
    if counts == "samples" and len(training.named("step_samples")) == 1:
        yield "step_samples", training.named("step_samples")[0]
    if len(training.named("data_seconds")) == 1:
        yield "data_seconds", training.named("data_seconds")[0]
    if len(training.speeds) == 1 and training.speeds[0].meaning.field:
        yield training.speeds[0].meaning.field, training.speeds[0]


def _open_fields(training: TrainingLine, chosen: dict[str, Field]) -> Iterator[str]:
    """Yield the questions which number is which field."""
    if "iteration" not in chosen:
        yield f"{_FIELD_INDENT}# Which number counts the steps that the speed is of?"
        yield f"{_FIELD_INDENT}iteration: ?  # {_listed(training.iterations)}"
    if training.restarts and training.epochs and "epoch" not in chosen:
        yield f"{_FIELD_INDENT}# The iteration begins anew. Which number is the epoch? Without it"
        yield f"{_FIELD_INDENT}# the log counts as several runs."
        yield f"{_FIELD_INDENT}epoch: ?  # {_listed(training.epochs)}; or delete this line"
    for field in training.named("steps"):
        text = clean(f"{field.number.texts[0]}{field.number.behind.rstrip(' ,;:()')}")[:20]
        yield f"{_FIELD_INDENT}# Is the time that of all {text}, or of one of them?"
        place = _written_place(field.place)
        yield f"{_FIELD_INDENT}steps: ?  # {place} ({text}) if of all; delete this line if of one"
    if not {"rate", "step_seconds", "elapsed"} & chosen.keys():
        yield f"{_FIELD_INDENT}# Which number is the speed of training? It becomes the figure."
        yield f"{_FIELD_INDENT}# Write one of these lines in place of `speed: ?`:"
        for field in training.speeds:
            place = _written_place(field.place)
            for name in _possible_names(field):
                is_clock = name == "elapsed"
                clock = ", which runs as a clock: the time since a beginning" if is_clock else ""
                yield f"{_FIELD_INDENT}#   {name}: {place}  # {_spelled(field, name)}{clock}"
                if other := training.in_brackets(field):
                    yield from _second_number(name, other)
        yield f"{_FIELD_INDENT}speed: ?"


def _second_number(name: str, field: Field) -> Iterator[str]:
    """Offer the number in brackets after a speed."""
    yield f"{_FIELD_INDENT}# Or that in brackets, often the mean since the epoch began"
    yield f"{_FIELD_INDENT}# (averaged: running):"
    text = clean(field.number.texts[0])
    yield f"{_FIELD_INDENT}#   {name}: {_written_place(field.place)}  # ({text})"


def _possible_names(field: Field) -> list[str]:
    """Return the fields that a number may be which is a speed or a clock."""
    if field.meaning.field:
        return [field.meaning.field]
    if field.number.is_clock:
        return ["elapsed"]
    return ["step_seconds"] if _is_time(field) else ["step_seconds", "rate"]


def _spelled(field: Field, name: str = "") -> str:
    """Write a number with its label and unit."""
    number, unit = field.number, field.meaning.unit
    text = f"{number.label} {number.texts[0]}{number.unit_text}"
    return clean(
        f"{text}, unit: {_written_unit(unit, [name])}" if unit and unit.kind else text
    ).strip()


def _listed(fields: Sequence[Field]) -> str:
    return " or ".join(f"{_written_place(field.place)} ({_spelled(field)})" for field in fields)


def _written_place(place: str) -> str:
    """Write the number of a group, or the path of a value."""
    return place if place.isdigit() else quoted(place)


def _facts(expressions: dict[str, str]) -> Iterator[str]:
    """Yield the expressions of what the log states of its run."""
    if expressions:
        yield f"{_INDENT}facts:  # what the log states of its run; it is held against the options"
        for text in expressions.values():
            yield f"{_FIELD_INDENT}- {quoted(text)}"

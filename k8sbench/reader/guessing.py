"""Guesses a log's format from its most frequent line.

The line may state its time in several ways. Each is a :class:`~k8sbench.reader.guess.line.Reading`;
the one that the other numbers and the stamps prove is proposed, with what proves it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from k8sbench.model.plain_text import clean
from k8sbench.reader.declared import MAX_LINE
from k8sbench.reader.guess import choice, expressions, stamps
from k8sbench.reader.guess import facts as stated_facts
from k8sbench.reader.guess.expressions import quoted
from k8sbench.reader.guess.facts import GuessedFacts
from k8sbench.reader.guess.line import Reading, TrainingLine
from k8sbench.reader.guess.proofs import Steps
from k8sbench.reader.lines import ended, pieces
from k8sbench.reader.number_columns import Kind, NumberColumn, durations, find_columns, similar

FIRST_LINES = 100_000
"""Lines that are read."""
FEWEST = 5
"""Similar lines that make a training line."""
_COMPARED = 1000
"""Similar lines whose numbers are compared."""
_OTHER = re.compile(
    r"\b(?:test|val|valid(?:at\w+)?|eval\w*|infer(?:ence|ring)?|predict(?:ion|ing)?"
    r"|tokeniz(?:e|ing)|pre-?process(?:ing)?)\b|\b(?-i:Map):|%(?:\|| ?━)",
    re.IGNORECASE,
)
"""Evaluations, the preparation of data, and progress bars with their smoothed rates."""
_SHAPE = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?| +", re.IGNORECASE)
_GLOBAL = re.compile(r"global|update")
_WHOLE = re.compile(r"[\d,]+(?:\.0*)?")


def first_lines(blocks: Iterable[str]) -> list[str]:
    """Return the first lines of logs as their readers see them."""
    every = (line for block in blocks for line in ended(block))
    some = (line.rstrip("\r\n") for line in itertools.islice(every, FIRST_LINES))
    return [piece.text[:MAX_LINE] for line in some for piece in pieces(line)]


def guess(
    lines: Sequence[str], *, batch: int | None = None, gpus: int | None = None
) -> dict[str, str | int] | None:
    """Return values for the template of a benchmark file.

    They describe the most frequent line that can be a training line; None without one. ``batch``
    per GPU and ``gpus`` are those of the user.
    """
    kinds = defaultdict[str, list[str]](list)
    for line in lines:
        kinds[_SHAPE.sub("0", line)].append(line)
    often = sorted((kind for kind in kinds.values() if not _OTHER.search(kind[0])), key=len)
    facts = stated_facts.guess_facts(lines, batch=batch, gpus=gpus)
    often = [kind for kind in often[::-1] if len(kind) >= FEWEST]
    # Lines with a loss are sooner those of a training.
    for alike in sorted(often, key=lambda kind: not _has_loss(kind[0])):
        lines_alike = similar(alike[:_COMPARED])
        training = _training_line(lines_alike, facts)
        reading = None if training is None else choice.best(training)
        if training is None or reading is None:
            continue
        if not any(_has_decimal_comma(each) for each in reading.groups.values()):
            return _values(training, reading, len(alike))
    return None


def _has_decimal_comma(column: NumberColumn) -> bool:
    """True for ``0,500`` and ``1,83``, which no format can declare."""
    torn = re.match(r",\d", column.behind) is not None
    return any(re.match(r"[-+]?0,|\d+$" if torn else r"[-+]?0,", text) for text in column.texts)


def _has_loss(line: str) -> bool:
    return any(each.kind == Kind.LOSS for each in find_columns([line]))


# -- choice ---------------------------------------------------------------------------------------


def _training_line(lines: Sequence[str], facts: GuessedFacts) -> TrainingLine | None:
    """Find the columns of a training line; None without a step."""
    found = find_columns(lines)
    varied = len(set(lines)) > 1
    stamp = stamps.guess_stamp(lines, is_json=bool(found and found[0].path))
    chosen = _steps(found, varied=varied)
    if "iteration" not in chosen:
        return None
    losses = [each for each in found if each.kind == Kind.LOSS]
    if losses:
        usual = ("loss", "train loss", "train_loss", "lm loss", "total_loss")
        chosen["loss"] = max(losses, key=lambda each: each.label.split(".")[-1] in usual)
    return TrainingLine(
        lines=tuple(lines),
        columns=tuple(found),
        durations=tuple(durations(lines)),
        chosen=chosen,
        steps=Steps(chosen["iteration"], stamp),
        facts=facts,
        varied=varied,
    )


def _steps(found: Sequence[NumberColumn], *, varied: bool) -> dict[str, NumberColumn]:
    """Choose iteration, its total, and the epoch if iterations restart in it."""
    of = {index: each for index, each in enumerate(found[1:]) if each.kind == Kind.OF}
    bare = [i for i in of if found[i].kind not in {Kind.STEP, Kind.EPOCH}]
    likely = [i for i, each in enumerate(found) if each.kind == Kind.STEP or i in bare[-1:]]
    likely = [i for i in likely if _counts(found[i], varied=varied)]
    if not likely and bare and varied and _counts(found[bare[-1] + 1], varied=True):
        return {"epoch": found[bare[-1]], "iteration": found[bare[-1] + 1]}  # 0/40 of DeepSpeed
    if not likely:
        return {}
    best = max(likely, key=lambda i: (_step_rank(found[i]), i in of))
    chosen = {"iteration": found[best]}
    if best in of:
        chosen["total"] = of[best]
    epochs = [each for each in found if each.kind == Kind.EPOCH]
    # ``[0/300][50/1251]`` and ``Train: 0 [50/1251``: the number before.
    before = found[best - (2 if best - 2 in of else 1)] if best else None
    if not epochs and best in bare and before and before.end >= 0:
        gap = before.behind[: found[best].begin - before.end]
        epochs = [before] if best - 2 in of or gap.strip() == "[" else []
    epochs = [each for each in epochs if _counts(each, varied=False)]
    steps = found[best].values
    goes_on = all(a < b for a, b in itertools.pairwise(steps))
    if epochs and not _GLOBAL.search(found[best].label):
        passes = len(set(epochs[0].values)) > 1
        if not (passes and goes_on):
            chosen["epoch"] = epochs[0]
    return chosen


def _step_rank(column: NumberColumn) -> int:
    label = column.label
    if _GLOBAL.search(label):
        return 3
    return 0 if re.search(r"micro|inner|local", label) else 1 if "batch" in label else 2


def _counts(column: NumberColumn, *, varied: bool) -> bool:
    """True if a column has whole numbers that mostly grow."""
    is_whole = all(map(_WHOLE.fullmatch, column.texts)) and math.isfinite(max(column.values))
    if not is_whole or column.behind[:1].isalpha():
        return False
    pairs = list(itertools.pairwise(column.values))
    return not varied or 2 * sum(a < b for a, b in pairs) > len(pairs)


# -- the file -------------------------------------------------------------------------------------


def _values(line: TrainingLine, reading: Reading, count: int) -> dict[str, str | int]:
    """Return the values of the file; ``count`` is the number of similar lines."""
    facts = reading.facts
    columns = {**line.chosen, **reading.groups}
    is_json = line.chosen["iteration"].path != ""
    stamp = line.steps.stamp
    if is_json:
        paths = {name: each.path for name, each in columns.items()}
        paths |= {"stamp": stamp.path} if stamp else {}
        expression = (
            "{" + ", ".join(f"{name}: {quoted(path)}" for name, path in paths.items()) + "}"
        )
    else:
        expression = quoted(expressions.written(line.lines, columns, stamp))
    numbers = [value / _samples_of_step(line, reading) for value in line.steps.column.values]
    first = int(numbers[0])
    every = max(round(line.every / _samples_of_step(line, reading)), 1)
    is_single = reading.averaged == "step"
    return {
        "line": clean(line.lines[0]),
        "key": "fields" if is_json else "record",
        "expression": expression,
        "unit": reading.unit,
        "sample": reading.sample,
        "per": reading.per,
        "averaged": reading.averaged,
        "first": 0 if first == 0 or (every > 1 and first % every == every - 1) else 1,
        "every": every,
        "warmup": (first - every if first > every else 0) + every * (count // 4),
        "iterations": max((1 if is_single else every) * (count // 2), 1),
        "batch": reading.batch.each,
        "note": reading.batch.note,
        "precision": facts.precision or "fp32",
        "questions": "".join(f"\n      # {text}" for text in _questions(reading)),
        "more": "".join(_more(columns, stamp, reading)),
    }


def _samples_of_step(line: TrainingLine, reading: Reading) -> float:
    """Samples of a step of the job, where the log numbers its steps by samples; else 1.

    Of an unknown batch a line is taken as one step: no window then is longer than the log.
    """
    if not reading.counts_samples:
        return 1
    if reading.batch.is_unknown:
        return line.every
    return reading.batch.per_step(reading.facts.gpus)


def _more(
    columns: dict[str, NumberColumn], stamp: stamps.Stamp | None, reading: Reading
) -> Iterable[str]:
    """Yield further keys of the format."""
    facts = reading.facts
    if reading.averaged == "last":
        yield f"\n      last: {reading.last}  # check: steps that a number averages"
    if any("," in text and ":" not in text for each in columns.values() for text in each.texts):
        yield '\n      thousands: ","  # check'
    if stamp:
        yield f'\n      stamp_format: "{stamp.form}"  # check'
    if reading.counts_samples:
        yield "\n      iteration_counts: samples  # check"
    if reading.sample == "tokens" and not reading.states_tokens:
        length = facts.length or 1
        yield f"\n      sequence_length: {length}  # check: tokens of a sequence of the batch"
    if facts.expressions:
        yield "\n      facts:  # check: what the log states of its run"
        for text in facts.expressions.values():
            yield f"\n        - {quoted(text)}  # check"


_AVERAGED = {
    "interval": "the steps since the line before",
    "step": "that step alone",
    "running": "all steps so far",
    "last": "the last steps, as many as its label says",
}


def _questions(reading: Reading) -> Iterable[str]:
    """Yield the questions that decide the figure, what is assumed, and what proves it."""
    averaged = "the totals of two lines" if reading.is_total else _AVERAGED[reading.averaged]
    yield f"Averaged over what? Assumed: {averaged}. {reading.of_averaging}"
    whole = reading.per == "job"
    yield f"Per whom? Assumed: {'the whole job' if whole else 'one GPU'}. {reading.of_scope}"
    yield f"Whose batch, and how many samples per step of the job? {reading.batch.why}"
    yield f"Which unit? Assumed: {reading.unit}. {reading.of_unit}"

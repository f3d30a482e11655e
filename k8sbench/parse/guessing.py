"""Guesses a log's format from its most frequent line."""

from __future__ import annotations

import datetime
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from k8sbench.model.notation import SECONDS, Match, Unit, compiled
from k8sbench.model.plain_text import clean
from k8sbench.parse.declared import MAX_LINE, PRECISIONS
from k8sbench.parse.family import number_in
from k8sbench.parse.lines import ended, pieces
from k8sbench.parse.number_columns import (
    LONGEST_TIME,
    Kind,
    NumberColumn,
    of_lines,
    similar,
    strings,
)

FIRST_LINES = 100_000
"""Lines that are read."""
FEWEST = 5
"""Similar lines that make a training line."""
_COMPARED = 200
"""Similar lines whose numbers are compared."""
_OTHER = re.compile(r"\b(?:test|val|valid(?:at\w+)?|eval\w*)\b|%\|", re.IGNORECASE)
"""Evaluations, and progress bars with their smoothed rates."""
_SHAPE = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?| +", re.IGNORECASE)
_MEAN = re.compile(r"\S{0,4} *\( *\d")
"""As many programs print a meter: that step, and the mean in brackets."""
_GLOBAL = re.compile(r"global|update")


class ChosenColumns(NamedTuple):
    """The columns of a training line."""

    columns: dict[str, NumberColumn]
    stamp: Stamp | None

    @property
    def speed(self) -> NumberColumn:
        """The rate, or the time of a step."""
        return self.columns.get("rate") or self.columns["step_seconds"]


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
    for alike in often[::-1]:
        sample = similar(alike[:_COMPARED])
        chosen = _chosen(sample) if len(alike) >= FEWEST else None
        if chosen is not None:
            return _values(alike, sample, chosen, _facts(lines, batch=batch, gpus=gpus))
    return None


# -- choice ---------------------------------------------------------------------------------------


def _chosen(lines: Sequence[str]) -> ChosenColumns | None:
    """Choose the columns; None without a rate or a step."""
    found = of_lines(lines)
    varied = len(set(lines)) > 1
    stamp = _stamps(lines, is_json=bool(found and found[0].path))
    chosen = _steps(found, varied=varied)
    if "iteration" not in chosen:
        return None
    every = _every(chosen["iteration"])
    speeds = [each for each in found if each.kind in {Kind.RATE, Kind.SECONDS}]
    speeds = [each for each in speeds if _is_speed(each, stamp, every, varied)]
    if not speeds:
        return None
    best = max(speeds, key=_rank)  # of equals the first
    chosen["rate" if best.kind == Kind.RATE else "step_seconds"] = best
    losses = [each for each in found if each.kind == Kind.LOSS]
    if losses:
        usual = ("loss", "train loss", "train_loss", "lm loss", "total_loss")
        chosen["loss"] = max(losses, key=lambda each: each.label.split(".")[-1] in usual)
    return ChosenColumns(chosen, stamp)


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
    is_whole = all(re.fullmatch(r"[\d,]+", text) for text in column.texts)
    if not is_whole or column.behind[:1].isalpha():
        return False
    pairs = list(itertools.pairwise(column.values))
    return not varied or 2 * sum(a < b for a, b in pairs) > len(pairs)


def _every(column: NumberColumn) -> int:
    steps = Counter(int(b - a) for a, b in itertools.pairwise(column.values) if b > a)
    return steps.most_common(1)[0][0] if steps else 1


def _is_speed(column: NumberColumn, stamp: Stamp | None, every: int, varied: bool) -> bool:
    """True unless the numbers are totals."""
    values = column.values
    if min(values) < 0 or max(values) <= 0:
        return False
    if column.kind == Kind.RATE:
        return True
    scale = column.unit.scale if column.unit else 1.0
    pairs = list(itertools.pairwise(values))
    grows, falls = all(a < b for a, b in pairs), all(a > b for a, b in pairs)
    moves = len(pairs) > 2 and (grows or falls) and max(values) > 1.5 * min(values)
    if (varied and moves) or max(values) * scale > LONGEST_TIME:
        return False
    passed = stamp.passed if stamp and len(stamp.seconds) == len(values) else 0.0
    # A line's whole time, by the clock: that of a step is not printed.
    whole = passed and sum(values[1:]) * scale / passed
    return not (every > 1 and whole and abs(whole - 1) < 0.1)


def _rank(column: NumberColumn) -> tuple[int, ...]:
    """Order of preference: samples of the job, then seconds, then steps."""
    label, noun = column.label, column.unit.noun if column.unit else ""
    is_rate = column.kind == Kind.RATE
    known = (
        column.unit is not None
        or re.search(r"ips|qps|fps|tps|wps|tgs|sps|throughput", label) is not None
    )
    counts = is_rate and noun != "steps" and "ups" not in label
    about = 3 if counts and known else 2 if not is_rate else 1
    smoothed = re.search(r"running|average|mean|overall|global_avg", label) is not None
    newest = re.search(r"last|max|min", label) is None
    return about, not smoothed, newest, not (column.unit and column.unit.per_card)


# -- the file -------------------------------------------------------------------------------------


def _values(
    alike: Sequence[str], sample: Sequence[str], chosen: ChosenColumns, facts: StatedFacts
) -> dict[str, str | int]:
    speed = chosen.speed
    unit, noun = _unit(speed)
    iteration = chosen.columns["iteration"]
    first, every = int(iteration.values[0]), _every(iteration)
    single = speed.begin >= 0 and _MEAN.match(speed.behind) is not None
    running = "running" in speed.label
    key = "fields" if speed.path else "record"
    if speed.path:
        paths = {name: each.path for name, each in chosen.columns.items()}
        paths |= {"stamp": chosen.stamp.path} if chosen.stamp else {}
        written = "{" + ", ".join(f"{name}: {_quoted(path)}" for name, path in paths.items()) + "}"
    else:
        written = _quoted(_expression(sample, chosen))
    more: dict[str, str] = {}
    if any("," in text for each in chosen.columns.values() for text in each.texts):
        more["thousands"] = '","  # check'
    if chosen.stamp:
        more["stamp_format"] = f'"{chosen.stamp.form}"  # check'
    if noun == "tokens":
        more["sequence_length"] = f"{facts.length or 1}  # check: tokens of a sequence of the batch"
    if facts.expressions:
        more["facts"] = " # check: what the log states of its run"
    lines = [f"\n      {name}: {text}" for name, text in more.items()]
    lines += [f"\n        - {_quoted(text)}  # check" for text in facts.expressions]
    is_card = bool(speed.unit and speed.unit.per_card) or _of_a_card(speed, sample[0])
    return {
        "line": clean(sample[0]),
        "key": key,
        "expression": written,
        "unit": unit,
        "sample": noun,
        "per": "card" if is_card else "job",
        "averaged": "step" if single else "running" if running else "interval",
        "first": 0 if first == 0 or (every > 1 and first % every == every - 1) else 1,
        "every": every,
        "warmup": (first - every if first > every else 0) + every * (len(alike) // 4),
        "iterations": max((1 if single else every) * (len(alike) // 2), 1),
        "batch": facts.batch or 1,
        "precision": facts.precision or "fp32",
        "note": facts.note,
        "more": "".join(lines),
    }


def _of_a_card(speed: NumberColumn, line: str) -> bool:
    """True for rates of one GPU: torchtitan's and Paddle's labels do not name it."""
    if re.search(r"(?:per|/)[_ ]?(?:gpu|device|card)|\b(?:tgs|ips)\b", speed.label):
        return True
    return "tps" in speed.label and "mfu" in line


def _unit(speed: NumberColumn) -> tuple[str, str]:
    """Return the declared unit and the benchmark's."""
    found = speed.unit or Unit(1.0, "")
    if speed.kind == Kind.SECONDS:
        return str(Unit(found.scale, "steps", is_time=True)), "samples"
    by_label = (("tps", "tokens"), ("wps", "tokens"), ("tgs", "tokens"), ("ups", "steps"))
    noun = found.noun if found.kind else ""
    noun = noun or next((noun for name, noun in by_label if name in speed.label), "samples")
    # A group includes the K of its number, which may become M.
    scale = 1.0 if _many(speed) else found.scale
    return str(Unit(scale, noun)), "samples" if noun == "steps" else noun


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _expression(lines: Sequence[str], chosen: ChosenColumns) -> str:
    """Write an expression: each group, after as many words as tell its place."""
    groups: list[_Group] = [*chosen.columns.items()]
    if chosen.stamp:
        groups.append(("stamp", chosen.stamp))
    groups.sort(key=lambda group: group[1].begin)
    expression = ""
    for words in range(1, 6):
        expression = _written(lines[0], groups, words)
        found = compiled(expression)
        if all(_fits(found.search(line), dict(groups), n) for n, line in enumerate(lines)):
            break
    return expression


def _fits(match: Match | None, groups: Mapping[str, NumberColumn | Stamp], line: int) -> bool:
    """True if a match has the texts of the columns."""
    texts = match.groupdict() if match else {}
    wanted = {name: each.texts for name, each in groups.items() if line < len(each.texts)}
    return match is not None and all(
        texts[name].startswith(each[line]) if name == "rate" else texts[name] == each[line]
        for name, each in wanted.items()
    )


def _written(line: str, groups: Sequence[_Group], words: int) -> str:
    made, at = "", 0
    for name, group in groups:
        text = line[at : group.begin]
        word = re.findall(rf"(?:\w+\W+){{0,{words - 1}}}\w*\W*$", text)[0]
        if isinstance(group, NumberColumn) and group.label in text.lower():
            word = max(word, text[text.lower().rindex(group.label) :], key=len)
        if not (at or re.search(r"\d", text)):
            made, word = "^", text
        if at > 0 and word != text:
            made += ".*?"
        if re.search(rf"[^\w]{re.escape(word)}$", text) and re.match("[A-Za-z]", word):
            made += r"\b"
        made += rf"{_literal(word)}\s*(?P<{name}>{_form(name, group)})"
        at = group.end + (len(_many(group)) if name == "rate" else 0)
    return made + _literal(
        re.findall(r"^ ?[\w/]*", line[at:])[0] if groups[-1][0] != "stamp" else ""
    )


def _many(column: NumberColumn | Stamp) -> str:
    """Return the K or M behind a rate."""
    found = isinstance(column, NumberColumn) and re.match(r" ?[kKMG](?!\w)", column.behind)
    return found[0] if found else ""


def _form(name: str, group: NumberColumn | Stamp) -> str:
    """Write what the text of a group looks like."""
    if isinstance(group, Stamp):
        return group.pattern
    if name == "loss":
        return r"[-+.\w]+"
    comma = "," if any("," in text for text in group.texts) else ""
    if name in {"epoch", "iteration", "total"}:
        return rf"[\d{comma}]+" if comma else r"\d+"
    power = (
        r"(?:[eE][-+]?\d+)?" if any(re.search("e", t, re.IGNORECASE) for t in group.texts) else ""
    )
    many = " ?[kKMG]?" if name == "rate" and _many(group) else ""
    return rf"[\d.{comma}]+{power}{many}"


_TOKENS = re.compile(r"(?s)(?P<space>(?:\\[ \t\n\f\r])+)|(?P<number>(?:\\\.|\d)+)|\\?.")
"""Parts of an escaped text."""


def _literal(text: str) -> str:
    """Escape a text whose numbers and spaces may differ."""

    def written(token: re.Match[str]) -> str:
        if token["space"] or token["number"]:
            return r"\s*" if token["space"] else r"[\d.]+"
        return token[0] if token[0].isprintable() else "."  # YAML has no control characters

    return _TOKENS.sub(written, re.escape(text.rstrip(" \t\n\f\r")))


# -- stamps --------------------------------------------------------------------------------------

_CLOCK = r"\d\d:\d\d:\d\d"
_DATES = [
    (r"\d{4}-\d\d-\d\d", ("%Y-%m-%d",)),
    (r"\d{4}/\d\d/\d\d", ("%Y/%m/%d",)),
    (r"\d\d/\d\d/\d{4}", ("%m/%d/%Y", "%d/%m/%Y")),
    (r"\d\d-\d\d-\d{4}", ("%d-%m-%Y", "%m-%d-%Y")),
    (r"\d\d\.\d\d\.\d{4}", ("%d.%m.%Y",)),
    (r"\d\d/\d\d", ("%m/%d",)),
    (r"\d\d-\d\d", ("%m-%d",)),
    (r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d", ("%a %b %d",)),
    (r"[A-Z][a-z]{2} [ \d]\d", ("%b %d",)),
    (r"\d{4}", ("%m%d",)),
    ("", ("",)),
]
"""Form of a date → its ``strptime`` formats."""
_FIRST = 80
"""Characters of a line in which its stamp begins."""


class Stamp(NamedTuple):
    """The stamps of similar lines."""

    form: str
    """``strptime`` format, or the unit of Unix times."""
    pattern: str
    begin: int
    end: int
    path: str
    """Path of its key in JSON, else empty."""
    texts: tuple[str, ...]
    seconds: tuple[float, ...]

    @property
    def passed(self) -> float:
        """Seconds from the first line to the last."""
        return self.seconds[-1] - self.seconds[0]


def _stamps(lines: Sequence[str], *, is_json: bool) -> Stamp | None:
    """Return the stamps of similar lines; None without any that advance."""
    if not is_json:
        return next(_forms(lines, ""), None)
    for path, texts in strings(lines).items():
        if found := _unix(texts, path) or next(_forms(texts, path), None):
            return found
    return None


def _unix(texts: Sequence[str], path: str) -> Stamp | None:
    """Return Unix times, in the unit that gives years of this century."""
    numbers = [number_in(text) or 0.0 for text in texts]
    for unit in ("s", "ms", "us", "ns"):
        seconds = tuple(number * SECONDS[unit] for number in numbers)
        if all(1e9 < each < 4e9 for each in seconds) and _advance(seconds):
            return Stamp(unit, r"[\d.]+", -1, -1, path, tuple(texts), seconds)
    return None


def _forms(texts: Sequence[str], path: str) -> Iterator[Stamp]:
    for date, formats in _DATES:
        joins = (" ", "T", " - ") if date else ("",)
        for join, point, half in itertools.product(joins, (",", ".", ""), (" %p", "")):
            hours = "%I" if half else "%H"
            clock = f"{join}{hours}:%M:%S{point}{'%f' if point else ''}{half}"
            pattern = date + join + _CLOCK + (rf"[{point}]\d{{1,6}}" if point else "")
            pattern += " [AP]M" if half else ""
            found = [re.search(rf"(?<![\d.:/-]){pattern}", text[:_FIRST]) for text in texts]
            places = [match.span() for match in found if match]
            if len(places) < len(texts) or places[0][0] != places[-1][0]:
                continue
            begin, end = places[0]
            if not date and texts[0][:begin].strip("[( "):
                continue  # a time alone is an elapsed one, unless the line begins with it
            stamps = tuple(text[slice(*place)] for text, place in zip(texts, places, strict=True))
            for day in formats:
                seconds = _read(stamps, day + clock)
                if seconds and _advance(seconds):
                    yield Stamp(day + clock, pattern, begin, end, path, stamps, seconds)


def _read(texts: Sequence[str], form: str) -> tuple[float, ...]:
    try:
        read = [datetime.datetime.strptime(text, form) for text in texts]  # noqa: DTZ007 - differences
    except ValueError:
        return ()
    return tuple((each - datetime.datetime(1900, 1, 1)).total_seconds() for each in read)  # noqa: DTZ001


def _advance(seconds: Sequence[float]) -> bool:
    """True if stamps differ, and seldom go back, as at midnight."""
    back = sum(a > b for a, b in itertools.pairwise(seconds))
    return len(set(seconds)) > 1 and back <= len(seconds) // 20


_Group = tuple[str, NumberColumn | Stamp]
"""Name of a group, and its place."""


# -- facts ----------------------------------------------------------------------------------------

_SIGN = r"[\"']?(?: size)?[\s.]*[:=]?[\s.]*[\"']?"
_PER = r"(?:gpu|device|card|npu)"
_SIZE = r"batch(?:[_ ]size)?"
_LABELS = {
    "gpus": r"world[_ ]?size|(?:num(?:ber)?|n|total)[_ ](?:of[_ ])?(?:gpus?|devices|ranks)|gpus",
    "gpus_per_node": rf"(?:nproc|gpus|devices|{_PER}s)[_ ]per[_ ]node",
    "replicas": r"n?nodes|(?:num|number)[_ ](?:of[_ ])?nodes",
    "batch_size": (
        rf"(?:train[_ ])?(?:micro|local)[_ ]{_SIZE}(?:[_ ]per[_ ]{_PER})?"
        rf"|(?:instantaneous )?(?:train[_ ])?{_SIZE}[_ ]per[_ ]{_PER}"
        rf"|per[_ ]{_PER}[_ ](?:train[_ ])?{_SIZE}|(?:samples|imgs|images)[_ ]per[_ ]{_PER}"
    ),
    "sequence_length": r"(?:max[_ ])?seq(?:uence)?[_ ]?len(?:gth)?|block[_ ]size|context[_ ]length",
    "global_batch": rf"(?:global|total|effective)[_ ](?:train[_ ])?{_SIZE}|train_batch_size",
    "accumulation": r"(?:gradient|grad)[_ ]accum(?:ulation)?(?:[_ ]steps)?",
    "plain_batch": r"batch[_ -]?size|batch",
    "precision": r"(?:mixed[_ ]|torch[_ ])?(?:dtype|precision)|(?:use[_ ])?amp",
}
_TEXTS = {"precision": r"\w+"}
_GPU = (
    r"(?:NVIDIA|Tesla)(?: GeForce| RTX| Tesla| Quadro)* [A-Z]{0,3}\d+[\w-]*"
    r"(?: \d+GB)?(?: HBM\d\w?)?"
)
_STATED = ("gpus", "gpus_per_node", "replicas", "batch_size", "sequence_length", "precision")


_HEAD = 5000
"""Lines in which facts are looked for."""


class StatedFacts(NamedTuple):
    """StatedFacts that a log states of its run."""

    expressions: tuple[str, ...]
    batch: int | None
    """Samples per GPU and step."""
    length: int | None
    """Tokens of a sequence."""
    precision: str | None
    note: str
    """Remark on the batch, or empty."""


def _facts(lines: Sequence[str], *, batch: int | None, gpus: int | None) -> StatedFacts:
    """Find the facts that a log states with one value."""
    text = "\n".join(lines[:_HEAD])
    found = {name: pair for name in _LABELS if (pair := _fact(text, name)) is not None}
    number = {name: int(value) for name, (_, value) in found.items() if name != "precision"}
    if number.get("accumulation", 1) > 1:
        # A step of the optimizer has several such batches.
        found.pop("batch_size", None)
        each = number.pop("batch_size", None)
        batch = batch or (each and each * number["accumulation"])
    gpus, total = gpus or number.get("gpus"), number.get("global_batch")
    each = batch or number.get("batch_size")
    each = each or (total // gpus if total and gpus else None)
    if each is None and total is None:
        each = number.get("plain_batch")
    note = f"; the log's {total} is of all GPUs" if total and not each else ""
    expressions = [found[name][0] for name in _STATED if name in found]
    if re.search(rf"\b{_GPU}", text):
        expressions.append(rf"\b(?P<gpu_model>{_GPU})")
    half = found.get("precision")
    precision = PRECISIONS[half[1].lower()][0] if half else None
    return StatedFacts(tuple(expressions), each, number.get("sequence_length"), precision, note)


def _fact(text: str, name: str) -> tuple[str, str] | None:
    """Return the expression of a fact, and the one value that it has."""
    form = _TEXTS.get(name, r"[1-9]\d{0,8}")
    pattern = (
        rf"(?<![A-Za-z_])(?P<label>{_LABELS[name]})(?P<sign>{_SIGN})"
        rf"(?:torch\.)?(?P<value>{form})(?![\w.,]*\d)"
    )
    every = [m for m in re.finditer(pattern, text, re.IGNORECASE) if m["sign"]]
    if name == "precision":
        every = [match for match in every if match["value"].lower() in PRECISIONS]
    if len({match["value"] for match in every}) != 1:
        return None
    label = re.sub(r"(?:\\\s)+", r"\\s+", re.escape(every[0]["label"]))
    torch = r"(?:torch\.)?" if name == "precision" else ""
    sign = r"[\s.:=\"']*" if set("\"'") & set(every[0]["sign"]) else r"[\s.:=]*"
    value = _TEXTS.get(name, r"\d+")
    return rf"\b{label}{sign}{torch}(?P<{name}>{value})", every[0]["value"]

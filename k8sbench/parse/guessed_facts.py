"""Guesses the stamps and the stated facts of a log."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from k8sbench.model.units import SECONDS
from k8sbench.parse import columns
from k8sbench.parse.declared import PRECISIONS
from k8sbench.parse.records import number_in

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


def stamp(lines: Sequence[str], *, is_json: bool) -> Stamp | None:
    """Return the stamps of similar lines; None without any that advance."""
    if not is_json:
        return next(_forms(lines, ""), None)
    for path, texts in columns.strings(lines).items():
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


class Facts(NamedTuple):
    """Facts that a log states of its run."""

    expressions: tuple[str, ...]
    batch: int | None
    """Samples per GPU and step."""
    length: int | None
    """Tokens of a sequence."""
    precision: str | None
    note: str
    """Remark on the batch, or empty."""


def facts(lines: Sequence[str], *, batch: int | None, gpus: int | None) -> Facts:
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
    return Facts(tuple(expressions), each, number.get("sequence_length"), precision, note)


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

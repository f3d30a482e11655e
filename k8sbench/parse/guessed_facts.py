"""Guesses the stamps of a log's lines, and the lines that state facts of its run."""

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

_CLOCK, _FRACTION = r"\d\d:\d\d:\d\d", r"[.,]\d{1,6}"
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


def stamp(lines: Sequence[str]) -> Stamp | None:
    """Return the stamps of similar lines; None without any that advance."""
    keyed = columns.strings(lines)
    for path, texts in keyed.items():
        if found := _unix(texts, path) or next(_forms(texts, path), None):
            return found
    return None if keyed else next(_forms(lines, ""), None)


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
        for between, fraction, half in itertools.product((" ", "T", " - "), (_FRACTION, ""), (" [AP]M", "")):
            pattern = date + (between if date else "") + _CLOCK + fraction + half
            found = [re.search(rf"(?<![\d.:/-]){pattern}", text[:_FIRST]) for text in texts]
            places = [(match.start(), match.end()) for match in found if match]
            if len(places) < len(texts) or places[0][0] != places[-1][0]:
                continue
            if not date and texts[0][: places[0][0]].strip("[( "):
                continue  # a time alone is an elapsed one, unless the line begins with it
            stamps = tuple(text[slice(*place)] for text, place in zip(texts, places, strict=True))
            point = stamps[0][re.search(_CLOCK, stamps[0]).end()] if fraction else ""
            clock = f"%I:%M:%S{point}" if half else f"%H:%M:%S{point}"
            for day in formats:
                form = day + (between if date else "") + clock + ("%f" if fraction else "") + (" %p" if half else "")
                seconds = _read(stamps, form)
                if seconds and _advance(seconds):
                    yield Stamp(form, pattern, *places[0], path, stamps, seconds)


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
_LABELS = {
    "gpus": (
        r"world[_ ]?size|(?:num(?:ber)?|n|total)[_ ](?:of[_ ])?(?:gpus?|devices|processes)|gpus",
    ),
    "gpus_per_node": (rf"(?:nproc|gpus|devices|{_PER}s)[_ ]per[_ ]node",),
    "replicas": (r"n?nodes|(?:num|number)[_ ](?:of[_ ])?nodes",),
    "batch_size": (
        r"(?:micro|local)[_ ]batch(?:[_ ]size)?"
        rf"|(?:instantaneous )?(?:train[_ ])?batch[_ ]size[_ ]per[_ ](?:{_PER})(?:[_ ]train)?"
        rf"|per[_ ]{_PER}[_ ](?:train[_ ])?batch[_ ]size|(?:samples|imgs|images)[_ ]per[_ ]{_PER}"
        r"|(?:train[_ ])?micro[_ ]batch[_ ]size[_ ]per[_ ]gpu",
    ),
    "sequence_length": (r"(?:max[_ ])?seq(?:uence)?[_ ]?len(?:gth)?|block[_ ]size|context[_ ]length",),
    "global_batch": (r"(?:global|total|effective)[_ ](?:train[_ ])?batch[_ ]?size|train_batch_size",),
    "accumulation": (r"(?:gradient|grad)[_ ]accum(?:ulation)?(?:[_ ]steps)?",),
    "plain_batch": (r"batch[_ -]?size|batch",),
    "precision": (r"(?:mixed[_ ]|torch[_ ])?(?:dtype|precision)|(?:use[_ ])?amp",),
}
_TEXTS = {"precision": r"\w+"}
_GPU = (
    r"(?:NVIDIA|Tesla)(?: GeForce| RTX| Tesla| Quadro)* [A-Z]{0,3}\d+[\w-]*(?: \d+GB)?(?: HBM\d\w?)?"
)
_STATED = ("gpus", "gpus_per_node", "replicas", "batch_size", "sequence_length", "precision")


class Facts(NamedTuple):
    """What a log states of its run, as far as it is found."""

    expressions: tuple[str, ...]
    batch: int | None
    """Samples per GPU and step."""
    length: int | None
    """Tokens of a sequence."""
    precision: str | None
    note: str
    """Remark on the batch, or empty."""


def facts(lines: Sequence[str], *, batch: int | None, gpus: int | None) -> Facts:
    """Find the lines that state a run's facts; a fact with two values is none."""
    text = "\n".join(dict.fromkeys(re.sub(r"\s+$", "", line) for line in lines))
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
    model = re.search(rf"(?m)(?P<before>[^\n]{{0,20}}?)\b(?P<model>{_GPU})", text)
    if model is not None:
        expressions.append(rf"\b(?P<gpu_model>{_GPU})")
    half = found.get("precision")
    precision = PRECISIONS[half[1].lower()][0] if half else None
    return Facts(tuple(expressions), each, number.get("sequence_length"), precision, note)


def _fact(text: str, name: str) -> tuple[str, str] | None:
    """Return the expression of a fact, and the one value that it has."""
    form = _TEXTS.get(name, r"[1-9]\d{0,8}")
    (labels,) = _LABELS[name]
    pattern = rf"(?<![A-Za-z_])(?P<label>{labels})(?P<sign>{_SIGN})(?:torch\.)?(?P<value>{form})(?![\w.]*\d)"
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

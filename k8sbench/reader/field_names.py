"""Fields of a log format that the label beside a number names."""

from __future__ import annotations

import re
from typing import NamedTuple

from k8sbench.model.notation import Unit
from k8sbench.reader.numbered_lines import Number

_STEP = r"(?:step|iter|iteration|batch|update|it)"
_NONE = re.compile(
    r"\b(?:eta|remain\w*|required|left|t?flops?|gflops?|mfu|hfu|mem\w*|lr|learning rate|acc\w*"
    r"|top ?\d|grad\w*|g?norm|skipped|nan|scale|max|min|seed|ppl|perplexity|weight decay|momentum"
    r"|eval\w*|val\w*|test|save|saving|compile|bandwidth|epochs? time|lineno|pid|port)\b"
)
"""Words of numbers that are no field of a training line."""
_WAIT = re.compile(r"\b(?:data|reader|loader|load|fetch|io|input)\b")
_TOTAL_TIME = re.compile(
    r"\b(?:elapsed?|wall|train(?:ing)? time|total time|time since|runtime)\b(?!.* per )"
)
_STEP_TIME = re.compile(
    rf"\b{_STEP} (?:(?:time|cost|timing|latency|seconds|s|ms)\b|\(t\))"
    rf"|\b(?:per|each) {_STEP}\b|/ ?{_STEP}\b|^(?:time|cost|dt|speed|took|seconds|ms|s)$"
)
_TIME = re.compile(r"\b(?:time|cost|dt|took|latency|duration|timing)\b")
_RATE = re.compile(
    r"\b(?:ips|qps|fps|tps|wps|tgs|sps|throughput|speed)\b"
    r"|\b(?:samples?|images?|imgs?|tokens?|seq\w*|steps?|it) ?(?:/|per) ?s"
)
_ONE_GPU = re.compile(r"\b(?:per|each|/) ?(?:gpu|device|card|npu|rank)\b")
_LOSS = re.compile(r"\bloss(?: train)?$")
_USUAL_LOSS = {"loss", "train loss", "lm loss", "total loss", "loss train"}
_COUNT = re.compile(rf"(?<!per )(?<!/)\b(?:{_STEP}s?|batches)(?: ?#| no| num| idx)?$")
_ALL_SAMPLES = re.compile(r"\bconsumed (?:train )?(?P<noun>samples|tokens)$")
_SEVERAL_STEPS = re.compile(rf" ?{_STEP}(?:e?s|ations)\b", re.IGNORECASE)
"""Behind the 100 of ``Time(100 iters)``."""
_STEP_SAMPLES = re.compile(r"\bglobal batch size$")


class Meaning(NamedTuple):
    """Meaning of a number by its label."""

    field: str
    """A field of a format; ``none`` for a number that is certainly no field; empty if unknown."""
    unit: Unit | None = None
    """Unit of a rate or time; None if the log does not print it."""


UNKNOWN = Meaning("")
NONE = Meaning("none")


def meaning_of(number: Number) -> Meaning:
    """Return what the label and unit of a number say for certain."""
    words, unit = number.words, number.unit
    if number.is_total:
        return UNKNOWN if number.counts_up else Meaning("total")
    if re.search(r"\bepoch$|^ep$", words):
        return Meaning("epoch")
    if _LOSS.search(words):
        return Meaning("loss") if not re.search(r"\b(?:val\w*|eval\w*|test)\b", words) else NONE
    if number.is_constant:
        return _constant_meaning(number, words)
    if total := _ALL_SAMPLES.search(words):
        return Meaning("all_samples", Unit(1.0, total["noun"]))
    if _NONE.search(words) or (unit and unit.noun in {"GB", "FLOP", "bytes"}):
        return NONE
    if _COUNT.search(words) and number.is_whole and not (unit and unit.is_time):
        return Meaning("iteration")
    return _speed_meaning(number, words)


def _constant_meaning(number: Number, words: str) -> Meaning:
    """Return the meaning of a whole number that is the same in all lines."""
    if _STEP_SAMPLES.search(words):
        return Meaning("step_samples")
    if _SEVERAL_STEPS.match(number.behind) and float(number.values[0]) > 1:
        return Meaning("steps")
    meaning = _speed_meaning(number, words)
    return meaning if meaning.field in {"rate", "step_seconds"} else NONE


def _speed_meaning(number: Number, words: str) -> Meaning:
    """Return the meaning of a rate or time."""
    unit = number.unit
    if number.is_duration or _TOTAL_TIME.search(words):
        return Meaning("elapsed", unit if unit and unit.is_time else None)
    if _WAIT.search(words):
        return Meaning("data_seconds") if _TIME.search(words) or unit else UNKNOWN
    if unit is not None and not unit.is_time:
        is_unit = (unit.kind or not unit.noun) and unit.per_second >= 1
        # ``65 km/h`` and ``45 words per minute`` of a text are no speed of training.
        return Meaning("rate", unit) if is_unit or _RATE.search(words) else NONE
    if number.accumulates and words == "time":
        return Meaning("elapsed", unit)
    if number.is_clock and (unit is not None or not _RATE.search(words)):
        return Meaning("", unit)  # ``step time 1.5``, ``3.0``, ``4.5`` …
    is_of_step = _STEP_TIME.search(words) or re.match(rf" ?\w+ ?/ ?{_STEP}\b", number.behind)
    if unit is not None:
        return Meaning("step_seconds" if is_of_step else "", unit)
    if _RATE.search(words):
        return Meaning("rate")
    return Meaning("step_seconds") if is_of_step else UNKNOWN


def is_usual_loss(number: Number) -> bool:
    """True if a label is that of the loss that is minimised, not a part of it."""
    return number.words in _USUAL_LOSS


def is_of_one_gpu(field: str, number: Number, unit: Unit | None) -> bool:
    """True if the label or unit of a rate says that it is one GPU's."""
    return field == "rate" and bool((unit and unit.per_card) or _ONE_GPU.search(number.words))

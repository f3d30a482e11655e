"""Logs of fairseq.

Since March 2020 (``fairseq_cli/train.py`` of commit ef5b71e8, and of 3d262bb2, the last one) a line
``train_inner`` has the words per second of the whole job, ``wps``, since the line before, with all
that lies between: validations, checkpoints and the wait for data. ``wpb`` is the mean of the words
of an update, ``ups`` the updates per second. Words are the tokens of the targets, without padding.
The first line leaves the first update out.

Up to release 0.9.0 (``train.py`` and ``fairseq/progress_bar.py`` of its tag) these numbers are
means of the epoch so far, also those of the line at its end; ``wps`` is a whole number. These lines
have ``oom``. The means begin anew where the program loads a checkpoint.

``num_updates`` counts the updates of the run. Since March 2020 the line at the end of an epoch
repeats what other lines say.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from k8sbench.messages import Note, note
from k8sbench.model.notation import Match
from k8sbench.model.plain_text import significant
from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.reader.family import (
    BATCH_DOUBT,
    DATED,
    FactRule,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    RecordRule,
    amp,
    number_in,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

_SHAPE = Shape(name="fairseq", number="seconds", holds_events=True, resolution=1.0)
_OF_EPOCH = Shape(name="fairseq 0.9", number="seconds", holds_events=True, complete=False)
LAST_DIGIT = 0.006
"""Half of the last digit of ``ups``, and that of ``wps`` beside it."""
RATES_APART = 0.02
"""Relative difference of a line's two rates, whose steps may differ by one that overflowed."""
_LOGGER = (
    r"\[?(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{3})?)"
    r"(?: \| INFO \| train_inner \| |\]\[train_inner\]\[INFO\] - )"
)
"""Beginning of a line; a file of ``--log-file`` has none."""
_BEGINS = re.compile(r'\bepoch \d+(?::| \| )|\{"epoch": ')
_NUMBER = r"\d+(?:\.\d+)?(?:e\+\d+)?"
_NUMBERS = {
    "wps": _NUMBER,
    "wpb": _NUMBER,
    "num_updates": _NUMBER,
    "ups": _NUMBER,
    "oom": _NUMBER,
    "loss": r"[-+.\de]+|nan|inf",
}
_OPTIONAL = {"ups", "oom", "loss"}


def _numbers(form: str) -> str:
    """Match the numbers of a line, wherever they stand; ``form`` is that of one of them."""
    ahead = {
        name: f"(?=.*?{form.format(name=name, number=number)})" for name, number in _NUMBERS.items()
    }
    return "".join(f"(?:{x}|)" if name in _OPTIONAL else x for name, x in ahead.items())


_TEXT = padded(
    rf"(?:{_LOGGER}|^\| |(?<![|] ))epoch (?P<epoch>\d{{1,6}}):(?= *(?P<before>\d+) / \d+ )"
    + _numbers(r"\b{name}=(?P<{name}>{number}),")
    + ".*"
)
_TEXT_OF_END = padded(
    r"^\| epoch (?P<epoch>\d{1,6})(?= \| loss )"
    + _numbers(r"\| {name} (?P<{name}>{number})(?: \||$)")
    + ".*"
)


def _object(prefix: str = "") -> re.Pattern[str]:
    """Match a line's JSON object, whose keys begin with ``prefix`` at the end of an epoch."""
    key = rf'"{prefix}{{name}}": "?(?P<{{name}}>{{number}})"?[,}}}}]'
    begin = rf'(?:{_LOGGER})?\{{"epoch": (?P<epoch>\d{{1,6}}), '
    return padded(begin + _numbers(key) + r"[^{}]*\}")


class _Numbers(NamedTuple):
    """Numbers of a line, by their names in it."""

    wps: float
    wpb: float
    num_updates: float


class _Epoch(NamedTuple):
    """An epoch so far, by its means."""

    number: int
    begun: float
    """Updates of the run before the means began."""
    updates: float = 0.0
    """Updates that the means are of."""
    seconds: float = 0.0
    words: float = 0.0

    def after(self, means: _Numbers) -> _Epoch:
        """Return the epoch at a line, by its means."""
        count = means.num_updates - self.begun
        words = count * means.wpb
        return _Epoch(self.number, self.begun, count, words / means.wps, words)


class _FairseqReader(LineReader):
    """Holds a line's rates against each other, and works out what a line adds to the epoch."""

    def __init__(self, family: Family) -> None:
        self._epochs: dict[str, _Epoch] = {}
        """The epoch so far, by rank."""
        self._loaded = 0.0
        """Updates of the checkpoint that was loaded last."""
        self._doubted = False
        """True if a line was found whose rates contradict each other."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        records = self._family.records
        others = super().rules()[len(records) :]
        return [
            *(LineRule(rule.needle, functools.partial(self._records, rule)) for rule in records),
            *(rule._replace(read=functools.partial(self._events, rule)) for rule in others),
        ]

    def _events(self, rule: LineRule, line: CleanLine) -> Iterator[Item]:
        for item in rule.read(line):
            if isinstance(item, Mark) and item.kind == "restart":
                self._loaded = item.number("updates") or 0.0
                self._epochs.clear()
            yield item

    def _records(self, rule: RecordRule, line: CleanLine) -> Iterator[Item]:
        for match in rule.matches(line.text):
            texts = match.groupdict()
            numbers = _Numbers(*(float(texts[name] or 0) for name in _Numbers._fields))
            if not all(0 < number < math.inf for number in numbers):
                continue
            if texts["oom"] is not None:
                yield from self._of_epoch(rule, line, match, numbers)
            elif rule.needle not in _ENDS and not match[0].startswith("| "):
                if not self._doubted and (doubt := _doubt(texts["ups"], numbers)):
                    self._doubted = True
                    yield line.doubt(BATCH_DOUBT, doubt)
                yield from _record(rule, line, match, numbers)

    def _of_epoch(
        self, rule: RecordRule, line: CleanLine, match: Match, numbers: _Numbers
    ) -> Iterator[Item]:
        """Read what a line adds to the epoch."""
        before = self._begun(line.source, match.groupdict(), numbers.num_updates)
        if before is None or numbers.num_updates <= before.begun + before.updates:
            return
        now = before.after(numbers)
        added = now.updates - before.updates
        seconds, words = now.seconds - before.seconds, now.words - before.words
        self._epochs[line.source] = now
        if seconds > 0 and words > 0:
            own = _Numbers(words / seconds, words / added, numbers.num_updates)
            for record in _record(rule, line, match, own, round(added)):
                yield msgspec.structs.replace(record, shape=_OF_EPOCH)

    def _begun(self, source: str, texts: Mapping[str, str | None], updates: float) -> _Epoch | None:
        """Return the epoch of a line as it was before it; None if nothing tells its begin."""
        number = int(texts["epoch"] or 0)
        before = self._epochs.get(source)
        if before is not None and before.number == number:
            return before
        begun = None
        if before is not None and before.number + 1 == number:
            begun = before.begun + before.updates
        elif self._loaded or number == 1:
            begun = self._loaded
        if (printed := number_in(texts.get("before"))) is not None:
            begun = max(begun or 0.0, updates - printed - 1)
        return None if begun is None else _Epoch(number, begun)


def _record(
    rule: RecordRule, line: CleanLine, match: Match, numbers: _Numbers, steps: int | None = None
) -> Iterator[Record]:
    """Yield the record of a line."""
    own = {
        "iteration": numbers.num_updates,
        "step_seconds": numbers.wpb / numbers.wps,
        "step_samples": numbers.wpb,
    }
    record = rule.build(line, match[0], match.groupdict() | own, steps)
    if record is not None:
        yield record


def _doubt(stated: str | None, numbers: _Numbers) -> Note | None:
    """Return how the two rates of a line contradict each other; None if they do not."""
    updates, own = number_in(stated), numbers.wps / numbers.wpb
    if updates is None or abs(own - updates) <= LAST_DIGIT + RATES_APART * updates:
        return None
    return note(
        "batch-mismatch-updates",
        words=f"{numbers.wps:g}",
        of=f"{numbers.wpb:g}",
        own=significant(own, 3),
        stated=f"{updates:g}",
    )


_ENDS = frozenset({"| wps ", '"train_wps": '})
"""Needles of lines at the end of an epoch, which are means of all of it."""


def _option(name: str, group: str, value: str) -> FactRule:
    """Match a value of the printed options, all of which stand in one line."""
    return rule("distributed_world_size", rf"(?:'|\b){name}(?:=|': )(?P<{group}>{value})\b")


def _precision(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """Derive the precision of the printed options, which hold each type that was asked for."""
    options = {name: stated[f"_{name}"] for name in ("bf16", "fp16") if f"_{name}" in stated}
    used = next((name for name, fact in options.items() if fact.value == "True"), None)
    if used is not None:
        yield from (options[used].like(*each) for each in amp(used).items())
    else:
        yield from (fact.like("precision", "fp32") for fact in list(options.values())[:1])


FAMILY = Family(
    name="fairseq",
    title="fairseq",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule("fairseq_cli.train", rf"^\[?{DATED}(?: \||\]\[).*", program="fairseq"),
        rule("training on ", r"\btraining on (?P<gpus>\d+) (?:GPUs|devices \(GPUs/TPUs\))"),
        rule(
            "capabilities = ",
            r"\brank +\d+: capabilities = .*\bname = (?P<gpu_model>.+?) *$",
        ),
        _option("fp16", "_fp16", "True|False"),
        _option("bf16", "_bf16", "True|False"),
        _option("max_update", "planned_iterations", r"[1-9]\d*"),
        _option("log_interval", "log_interval", r"[1-9]\d*"),
        rule(
            "model params: ",
            r"num\. (?:shared )?model params: (?P<parameters>[\d,]+) \(num\. trained: ",
        ),
    ),
    derive=_precision,
    records=(
        RecordRule("wps=", _TEXT, _SHAPE, begins=_BEGINS),
        RecordRule('"wps": ', _object(), _SHAPE, begins=_BEGINS),
        RecordRule("| wps ", _TEXT_OF_END, _SHAPE, begins=_BEGINS),
        RecordRule('"train_wps": ', _object("train_"), _SHAPE, begins=_BEGINS),
    ),
    marks=(
        MarkRule("begin validation on ", "evaluation"),
        MarkRule("| valid on '", "evaluation"),
        MarkRule("aved checkpoint ", "checkpoint"),
        MarkRule(
            "oaded checkpoint ",
            "restart",
            re.compile(r"[lL]oaded checkpoint .* @ (?P<updates>[1-9]\d*) updates"),
        ),
        MarkRule("done training in ", "finished"),
    ),
    shares_samples=True,
    make_reader=_FairseqReader,
)

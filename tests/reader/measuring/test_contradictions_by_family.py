"""Contradictions that each family's own fixtures are made to hold: each is rejected, or exempt.

A new family is in this test by itself. Its fixtures are the logs of ``tests/fixtures/logs`` that
are recognised as its own and are valid, without options or with those of :data:`OPTIONS`.
"""

import datetime
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from k8sbench.model.errors import InputError
from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.model.measurement import Measurement
from k8sbench.model.sample import Fact, Item, Mark, Record
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.measuring import arrival, log_facts
from k8sbench.reader.reading import FamilyLog, family_in
from tests.reader.measuring.support import FIXTURES, Lines, lines_of, measured
from tests.unit.presence import present

OPTIONS: tuple[dict[str, Any], ...] = (
    {"gpus": None, "batch_size": None},
    {"gpus": 8, "batch_size": None},
    {"gpus": 8, "batch_size": 4},
)
COUNTS = ("gpus", "_gpus_program", "_gpus_nccl", "_gpus_launcher", "_mesh", "_gpu_ids", "gpu_ids")
"""Groups of facts from which the number of GPUs follows."""
ARRIVED = re.compile(r"^\d{4}-\d\d-\d\dT\S+ ")
"""The time of arrival that a fixture has already."""
DATED = re.compile(r"\d{4}[-/]\d\d[-/]\d\d|\b\d\d/\d\d \d\d:\d\d")
"""A date, of which the program's own stamp begins."""
SHORTEST = 2.0
"""Seconds of a window of which arrival tells anything."""
BATCHES = {"batch_size", "global_batch", "tokens_per_step", "micro_batch"}
Change = Callable[[Item], Item | None]


class Case(NamedTuple):
    """A family's fixture, and what is measured of it."""

    family: str
    lines: list[str]
    options: dict[str, Any]
    found: Measurement
    records: list[Record]

    @property
    def head(self) -> list[str]:
        return self.lines[: self.records[0].line - 1]

    def changed(self, change: Change, monkeypatch: pytest.MonkeyPatch) -> bool:
        """Return True if the fixture is rejected with each of its items changed."""

        class Changed(FamilyLog):
            def __iter__(self) -> Iterator[Item]:
                for item in super().__iter__():
                    if (other := change(item)) is not None:
                        yield other

        monkeypatch.setattr(log_facts, "FamilyLog", Changed)
        return self.rejects(self.lines)

    def rejects(self, lines: list[str]) -> bool:
        try:
            found = measure(self.family, lines, self.options)
        except InputError:
            return True
        return found.verdict == "rejected"


def measure(family: str, lines: list[str], options: dict[str, Any]) -> Measurement:
    return measured(Lines(lines), format=family, warmup=None, by_user=True, **options)


@functools.cache
def cases(family: str) -> list[Case]:
    """Return the valid fixtures of a family."""
    logs = [lines for name, lines in _logs() if name == family]
    found = [case for lines in logs if (case := _valid(family, lines)) is not None]
    assert found, f"{family} has no valid fixture"
    return found


@functools.cache
def _logs() -> list[tuple[str, list[str]]]:
    """Return the family and the lines of each fixture that is recognised."""
    logs = [lines_of(path.name) for path in sorted(FIXTURES.iterdir())]
    return [(family.name, lines) for lines in logs if (family := family_in(lines)) is not None]


def _valid(family: str, lines: list[str]) -> Case | None:
    for options in OPTIONS:
        try:
            found = measure(family, lines, options)
        except InputError:
            continue
        if found.verdict == "valid":
            items = FamilyLog([f"{line}\n" for line in lines], [FAMILIES[family]])
            records = [item for item in items if isinstance(item, Record)]
            return Case(family, lines, options, found, records)
    return None


def quarter_of_the_stamps(case: Case, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """The program's own stamps show a quarter of the time that its lines claim."""
    first = next((each.stamp for each in case.records if each.stamp is not None), None)
    if first is None:
        lines = [case.lines[record.line - 1] for record in case.records]
        assert not any(map(DATED.search, lines)), f"{case.family} does not read its stamps"
        return None

    def change(item: Item) -> Item:
        if not isinstance(item, Record) or item.stamp is None:
            return item
        return replace(item, stamp=first + (item.stamp - first) / 4, paused=0.0)

    return case.changed(change, monkeypatch)


def quarter_of_the_arrival(case: Case, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """Lines arrive in a quarter of the time that they claim."""
    monkeypatch.setattr(arrival, "FEWEST_MOMENTS", 5)  # fixtures are short
    window = case.found.window
    if window is None or window.seconds is None or window.seconds < SHORTEST:
        return None
    each = window.seconds / case.found.records / 4
    begin = datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC)
    at = {
        record.line: begin + datetime.timedelta(seconds=each * number)
        for number, record in enumerate(case.records)
    }
    stamps = [at.get(number) for number in range(1, len(case.lines) + 1)]
    latest, lines = begin, []
    for stamp, line in zip(stamps, case.lines, strict=True):
        latest = stamp or latest
        lines.append(f"{latest.isoformat()} {ARRIVED.sub('', line)}")
    return case.rejects(lines)


def twice(case: Case, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """Measure the fixture and further lines, whose stamps are a day later."""

    class Later(FamilyLog):
        def __iter__(self) -> Iterator[Item]:
            for item in super().__iter__():
                is_stamped = isinstance(item, (Record, Mark)) and item.stamp is not None
                if is_stamped and item.line > len(case.lines):
                    assert isinstance(item, (Record, Mark))
                    yield replace(item, stamp=present(item.stamp) + 86400)
                else:
                    yield item

    monkeypatch.setattr(log_facts, "FamilyLog", Later)
    return case.rejects([*case.lines, *lines])


def second_header(case: Case, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """The program begins anew behind its end, with its header."""
    return twice(case, case.lines, monkeypatch)


def two_files(case: Case, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """The training lines of a later run stand behind those of the first."""
    return twice(case, case.lines[len(case.head) :], monkeypatch)


def other_gpus(case: Case, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """A program is started again on twice as many GPUs."""
    half = case.records[len(case.records) // 2].line
    again = [_on_twice_as_many(case.family, line) for line in case.head]
    if again == case.head:
        return None
    return case.rejects([*case.lines[:half], *again, *case.lines[half:]])


def _on_twice_as_many(family: str, line: str) -> str:
    for rule in FAMILIES[family].facts:
        match = rule.pattern.search(line) if rule.needle in line else None
        for name in COUNTS if match else ():
            assert match is not None
            if match.re.groupindex.get(name) and match[name]:
                begin, end = match.span(name)
                first, comma, rest = match[name].partition(",")
                digits = "".join(filter(str.isdigit, first))
                more = first.replace(digits, str(2 * int(digits)))
                return f"{line[:begin]}{more}{comma}{rest}{line[end:]}"
    return line


def other_facts(case: Case, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """A program is started again, and states another value of one fact of its first header."""
    half = case.records[len(case.records) // 2].line
    lines = [*case.lines[:half], *case.head, *case.lines[half:]]
    items = FamilyLog([f"{line}\n" for line in case.lines], [FAMILIES[case.family]])
    facts = [item for item in items if isinstance(item, Fact) and item.line <= len(case.head)]
    names = {fact.name for fact in facts} & {*log_facts.OF_EACH_HEADER}
    if not names:
        return None

    def is_rejected(name: str) -> bool:
        def change(item: Item) -> Item:
            if not (isinstance(item, Fact) and item.name == name and item.line > half):
                return item
            is_number = item.value.isdigit()
            return replace(item, value=str(2 * int(item.value)) if is_number else "another")

        return case._replace(lines=lines).changed(change, monkeypatch)

    return all(map(is_rejected, sorted(names)))


def twice_the_rate(case: Case, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """The printed rate is twice that of the time beside it, and of the stamps."""
    if all(record.rate is None for record in case.records):
        return None

    def change(item: Item) -> Item:
        if not isinstance(item, Record) or item.rate is None:
            return item
        return replace(item, rate=2 * item.rate)

    return case.changed(change, monkeypatch)


def no_batch(case: Case, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """Neither the log nor the user states the batch."""
    if all(record.shape.is_rate for record in case.records):
        return None

    def change(item: Item) -> Item | None:
        if isinstance(item, Record):
            return replace(item, step_samples=None)
        return None if isinstance(item, Fact) and item.name in BATCHES else item

    return case._replace(options=case.options | {"batch_size": None}).changed(change, monkeypatch)


VIOLATIONS: tuple[Callable[[Case, pytest.MonkeyPatch], bool | None], ...] = (
    quarter_of_the_stamps,
    quarter_of_the_arrival,
    second_header,
    two_files,
    other_gpus,
    other_facts,
    twice_the_rate,
    no_batch,
)
NO_STAMPS = "its lines, or those of its fixtures, have no stamps"
NO_SECONDS = "it prints rates alone, and no batch: nothing tells what a line claims"
NO_GPUS = "its lines, or those of its fixtures, do not state the number of GPUs"
NO_RATE = "it prints times, and no rate"
RATE_ALONE = "nothing else in its lines is of the time, and it leaves time out or has no stamps"
NO_NEED = "it prints rates, of which the figure needs no batch"
OF_FEW_STEPS = "a line times one step of many, and less than passed"

EXEMPT: dict[str, dict[str, tuple[str, ...]]] = {
    "quarter_of_the_stamps": {
        NO_STAMPS: (
            *("timm", "hf-trainer", "nemo", "nanogpt", "nanochat", "llm.c", "modded-nanogpt"),
            *("torchtune", "maxtext", "llama-factory"),
            *("hugectr", "verl"),
        ),
        NO_SECONDS: ("plsc", "automodel"),
    },
    "quarter_of_the_arrival": {
        NO_SECONDS: ("torchtune",),
        OF_FEW_STEPS: ("paddlevideo",),
    },
    "second_header": {"each start of a run of ours is an attempt of it": ("k8sbench",)},
    "two_files": {"its events count on or anew, and run_start alone begins a run": ("mlperf",)},
    "other_gpus": {
        NO_GPUS: (
            *("paddleclas", "paddlevideo", "tsm", "arcface-torch", "hf-trainer", "nanogpt"),
            *("torchtune", "olmo", "llama-factory", "paddlenlp", "mlperf", "lerobot", "hugectr"),
        ),
        "the numbers of each line state it, not a header": ("verl",),
        "events of the run state it, not a header": ("k8sbench",),
    },
    "other_facts": {
        "the heads of its fixtures state none of these facts": (
            *("paddlevideo", "torchtune", "olmo", "llama-factory"),
        ),
        "the numbers of each line state them, not a header": ("verl",),
    },
    "twice_the_rate": {
        NO_RATE: (
            *("k8sbench", "mmseg", "mmengine", "tsm", "hf-trainer", "megatron", "nemo", "nanogpt"),
            *("nanochat", "llm.c", "modded-nanogpt", "llama-factory", "paddlenlp", "torchvision"),
            *("detectron2", "lerobot", "hugectr", "litgpt", "open-clip", "fairseq"),
        ),
        RATE_ALONE: ("plsc", "torchtune", "olmo", "deepspeed", "automodel"),
        "its rate is of one GPU, and tells their number": ("verl",),
        "rate × seconds are the batch that nothing else states": ("paddleclas", "paddlevideo"),
    },
    "no_batch": {
        NO_NEED: (
            *("paddleseg", "paddlevideo", "dle-resnet50", "plsc", "arcface-torch", "timm"),
            *("torchtitan", "torchtune", "olmo", "deepspeed"),
        ),
        "a line's rate × seconds are the batch": ("paddleclas",),
    },
}
"""Violation → why it is no contradiction that the log shows → families."""


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_contradiction_is_rejected_or_its_exemption_has_a_reason(
    violation: Callable[[Case, pytest.MonkeyPatch], bool | None],
    family: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = set()
    for case in cases(family):
        with monkeypatch.context() as patched:
            answers.add(violation(case, patched))
    exempt = [name for of in EXEMPT.get(violation.__name__, {}).values() for name in of]
    is_rejected = True in answers and False not in answers
    assert is_rejected is not (family in exempt)


def test_no_exemption_is_of_a_family_that_does_not_exist() -> None:
    named = [name for of in EXEMPT.values() for names in of.values() for name in names]
    assert {*named} <= {*FAMILY_NAMES}

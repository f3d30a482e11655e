"""Records taken together measure as one by one, and only ordinary ones are taken together."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from k8sbench.measure.run import log_facts
from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.log_facts import LogFacts
from k8sbench.measure.run.measuring import measure
from k8sbench.model.measurement import Measurement
from k8sbench.parse.cleaning import without_prefixes
from k8sbench.parse.families import FAMILIES
from k8sbench.parse.reading import Log
from k8sbench.parse.together import Together
from tests.bench import reading
from tests.unit.measure.support import Block

COUNT = 400
PLACE = -100
"""The line that is odd."""


def log(family: str, folder: Path) -> list[str]:
    """A long log without anything odd."""
    path = folder / "train.log"
    reading.write(reading.FAMILIES[family], "dense", COUNT, path)
    return path.read_text().splitlines()


def together(
    family: str, lines: list[str], monkeypatch: pytest.MonkeyPatch, *more: list[str]
) -> tuple[int, Measurement]:
    """How many records are taken together; measures the log both ways, and compares."""
    expected = Expectation(format=family, gpus=8, batch_size=4, warmup=20)
    taken: list[int] = []
    method = LogFacts._records_together

    def count(self: LogFacts, some: Together, file: str) -> bool:
        done = method(self, some, file)
        taken.append(len(some) if done else 0)
        return done

    monkeypatch.setattr(LogFacts, "_records_together", count)
    found = measure([Block(lines, *more)], expected)
    monkeypatch.setattr(LogFacts, "_records_together", lambda *_: False)
    alone = measure([Block(lines, *more)], expected)
    monkeypatch.undo()
    assert msgspec.json.encode(found) == msgspec.json.encode(alone)
    return sum(taken), found


@pytest.mark.parametrize("family", reading.FAMILIES)
def test_ordinary_records_are_taken_together(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, found = together(family, log(family, tmp_path), monkeypatch)
    assert found.records >= COUNT - 21
    assert taken > COUNT * 0.8


def changed(line: str, name: str, instead: str) -> str:
    """A line with another number behind a name."""
    text, count = re.subn(rf"({name}\"?\s*:?\s*)[\d.]+", rf"\g<1>{instead}", line, count=1)
    assert count
    return text


ODD: dict[str, Callable[[str], list[str]]] = {
    "a loss that is not finite": lambda line: [changed(line, "loss", "nan")],
    "a line twice": lambda line: [line, line],
    "a missing line": lambda line: [],
    "a torn line": lambda line: [line[: len(line) // 2]],
    "a line glued to another": lambda line: [line + line],
    "a half glued to a whole": lambda line: [line[: len(line) // 2] + line],
    "another iteration": lambda line: [re.sub(r"Iter \[\d+", "Iter [999999", line)],
    "another total": lambda line: [line.replace("/120]", "/121]")],
    "a time of nothing": lambda line: [changed(line, " time", "0.000")],
    "a time too large": lambda line: [changed(line, " time", "9" * 400 + ".0")],
    "another time": lambda line: [changed(line, " time", "9.000")],
    "a stamp before": lambda line: [line.replace("2026-", "2025-")],
    "no stamp": lambda line: [line.partition(" - INFO - ")[2]],
    "a rank": lambda line: [f"[rank1]: {line}"],
    "a pod": lambda line: [f"[pod/job-master-0/pytorch] {line}"],
    "mpirun's rank": lambda line: [f"[1,1]<stdout>:{line}"],
    "colours": lambda line: [f"\x1b[32m{line}\x1b[0m"],
    "a NUL": lambda line: [f"{line}\x00"],
    "a carriage return": lambda line: [f"  1%|\r{line}"],
    "other digits": lambda line: [
        line.translate({48 + digit: 0xFF10 + digit for digit in range(10)})
    ],
    "a rank further on": lambda line: [f"note [1,1]<stdout>:{line}"],
    "a checkpoint": lambda line: ["Saving checkpoint at 40 iterations", line],
    "an evaluation": lambda line: [line.replace("Iter [", "Iter(val) ["), line],
    "a second header": lambda line: ["Environment info:", line],
    "a restart": lambda line: ["resumed epoch: 1, iter 40", line],
    "an event": lambda line: ["- AI-Rank-log 1618109465.704 test_begin", line],
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_line_is_read_by_itself(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log("mmseg", tmp_path)
    lines[PLACE : PLACE + 1] = ODD[odd](lines[PLACE])
    # Where these are in a block, all of it is read line by line, up to a header.
    whole = {"a carriage return", "a second header", "an event"}
    taken, _ = together("mmseg", lines, monkeypatch)
    assert (taken < COUNT * 0.3) if odd in whole else (taken > COUNT * 0.6)


OWN: dict[str, Callable[[str], list[str]]] = {
    "a held event": lambda line: [line.replace('"time"', '"holds": ["evaluation"], "time"')],
    "more steps": lambda line: [line.replace('"steps": 1,', '"steps": 2,')],
    "no whole step": lambda line: [re.sub(r'"step": (\d+)', r'"step": \1.0', line)],
    "no loss": lambda line: [re.sub(r'"loss": [\d.]+', '"loss": null', line)],
    "a loss in words": lambda line: [re.sub(r'"loss": [\d.]+', '"loss": "nan"', line)],
    "a torn line": lambda line: [line[:-20]],
    "text behind it": lambda line: [f"{line} and more"],
    "another event": lambda line: [line.replace('"event": "step"', '"event": "rest"')],
    "no stamp of the node": lambda line: [line[line.index("K8SBENCH") :]],
    "a wrong stamp": lambda line: [line.replace("2026-", "2026-9", 1)],
    "a negative time": lambda line: [changed(line, "seconds", "-1")],
}


@pytest.mark.parametrize("odd", OWN)
def test_an_odd_line_of_our_own_is_read_by_itself(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log("k8sbench", tmp_path)
    lines[PLACE : PLACE + 1] = OWN[odd](lines[PLACE])
    taken, _ = together("k8sbench", lines, monkeypatch)
    assert taken > COUNT * 0.6


def test_a_restart_of_epochs_and_a_changed_batch_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log("dle-resnet50", tmp_path)
    lines[PLACE:] = [
        re.sub(
            r"Epoch: \d+ Iteration: (\d+)",
            lambda match: f"Epoch: 1 Iteration: {int(match[1]) - 300}",
            line,
        )
        for line in lines[PLACE:]
    ]
    together("dle-resnet50", lines, monkeypatch)
    lines = log("paddleseg", tmp_path)
    lines[PLACE] = changed(lines[PLACE], "ips", "999.9999")
    together("paddleseg", lines, monkeypatch)


@pytest.mark.parametrize(
    ("family", "old", "new"),
    [
        ("mmseg", "/120]", "/121]"),
        ("dle-resnet50", "Epoch: 0 ", "Epoch: 1 "),
    ],
)
def test_a_block_whose_records_are_alike_may_differ_from_the_one_before(
    family: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log(family, tmp_path)
    second = [line.replace(old, new) for line in lines[PLACE:]]
    assert second != lines[PLACE:]
    together(family, lines[:PLACE], monkeypatch, second)


def test_where_few_records_are_ordinary_the_next_blocks_are_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log("mmseg", tmp_path)
    lines = [text for line in lines for text in ([line, line] if "Iter [" in line else [line])]
    facts = LogFacts([Expectation(format="mmseg", gpus=8, batch_size=4)])
    facts.read(Block(lines))
    assert facts._pause == log_facts.PAUSE


def test_a_log_gives_the_same_items_together(tmp_path: Path) -> None:
    for family in reading.FAMILIES:
        lines = log(family, tmp_path)
        in_one = list(Log(Block(lines), [FAMILIES[family]]))
        by_line = list(Log([f"{line}\n" for line in lines], [FAMILIES[family]]))
        assert in_one == by_line


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_searched_for_among_many_lines_has_no_anchor(family: str) -> None:
    """Neither a line's beginning nor its end is that of a text of many lines."""
    for lane in FAMILIES[family].reader().lanes:
        for other in lane.others:
            if isinstance(other, re.Pattern):
                assert not re.search(r"(?<!\[)\^|\$|\\[AZs]|\[\^", other.pattern)


@pytest.mark.parametrize("family", reading.FAMILIES)
@pytest.mark.parametrize("prefix", ["[rank1]: ", "[pod/a-0] ", "7: ", "2026-03-02T10:00:16Z "])
def test_no_record_begins_with_a_prefix(family: str, prefix: str, tmp_path: Path) -> None:
    line = prefix + log(family, tmp_path)[-1]
    if without_prefixes(line) != ("", line):
        for lane in FAMILIES[family].reader().lanes:
            match = lane.match(line)
            assert match is None or match.start() > 0

"""Many records are read and summed at once; that gives what reading them one by one gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.measuring import measure
from k8sbench.measure.run.rank_records import RankRecords
from k8sbench.model.measurement import Measurement
from k8sbench.model.sample import Record
from k8sbench.parse.families import FAMILIES
from k8sbench.parse.reading import FamilyLog
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


def at_once(
    family: str, lines: list[str], monkeypatch: pytest.MonkeyPatch, *more: list[str]
) -> tuple[int, Measurement]:
    """How many records are added at once; measures the log both ways, and compares."""
    expected = Expectation(format=family, gpus=8, batch_size=4, warmup=20)
    added: list[int] = []
    extend = RankRecords.extend

    def count(self: RankRecords, records: Sequence[Record]) -> int:
        added.append(extend(self, records))
        return added[-1]

    monkeypatch.setattr(RankRecords, "extend", count)
    found = measure([Block(lines, *more)], expected)
    monkeypatch.setattr(RankRecords, "extend", lambda *_: 0)
    alone = measure([Block(lines, *more)], expected)
    monkeypatch.undo()
    assert msgspec.json.encode(found) == msgspec.json.encode(alone)
    return sum(added), found


def same_items(family: str, lines: list[str]) -> bool:
    """Whether a log in one block has the items that it has line by line."""
    families = [FAMILIES[family]]
    by_line = FamilyLog([f"{line}\n" for line in lines], families)
    # As text: a NaN equals nothing.
    return repr(list(FamilyLog(Block(lines), families))) == repr(list(by_line))


@pytest.mark.parametrize("family", reading.FAMILIES)
def test_ordinary_records_are_added_at_once(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log(family, tmp_path)
    added, found = at_once(family, lines, monkeypatch)
    assert found.records >= COUNT - 21
    assert added > COUNT * 0.8
    assert same_items(family, lines)


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
    "a line of epochs": lambda line: [line.replace("Iter [", "Epoch [1][")],
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


@pytest.mark.parametrize(
    ("family", "odd"), [*(("mmseg", odd) for odd in ODD), *(("k8sbench", odd) for odd in OWN)]
)
def test_an_odd_line_changes_nothing_of_the_lines_around_it(
    family: str, odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log(family, tmp_path)
    lines[PLACE : PLACE + 1] = {"mmseg": ODD, "k8sbench": OWN}[family][odd](lines[PLACE])
    added, _ = at_once(family, lines, monkeypatch)
    assert added > COUNT * 0.6
    assert same_items(family, lines)


def test_iterations_that_a_line_of_our_own_leaves_out_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        re.sub(r'"step": (\d+)', lambda match: f'"step": {2 * int(match[1])}', line)
        for line in log("k8sbench", tmp_path)
    ]
    lines = [line.replace('"steps": 1,', '"steps": 2,') for line in lines]
    lines[PLACE] = lines[PLACE].replace('"steps": 2,', '"steps": 1,')
    _, found = at_once("k8sbench", lines, monkeypatch)
    assert "iterations-missing" in {each.id for each in found.reasons}


@pytest.mark.parametrize("family", ["mmseg", "k8sbench"])
def test_records_without_a_stamp_are_added_at_once(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = re.compile(r'^.* - INFO - (?=Iter)|, "time": [\d.]+')
    lines = [stamps.sub("", line) for line in log(family, tmp_path)]
    added, found = at_once(family, lines, monkeypatch)
    assert added > COUNT * 0.8
    assert "throughput.timestamps" in found.missing


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
    at_once("dle-resnet50", lines, monkeypatch)
    lines = log("paddleseg", tmp_path)
    lines[PLACE] = changed(lines[PLACE], "ips", "999.9999")
    at_once("paddleseg", lines, monkeypatch)


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
    at_once(family, lines[:PLACE], monkeypatch, second)

"""The corpus' own table of known figures, ``INDEX.md``."""

import json
import re

import msgspec

from tests import tiers

FAMILIES = {
    "mmsegmentation": "mmseg",
    "PaddleSeg": "paddleseg",
    "PaddleClas": "paddleclas",
    "temporal-shift-module": "tsm",
    "PaddleVideo": "paddlevideo",
    "PLSC": "plsc",
}
"""The table's name of a program → the family's name."""


PROGRAM_LOGS = tiers.corpus().parent / "upstream-logs"
"""Logs of the programs themselves, of few iterations on CPUs."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One log and what is known of it."""

    file: str
    family: str | None
    """None: a format that a catalog file has to declare."""
    program: str
    """``model / framework`` as the table has it."""
    gpus: int
    precision: str
    batch: int
    warmup: int
    time_weighted: float
    arithmetic: float | None
    median: float | None
    iterations: int | None
    records: int | None
    final_loss: float | None
    facts: dict[str, str]
    """The column of other facts: name → value as text."""

    @property
    def path(self) -> str:
        """The log itself."""
        return str(tiers.corpus() / self.file)


def _number(text: str) -> float | None:
    return None if text in {"-", ""} else float(text)


def _facts(text: str) -> dict[str, str]:
    found = re.findall(r"(\w+)=(\{.*?\}|[^;]+)", text)
    return {name: value.strip() for name, value in found}


def _row(line: str) -> Row:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    program = cells[2]
    name = re.search(r"\(([^)]*)\)", program)
    assert name is not None
    family = FAMILIES.get(name[1])
    if "ResNet50" in program and "PyTorch (NVIDIA" in program:
        family = "dle-resnet50"
    iterations, records = (_number(each.strip()) for each in cells[10].split("/"))
    return Row(
        file=cells[0].strip("`"),
        family=family,
        program=program,
        gpus=int(cells[3]),
        precision=cells[4],
        batch=int(cells[5]),
        warmup=int(cells[6]),
        time_weighted=float(cells[7]),
        arithmetic=_number(cells[8]),
        median=_number(cells[9]),
        iterations=None if iterations is None else int(iterations),
        records=None if records is None else int(records),
        final_loss=_number(cells[11]),
        facts=_facts(cells[12]),
    )


def rows() -> list[Row]:
    """The table's rows; none where there is no corpus."""
    index = tiers.corpus() / "INDEX.md"
    if not index.is_file():
        return []
    lines = index.read_text().splitlines()
    return [_row(line) for line in lines if line.startswith("| `") and tiers.MADE_UP not in line]


def accuracy(row: Row) -> dict[str, object] | None:
    """Return the table's figures of a log's evaluations."""
    said = row.facts.get("accuracy")
    if said is None:
        return None
    read: dict[str, object] = json.loads(said)
    return read

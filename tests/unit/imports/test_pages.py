"""README.md and docs/results.md show what the commands print."""

import re
import shutil
from pathlib import Path

import pytest

from tests.tiers import ROOT
from tests.unit.command_line import Cli

LEFT_OUT = "…"
EXAMPLES = "docs/examples"


def shown(page: str) -> list[list[str]]:
    """The lines of each output that a page shows."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [[line for line in block.splitlines() if line.strip() != LEFT_OUT] for block in blocks]


@pytest.fixture
def printed(place: Path, cli: Cli) -> dict[str, str]:
    """Return command → output of the pages' commands."""
    shutil.copytree(ROOT / EXAMPLES, place / EXAMPLES)
    logs = f"{EXAMPLES}/tensorflow/logs"
    benchmark = ["--benchmark", f"{EXAMPLES}/tensorflow/benchmark.yaml"]
    gpu = ["--gpu-model", "Tesla V100-SXM2-16GB"]
    found = {"import": cli("import", logs, "--set", "march", *benchmark, *gpu).out}
    last = cli("list", "-o", "name").out.split()[-1]
    found["explain"] = cli("explain", last).out
    return found


def test_the_rows_of_the_readme_are_those_that_are_printed(printed: dict[str, str]) -> None:
    (table,) = (lines for lines in shown("README.md") if lines[0].startswith("benchmark: "))
    rows = [line.split() for line in printed["import"].splitlines()]
    assert len(table) == 4
    for line, row in zip(table, rows, strict=False):
        words = iter(row)
        assert all(word in words for word in line.split()), line  # in their order


def test_the_explanation_of_the_page_is_the_one_that_is_printed(printed: dict[str, str]) -> None:
    (lines,) = shown("docs/results.md")
    assert len(lines) > 3
    found = iter(printed["explain"].splitlines())
    assert all(line in found for line in lines), lines  # in their order

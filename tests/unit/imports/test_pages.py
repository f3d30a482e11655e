"""docs/import.md and docs/explain.md show what the commands print."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from k8sbench.cli.main import main
from tests.tiers import ROOT

LEFT_OUT = "…"
EXAMPLES = "docs/examples"


def shown(page: str) -> list[list[str]]:
    """The lines of each output that a page shows."""
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [[line for line in block.splitlines() if line.strip() != LEFT_OUT] for block in blocks]


@pytest.fixture
def printed(place: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What the pages' commands print, by the command."""
    shutil.copytree(ROOT / EXAMPLES, place / EXAMPLES)
    logs = f"{EXAMPLES}/tensorflow/logs"
    benchmark = ["--benchmark", f"{EXAMPLES}/tensorflow/benchmark.yaml"]
    gpu = ["--gpu-model", "Tesla V100-SXM2-16GB"]
    assert main(["import", logs, "--set", "march", *benchmark, *gpu]) == 0
    found = {"import": capsys.readouterr().out}
    assert main(["list", "-o", "name"]) == 0
    last = capsys.readouterr().out.split()[-1]
    assert main(["explain", last]) == 0
    found["explain"] = capsys.readouterr().out
    log = (place / EXAMPLES / "my-model.log").read_text().replace(" loss ", " loss=")
    (place / "changed.log").write_text(log)
    assert main(["explain", f"{EXAMPLES}/my-model.yaml", "changed.log"]) == 0
    found["misses"] = capsys.readouterr().out
    return found


def test_the_rows_of_the_import_page_are_those_that_are_printed(printed: dict[str, str]) -> None:
    (table,) = shown("import.md")
    rows = [line.split() for line in printed["import"].splitlines()]
    assert len(table) == 3
    for line, row in zip(table, rows, strict=False):
        words = iter(row)
        assert all(word in words for word in line.split()), line  # in their order


def test_the_explanations_of_the_page_are_those_that_are_printed(printed: dict[str, str]) -> None:
    run, misses = shown("explain.md")
    for lines, out in ((run, printed["explain"]), (misses, printed["misses"])):
        assert len(lines) > 5
        found = iter(out.splitlines())
        assert all(line in found for line in lines), lines  # in their order

"""The session of docs/python.md runs in the page's order."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text()
BLOCK = re.compile(r"```(?:python|yaml)\n(?:# (\S+)\n)?(.*?)```", re.DOTALL)
"""A block of the page; its first line may name the file that it is."""


@pytest.mark.timeout(600)
def test_the_session_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    names: dict[str, Any] = {}
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) >= 8
    for file, text in blocks:
        if file:
            Path(file).write_text(text)
        else:
            exec(compile(text, "docs/python.md", "exec"), names)
    row = names["row"]
    assert (row.throughput, row.state, row.runs_valid) == (pytest.approx(412.7), "valid", 2)
    assert names["old"].set == "march"
    assert {one["set"] for one in names["table"]} == {"tuesday", "march"}
    out, err = capsys.readouterr()
    assert "412.7 images/s" in out
    (case,) = names["compared"].cases
    assert case.finding == "not-comparable"
    assert "precision" in out
    assert err == ""

"""The Python of docs/reference.md runs in the page's order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import ROOT

PAGE = (ROOT / "docs" / "reference.md").read_text()


@pytest.mark.tier("frameworks")
@pytest.mark.timeout(600)
def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, "docs/reference.md", "exec"), names)
    assert names["row"].state == "valid"
    assert len(names["table"]) == 1
    out, err = capsys.readouterr()
    assert "samples/s valid" in out
    assert err == ""

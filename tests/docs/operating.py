"""docs/operations.md: which test executes which of its commands, and how."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests.docs import pages
from tests.docs.pages import Command
from tests.harness import helm as programs
from tests.harness.cluster import tools
from tests.tiers import ROOT

PAGE = ROOT / "docs" / "operations.md"
TEAM = "team-a"
"""The page's namespace."""
ON_REAL_NODES = (
    "When the collector does not start",
    "What is stored, and how large it grows",
    "Retention",
    "Backup and restore",
)
"""Sections whose commands need a collector that runs: tests/node/test_operations_page.py."""
BY_POSTGRESQL = ("Rows in PostgreSQL",)
"""tests/unit/store/test_operations_page.py; all others: tests/cluster/test_operations_page.py."""
_FILE = re.compile(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(*sections: str) -> list[Command]:
    """Return the commands of some sections; of none that they are all others."""
    listed = pages.commands(PAGE)
    known = {each.section for each in listed}
    apart = {*ON_REAL_NODES, *BY_POSTGRESQL}
    assert apart <= known, f"these sections have no commands: {apart - known}"
    wanted = set(sections) or known - apart
    return [each for each in listed if each.section in wanted]


def prepare(folder: Path, kubectl: Path) -> dict[str, str]:
    """Write the page's files, and return the variables with which its commands run there."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    newest = tools.built(programs.MODULES[max(programs.MODULES)])
    (bin_folder / "helm").symlink_to(newest.program("helm"))
    (bin_folder / "kubectl").symlink_to(kubectl)
    (folder / "charts").symlink_to(programs.CHART)
    for name, text in _FILE.findall(PAGE.read_text()):
        (folder / name).write_text(text)
    path = f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"HOME": str(folder), "PATH": path}

"""docs/operator.md: which test executes which of its commands, and how."""

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

PAGE = ROOT / "docs" / "operator.md"
TEAM = "team-a"
"""The page's namespace."""
PLACES = {
    "node": re.compile(r" exec |--store cluster| logs |backup|helm test"),
    "cluster": re.compile(""),
}
"""Place → pattern of the commands that run there; first match wins.

``node``: tests/node/test_operator_page.py, with a running operator. ``cluster``:
tests/cluster/test_pages.py; the section on Benchmark objects:
tests/cluster/test_benchmark_objects.py.
"""
_FILE = re.compile(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(place: str) -> list[Command]:
    """Return the page's commands for one place, in order."""
    objects = pages.commands(PAGE, "Benchmark objects")
    listed = [command for command in pages.commands(PAGE) if command not in objects]
    at = [next(each for each, marks in PLACES.items() if marks.search(c.text)) for c in listed]
    found = [command for command, where in zip(listed, at, strict=True) if where == place]
    assert found
    return found


def files() -> dict[str, str]:
    """Return the texts of the files that the page shows, by their names."""
    return dict(_FILE.findall(PAGE.read_text()))


def prepare(folder: Path, kubectl: Path) -> dict[str, str]:
    """Write the page's files, and return the variables with which its commands run there."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    newest = tools.built(programs.MODULES[max(programs.MODULES)])
    (bin_folder / "helm").symlink_to(newest.program("helm"))
    (bin_folder / "kubectl").symlink_to(kubectl)
    (folder / "charts").symlink_to(programs.CHART)
    for name, text in files().items():
        (folder / name).write_text(text)
    path = f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"HOME": str(folder), "PATH": path}

"""The commands of README and docs, as a reader would copy them.

A fenced block marked ``console`` shows a terminal: lines that begin with ``$ `` are commands (a
trailing backslash continues one), the others are what they print, for the reader. ``# exit N`` at
a command's end states its exit code where that is not 0.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import textwrap
from collections.abc import Mapping

import msgspec

from tests.tiers import ROOT

FENCE = re.compile(r"^ *```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"\s+# exit (\d+)$")
HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)


class Command(msgspec.Struct, frozen=True):
    """One command of a page."""

    page: str
    line: int
    text: str
    code: int
    section: str
    """The nearest heading above it."""


def pages() -> list[pathlib.Path]:
    """README and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def prose() -> list[pathlib.Path]:
    """Return all pages for people: users' pages and developers' pages."""
    top = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    more = ("charts/README.md", "tests/README.md", "tests/harness/README.md")
    return [*pages(), *(ROOT / each for each in (*top, *more))]


def commands(page: pathlib.Path, within: str | None = None) -> list[Command]:
    """Return the commands of a page, or of one of its sections, in order."""
    text = page.read_text()
    found: list[Command] = []
    for block in FENCE.finditer(text):
        first = text.count("\n", 0, block.start(1)) + 1
        *_, section = ("", *HEADING.findall(text, 0, block.start()))
        if within not in (None, section):
            continue
        pending = ""
        for offset, line in enumerate(textwrap.dedent(block[1]).splitlines()):
            if pending:
                pending += " " + line.strip()
            elif line.startswith("$ "):
                pending = line[2:]
            else:
                continue
            if pending.endswith("\\"):
                pending = pending[:-1].rstrip()
                continue
            code = EXIT.search(pending)
            found.append(
                Command(
                    page=str(page.relative_to(ROOT)),
                    line=first + offset,
                    text=EXIT.sub("", pending),
                    code=int(code[1]) if code else 0,
                    section=section,
                )
            )
            pending = ""
    return found


def run(command: Command, folder: pathlib.Path, variables: Mapping[str, str]) -> str:
    """Run a command, check its exit code, and return what it has printed."""
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == command.code, f"{command}\n{printed}"
    return printed

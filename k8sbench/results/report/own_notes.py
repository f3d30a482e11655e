"""A user's notes, as chapters of a report."""

from __future__ import annotations

from collections.abc import Sequence

from k8sbench.results.report import words

_FENCES = ("```", "~~~")


def split_notes(notes: str) -> dict[str, str]:
    """Split Markdown at its headings of the first two levels: heading → text.

    What precedes the first heading has the heading ``""``.
    """
    heading = fence = ""
    found = {heading: list[str]()}
    for line in notes.splitlines():
        mark = line.lstrip(" ")[:3]
        if mark in _FENCES and not line.startswith("    "):
            fence = "" if fence == mark else fence or mark
        if not fence and (title := _title(line)):
            heading = title
            found.setdefault(heading, [])
        else:
            found[heading].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


def _title(line: str) -> str:
    """Return the title of a heading of the first two levels; empty for another line."""
    marks, _, title = line.partition(" ")
    return title.strip(" ").rstrip(" #") if marks in ("#", "##") else ""


def by_chapter(
    notes: str, chapters: Sequence[str], last: str
) -> tuple[str, dict[str, list[str]], dict[str, list[tuple[str, str]]]]:
    """Return the notes before all chapters, those of each chapter, and chapters of their own.

    These follow the chapter of ours that precedes them in the notes, else chapter ``last``.
    """
    headings = {word.lower(): name for name in chapters for word in words.both(name)}
    parts = split_notes(notes)
    lead = parts.pop("")
    added: dict[str, list[str]] = {name: [] for name in chapters}
    own: dict[str, list[tuple[str, str]]] = {name: [] for name in chapters}
    place = last
    for heading, said in parts.items():
        if (chapter := headings.get(heading.lower())) is None:
            own[place].append((heading, said))
        else:
            added[chapter].append(said)
            place = chapter
    return lead, added, own

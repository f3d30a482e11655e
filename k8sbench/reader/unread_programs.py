"""Programs whose logs are recognised for certain, and not read."""

from __future__ import annotations

import re
from typing import NamedTuple

from k8sbench.messages import Note, note


class UnreadProgram(NamedTuple):
    """A program whose log is recognised, and not read."""

    title: str | Note
    """The program, for people."""
    reason: Note
    """Reason not to read its logs: the end of a sentence."""


class _Sign(NamedTuple):
    """Text that only one program without a family prints."""

    title: str
    needle: str
    """Literal text that every line holds by which the program is recognised."""
    pattern: re.Pattern[str]
    reason: Note


_SIGNS = (
    _Sign(
        "Composer (LLM Foundry)",
        "\t Train ",
        re.compile(r"\t Train [a-z_]+/[\w/]+: \S"),
        note("unread-program-several-lines"),
    ),
    _Sign(
        "DLLogger",
        "DLL",
        re.compile(r'\bDLL \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ - |\bDLLL \{"'),
        note("unread-program-own-lines"),
    ),
    _Sign(
        "Ultralytics",
        "Ultralytics ",
        re.compile(r"\bUltralytics (?:YOLOv)?\d+\.\d+\.\d+\S* \S* ?Python-\d+\.\d+"),
        note("unread-program-progress-bar"),
    ),
    _Sign(
        "icefall",
        "tot_loss[",
        re.compile(r"\bEpoch \d+, batch \d+, .*\btot_loss\["),
        note("unread-program-stamps"),
    ),
)
NEEDLES = frozenset(sign.needle for sign in _SIGNS)


def recognise(text: str) -> UnreadProgram | None:
    """Return the program that a line shows; None for any other line."""
    for sign in _SIGNS:
        if sign.needle in text and sign.pattern.search(text):
            return UnreadProgram(sign.title, sign.reason)
    return None

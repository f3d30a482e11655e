"""Programs whose logs are recognised for certain, and not read."""

from __future__ import annotations

import re
from typing import NamedTuple


class UnreadProgram(NamedTuple):
    """A program whose log is recognised, and not read."""

    title: str
    """The program, for people."""
    reason: str
    """Reason not to read its logs: the end of a sentence."""


class _Sign(NamedTuple):
    """Text that only one program without a family prints."""

    title: str
    needle: str
    """Literal text that every line holds by which the program is recognised."""
    pattern: re.Pattern[str]
    reason: str


_SIGNS = (
    _Sign(
        "Composer (LLM Foundry)",
        "\t Train ",
        re.compile(r"\t Train [a-z_]+/[\w/]+: \S"),
        "each of its records has several lines",
    ),
    _Sign(
        "DLLogger",
        "DLL",
        re.compile(r'\bDLL \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ - |\bDLLL \{"'),
        "each program that uses it chooses other lines and names for its numbers, and only NVIDIA's"
        " ResNet-50 of PyTorch has a family",
    ),
    _Sign(
        "Ultralytics",
        "Ultralytics ",
        re.compile(r"\bUltralytics (?:YOLOv)?\d+\.\d+\.\d+\S* \S* ?Python-\d+\.\d+"),
        "it prints a progress bar for each epoch, and no line of a step",
    ),
    _Sign(
        "icefall",
        "tot_loss[",
        re.compile(r"\bEpoch \d+, batch \d+, .*\btot_loss\["),
        "its lines state neither a rate nor a time, and only the stamps in front of them tell it",
    ),
)
NEEDLES = frozenset(sign.needle for sign in _SIGNS)


def recognise(text: str) -> UnreadProgram | None:
    """Return the program that a line shows; None for any other line."""
    for sign in _SIGNS:
        if sign.needle in text and sign.pattern.search(text):
            return UnreadProgram(sign.title, sign.reason)
    return None

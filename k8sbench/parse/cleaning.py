"""From a line of a file to the text that the program printed.

Launchers and collectors put things in front of lines (mpirun's date and rank, torchrun's rank, a
pod's name, a time stamp), glue lines of several ranks together, and terminals leave colours and
carriage returns. These are removed and the rank is kept. Ordinary lines return early.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# mpirun --tag-output --timestamp-output: "Mon May 31 09:18:25 2021[1,0]<stderr>:", also without
# the date. Lines of several ranks can be glued, so it may stand anywhere.
_MPIRUN = re.compile(
    r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?\[\d+,(\d+)\]<std(?:out|err)>: ?"
)
# What kubectl logs --prefix --timestamps, our own log files and torchrun put at the start.
_POD = re.compile(r"\[pod/([^\]\s]+)\] ")
_RECEIVED = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d) ?")
_TORCHRUN = re.compile(r"\[(?:default|rank)(\d+)\]: ?")
_SRUN = re.compile(r"(\d{1,5}): ")
# CSI sequences; the escape character itself is lost where a log went through a web page.
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|\[\d{1,3}(?:;\d{1,3}){0,3}m")

OWN = "K8SBENCH {"
"""What the lines of our own trainers begin with."""
PREFIX_STARTS = frozenset("[0123456789")
"""Characters that those begin with: most lines begin with none of them."""

Piece = tuple[str, str]
"""Rank that printed it ("" if unknown), and what it printed."""


def plain(text: str) -> bool:
    """Whether nothing but prefixes must be removed from the lines of a text."""
    return "\x1b" not in text and "]<std" not in text and "\x00" not in text and "[0m" not in text


def pieces(line: str) -> Sequence[Piece]:
    """Split a line into its pieces: the rank that printed each, and its text."""
    if plain(line) and "\r" not in line:
        return (without_prefixes(line),)
    if "\r" in line or "\x00" in line:
        parts = line.replace("\x00", "").split("\r")
        return [piece for part in parts if part for piece in _pieces(part)]
    return _pieces(line)


def _pieces(line: str) -> Sequence[Piece]:
    if "\x1b" in line or "[0m" in line:
        line = _COLOUR.sub("", line)
    source, line = without_prefixes(line)
    if "]<std" not in line:
        return ((source, line),)
    # Text, rank, text, rank, text …: the first text had no rank of its own.
    parts = _MPIRUN.split(line)
    pieces_of_line = [(source, parts[0])] if parts[0] else []
    pieces_of_line += zip(parts[1::2], parts[2::2], strict=True)
    return pieces_of_line


def without_prefixes(line: str) -> Piece:
    """The rank that a line's prefixes name, and the line without them."""
    if line[:1] not in PREFIX_STARTS:
        return "", line
    if line[4:5] == "-" and line[10:11] != "T" and line[:4].isdigit():
        # The program's own date, with which most training lines begin.
        return "", line
    source = ""
    if line.startswith("[pod/") and (match := _POD.match(line)):
        source, line = match[1], line[match.end() :]
    if line[10:11] == "T":
        if line.startswith(OWN, line.find(" ") + 1):
            # Our own lines' reader takes the stamp: it is a second clock.
            return source, line
        line = _RECEIVED.sub("", line, 1)
    if line.startswith(("[default", "[rank")):
        match = _TORCHRUN.match(line)
    elif line[:1].isdigit():
        match = _SRUN.match(line)
    else:
        match = None
    return (match[1], line[match.end() :]) if match else (source, line)

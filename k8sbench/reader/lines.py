"""Lines of a log, cleaned, from blocks of many lines.

Most lines are irrelevant: a text is searched for in a whole block at once, and a block without one
is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from k8sbench.messages import Note
from k8sbench.model.sample import Fact, Mark, MarkKind

NumberedLine = tuple[int, str]
"""Number, from 1, and text without the line end."""

FEW = 16
"""Texts that are each searched for in a whole block."""
_ENDED = re.compile(r"[^\r\n]*[\r\n]|[^\r\n]+")
_ZEROS = str.maketrans("123456789", "0" * 9)


def ended(block: str) -> list[str]:
    """Each line of a block, with its end."""
    return _ENDED.findall(block)


class OrderedLines:
    """The lines of a log in their order, of which each is given once.

    A block is whole lines, with their ends. What a carriage return separates is one line: progress
    bars are rewritten in place, and what is printed next stands behind them.
    """

    def __init__(self, blocks: Iterable[str]) -> None:
        self.empty = True
        """True until a line with content comes."""
        self._block = ""
        self._wanted: Collection[str] = ()
        self._present: list[str] = []
        """Wanted texts that the block may hold."""
        self._lines = self._numbered(blocks)

    def holding(self, texts: Collection[str]) -> Iterator[NumberedLine]:
        """Yield the remaining lines that hold one of the texts, once cleaned.

        Several iterators share the position: each line is given once.
        """
        self._look_for(texts)
        for line in self._lines:
            yield line
            self._look_for(texts)

    def _look_for(self, texts: Collection[str]) -> None:
        if texts is not self._wanted:
            self._wanted, self._present = texts, _present(self._block, texts)

    def _numbered(self, blocks: Iterable[str]) -> Iterator[NumberedLine]:
        """Yield the lines that hold a wanted text."""
        first = 1
        for block in blocks:
            self.empty = self.empty and not block.strip("\r\n")
            self._block, self._present = block, _present(block, self._wanted)
            is_plain = plain(block)
            for number, line in enumerate(block.split("\n") if self._present else (), first):
                cleaned = line if is_plain else _without_codes(line)
                for text in self._present:  # any() would take twice as long
                    if text in cleaned:
                        if line:
                            yield number, line
                        break
            first += block.count("\n")


def _present(block: str, texts: Collection[str]) -> list[str]:
    """Return the texts that a block may hold once it is cleaned."""
    if len(texts) <= FEW and plain(block):
        return [text for text in texts if text in block]
    # Most lines of a long prologue are those of a loop: without their digits few are left.
    shapes = _without_codes("\n".join(set(block.translate(_ZEROS).split("\n"))))
    return [text for text in texts if _is_in(text.translate(_ZEROS), shapes)]


def _is_in(text: str, block: str) -> bool:
    # Testing single characters first is about 20 times as fast.
    return all(map(block.__contains__, text)) and text in block


# -- cleaning -------------------------------------------------------------------------------------
#
# From a line of a file to the text that the program printed. Launchers and operators put things
# in front of lines (mpirun's date and rank, torchrun's rank, a pod's name, a time stamp), glue
# lines of several ranks together, and terminals leave colours and carriage returns. These are
# removed; the rank and the time are kept. Ordinary lines return early.

# mpirun --tag-output --timestamp-output: "Mon May 31 09:18:25 2021[1,0]<stderr>:", also without
# the date. Lines of several ranks can be glued, so it may stand anywhere.
_MPIRUN = re.compile(
    r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?\[\d+,(\d+)\]<std(?:out|err)>: ?"
)
# What kubectl logs --prefix --timestamps, a node's own (CRI) and our log files, and torchrun put at
# the start.
_POD = re.compile(r"\[pod/([^\]\s]+)\] ")
_RECEIVED = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)) ?(?:std(?:out|err) [FP] )?"
)
_TORCHRUN = re.compile(r"\[(?:default|rank)(\d+)\]: ?")
_SRUN = re.compile(r"(\d{1,5}): ")
# CSI sequences; the escape character itself is lost where a log went through a web page.
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|\[\d{1,3}(?:;\d{1,3}){0,3}m")
_PREFIX_STARTS = frozenset("[0123456789")
"""Characters that prefixes begin with: most lines begin with none of them."""


class CleanLine(NamedTuple):
    """Printed text of a line, or of a piece of it."""

    number: int
    """From 1."""
    text: str
    source: str = ""
    """The rank that printed it; empty: not known."""
    received: str = ""
    """The time that the node put in front of it; empty: none."""

    def fact(self, name: str, value: str) -> Fact:
        """A fact that stands on this line."""
        return Fact(line=self.number, text=self.text, source=self.source, name=name, value=value)

    def doubt(self, name: str, why: Note) -> Fact:
        """A fact that this line shows, which is a sentence of ours."""
        return self.fact(name, "").doubt(name, why)

    def mark(
        self,
        kind: MarkKind,
        text: str | None = None,
        values: Mapping[str, float | str | Note | None] | None = None,
        stamp: float | None = None,
    ) -> Mark:
        """Build a mark; ``text`` is the relevant part of the line."""
        return Mark(
            line=self.number,
            text=self.text if text is None else text,
            source=self.source,
            kind=kind,
            values=dict(values or {}),
            stamp=stamp,
        )


def plain(text: str) -> bool:
    """True if only prefixes must be removed from the text's lines."""
    return "\x1b" not in text and "]<std" not in text and "\x00" not in text and "[0m" not in text


def pieces(line: str, number: int = 0) -> Sequence[CleanLine]:
    """Split a line into its pieces."""
    if plain(line) and "\r" not in line:
        return (_without_prefixes(line, number),)
    parts = _without_codes(line).split("\r")
    return [piece for part in parts if part for piece in _by_rank(part, number)]


def _without_codes(text: str) -> str:
    """One or more lines without what terminals read."""
    text = text.replace("\x00", "")
    return _COLOUR.sub("", text) if "\x1b" in text or "[0m" in text else text


def _by_rank(part: str, number: int) -> Iterator[CleanLine]:
    line = _without_prefixes(part, number)
    # Text, rank, text, rank, text …: the first text had no rank of its own.
    first, *others = _MPIRUN.split(line.text) if "]<std" in line.text else [line.text]
    if first or not others:
        yield line._replace(text=first)
    for rank, text in zip(others[::2], others[1::2], strict=True):
        yield line._replace(text=text, source=rank)


def _without_prefixes(line: str, number: int) -> CleanLine:
    if line[:1] not in _PREFIX_STARTS:
        return CleanLine(number, line)
    if line[4:5] == "-" and line[10:11] != "T" and line[:4].isdigit():
        # The program's own date, with which most training lines begin.
        return CleanLine(number, line)
    source = received = ""
    if line.startswith("[pod/") and (match := _POD.match(line)):
        source = match[1]
        line = line[match.end() :]
    if line[10:11] == "T" and (match := _RECEIVED.match(line)):
        received = match[1]
        line = line[match.end() :]
    if line.startswith(("[default", "[rank")):
        match = _TORCHRUN.match(line)
    elif line[:1].isdigit():
        match = _SRUN.match(line)
    else:
        match = None
    if match:
        source = match[1]
        line = line[match.end() :]
    return CleanLine(number, line, source, received)

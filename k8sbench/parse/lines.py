"""The lines of a log, which comes in blocks of many.

Most lines of most logs mean nothing. They are passed over without being taken apart: a text is
searched for in a whole block at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

NumberedLine = tuple[int, str]
"""Number, from 1, and text without the line end."""

_END = re.compile(r"[\r\n]")
_ENDED = re.compile(r"[^\r\n]*[\r\n]|[^\r\n]+")
_DIGITS = str.maketrans("123456789", "0" * 9)
_HEX_DIGITS = str.maketrans("123456789abcdef", "0" * 15)


def find(text: str, needle: str, at: int = 0) -> int:
    """Where a text stands first; −1: nowhere.

    That one of its characters is nowhere shows some twenty times as fast.
    """
    return text.find(needle, at) if all(map(text.__contains__, needle)) else -1


def ended(block: str) -> list[str]:
    """Each line of a block, with its end."""
    return _ENDED.findall(block)


class UniqueLines:
    """The lines of a log in their order, of which each is given once.

    A block is whole lines, with their ends. A carriage return ends a piece of a line as a line
    feed ends the line: progress bars are rewritten in place, and what is printed next stands
    behind them. The pieces of one line share its number. Empty ones are left out.
    """

    def __init__(self, blocks: Iterable[str], number: int = 1) -> None:
        self.empty = True
        """Whether no line has come so far that is not empty."""
        self.block = ""
        """The current one."""
        self._blocks = iter(blocks)
        self._at = 0
        """Where the next line begins …"""
        self._number = number
        """… and its number."""

    def more(self) -> bool:
        """Go to the next block if this one is at its end; False at the end of the log."""
        while self._at >= len(self.block):
            block = next(self._blocks, None)
            if block is None:
                return False
            self.block, self._at = block, 0
            if block.strip("\r\n"):
                self.empty = False
            else:
                self.skip()
        return True

    def __iter__(self) -> Iterator[NumberedLine]:
        """Every line from here on."""
        while self.more():
            yield from self.rest()

    def present(self, texts: Iterable[str]) -> list[str]:
        """Those of the texts that the rest of this block holds."""
        return [text for text in texts if find(self.block, text, self._at) >= 0]

    def holding(self, texts: Collection[str]) -> tuple[list[int], list[str]]:
        """Take the rest of this block; return its lines that hold one of the texts.

        First their numbers, then the lines.
        """
        if "\r" in self.block or "" in texts:
            found = [line for line in self.rest() if any(text in line[1] for text in texts)]
        else:
            found = list(self._with(texts))
        return [number for number, _ in found], [line for _, line in found]

    def in_turn(self, texts: Callable[[], Collection[str]]) -> Iterator[NumberedLine]:
        """The lines from here on that hold one of the texts once they are cleaned.

        Others may be given, too. Whoever stops goes on behind the last line. ``texts`` is asked
        after each line.
        """
        while self.more():
            wanted = texts()
            for line in self.rest() if "" in wanted else self._alike(wanted):
                yield line
                if texts() is not wanted:
                    break

    def _alike(self, texts: Collection[str]) -> Iterator[NumberedLine]:
        """The lines in the rest of this block that hold one of the texts but for its digits.

        Most lines of a long prologue are those of a loop: without their digits few are left.
        """
        block = self.block[self._at :]
        # The last letter of an escape sequence must stay a letter.
        digits = _DIGITS if "\x1b" in block else _HEX_DIGITS
        shapes = block.translate(digits).split("\n")
        unique = list(set(shapes))
        cleaned = _without_codes("\n".join(unique))
        present = [text for each in texts if find(cleaned, text := each.translate(digits)) >= 0]
        holding = {
            shape
            for shape, line in zip(unique, cleaned.split("\n") if present else (), strict=False)
            if any(text in line for text in present)
        }
        at, number = self._at, self._number
        for line, shape in zip(block.split("\n"), shapes, strict=True) if holding else ():
            end = at + len(line) + 1
            for piece in line.split("\r") if shape in holding else ():
                at += len(piece) + 1
                self._at, self._number = at, number + (at == end <= len(self.block))
                if piece:
                    yield number, piece
            at, number = end, number + 1
        self.skip()

    def _with(self, texts: Collection[str]) -> Iterator[NumberedLine]:
        """The lines in the rest of this block that hold one of the texts."""
        ends: dict[int, int] = {}
        block, find, rfind, count = self.block, self.block.find, self.block.rfind, self.block.count
        for text in texts:
            end = self._at - 1
            while (place := find(text, end + 1)) >= 0:
                begin = rfind("\n", end + 1, place) + 1 or end + 1
                end = find("\n", place)
                if end < 0:
                    end = len(block)
                ends[begin] = end
        for begin, end in sorted(ends.items()):
            number = self._number + count("\n", self._at, begin)
            self._at, self._number = min(end + 1, len(block)), number + 1
            yield number, block[begin:end]
        self.skip()

    def rest(self) -> Iterator[NumberedLine]:
        """The lines in the rest of this block."""
        block = self.block
        while (at := self._at) < len(block):
            ending = _END.search(block, at)
            end = ending.start() if ending else len(block)
            number, self._at = self._number, end + 1
            self._number += ending is not None and ending[0] == "\n"
            if at < end:
                yield number, block[at:end]

    def skip(self) -> None:
        """Leave out the rest of this block."""
        self._number += self.block.count("\n", self._at)
        self._at = len(self.block)


# -- cleaning -------------------------------------------------------------------------------------
#
# From a line of a file to the text that the program printed. Launchers and collectors put things
# in front of lines (mpirun's date and rank, torchrun's rank, a pod's name, a time stamp), glue
# lines of several ranks together, and terminals leave colours and carriage returns. These are
# removed and the rank is kept. Ordinary lines return early.

# mpirun --tag-output --timestamp-output: "Mon May 31 09:18:25 2021[1,0]<stderr>:", also without
# the date. Lines of several ranks can be glued, so it may stand anywhere.
_MPIRUN = re.compile(
    r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?\[\d+,(\d+)\]<std(?:out|err)>: ?"
)
# What kubectl logs --prefix --timestamps, a node's own (CRI) and our log files, and torchrun put at
# the start.
_POD = re.compile(r"\[pod/([^\]\s]+)\] ")
_RECEIVED = re.compile(
    r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d) ?(?:std(?:out|err) [FP] )?"
)
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
    parts = _without_codes(line).split("\r")
    return [piece for part in parts if part for piece in _pieces(part)]


def _without_codes(text: str) -> str:
    """One or more lines without what terminals read."""
    text = text.replace("\x00", "")
    return _COLOUR.sub("", text) if "\x1b" in text or "[0m" in text else text


def _pieces(line: str) -> Sequence[Piece]:
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

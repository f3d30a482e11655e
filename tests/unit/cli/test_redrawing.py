"""A terminal that becomes narrower wraps what is drawn on it; nothing of that may stay."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.text import Text

from k8sbench.cli.terminal.redrawing import Redrawing

CODE = re.compile(r"\x1b\[\??(\d*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


class Terminal(io.StringIO):
    """As much of a terminal as a drawing needs: it wraps lines, again at each change of width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.lines = [""]
        """What lies between line ends."""
        self.line, self.column = 0, 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for count, code, back, end, words in CODE.findall(text):
            if words:
                kept = self.lines[self.line][: self.column].ljust(self.column)
                self.lines[self.line] = kept + words
                self.column += len(words)
            elif back:
                self.column -= self.column % self.width or (self.width if self.column else 0)
            elif end:
                self.line, self.column = self.line + 1, 0
                self.lines += [""] * (self.line + 1 - len(self.lines))
            elif code == "A":
                for _ in range(int(count or 1)):
                    self._up()
            elif code == "K":
                start = self.column - self.column % self.width
                self.lines[self.line] = self.lines[self.line][:start]
        return len(text)

    def _up(self) -> None:
        """Go one row up: within a wrapped line, or to the last row of the line before."""
        if self.column >= self.width:
            self.column -= self.width
        elif self.line:
            self.line -= 1
            length = len(self.lines[self.line])
            self.column = (max(length - 1, 0) // self.width) * self.width

    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.lines if line.strip()]


@pytest.fixture
def terminal() -> Terminal:
    return Terminal(60)


def frame(*lines: str) -> Text:
    return Text("\n".join(lines), no_wrap=True, overflow="crop")


@pytest.mark.parametrize("widths", [(60, 25), (60, 25, 13), (60, 13, 60), (60, 59)])
def test_nothing_of_an_older_drawing_stays_after_a_change_of_width(
    terminal: Terminal, widths: tuple[int, ...]
) -> None:
    screen = Console(file=terminal, force_terminal=True, color_system=None, height=20)
    live = Redrawing(console=screen, auto_refresh=False, redirect_stderr=False, transient=True)
    with live:
        for number, width in enumerate(widths):
            terminal.width = screen.width = width
            screen.print(f"line {number}", soft_wrap=True)
            live.update(frame("a" * width, "b" * (width // 2), "c" * width), refresh=True)
        printed = [f"line {number}" for number in range(len(widths))]
        last = widths[-1]
        assert terminal.shown() == [*printed, "a" * last, "b" * (last // 2), "c" * last]
    assert terminal.shown() == printed

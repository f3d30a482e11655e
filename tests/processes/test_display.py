"""The live display, the lines above it, and the restored terminal.

Each test runs the display in a process of its own on a pseudo-terminal, and looks at what a
terminal would show.
"""

import codecs
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest

from tests.harness import children
from tests.processes import drawing
from tests.tiers import ROOT
from tests.unit.presence import present

PATIENCE = 120.0
PIECES = re.compile(r"\x1b\[\??(?P<number>[0-9;]*)(?P<what>[A-Za-z])|.", re.DOTALL)
BEGUN = re.compile(r"\x1b(\[\??[0-9;]*)?\Z")
"""A code of which the rest has not come yet."""


class Screen:
    """Emulates the used part of a terminal: lines, cursor up, erasing, hiding."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines = [""]
        self.cursor_hidden = False
        self._row = 0
        self._column = 0
        self._begun = ""

    def feed(self, text: str) -> None:
        text = self._begun + text
        begun = BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        for piece in PIECES.finditer(text.removesuffix(self._begun)):
            if piece["what"]:
                self._obey(piece["number"], piece["what"])
            else:
                self._put(piece[0])

    def shown(self) -> list[str]:
        """The lines, scrolled away or not, without the empty ones at the end."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip().split("\n")

    def _obey(self, number: str, what: str) -> None:
        if what == "A":
            self._row = max(0, self._row - int(number or 1))
        elif what == "K":
            assert number == "2"
            self.lines[self._row] = ""
        elif number == "25":
            self.cursor_hidden = what == "l"
        else:
            assert what == "m", f"unknown code {number}{what}"

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
            return
        if char == "\n" or self._column == self.width:
            self._row += 1
            self._column = 0
            if self._row == len(self.lines):
                self.lines.append("")
        if char != "\n":
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + char + line[self._column + 1 :]
            self._column += 1


class Terminal:
    """A process on a pseudo-terminal, and what it shows."""

    def __init__(self, *, width: int = 80, height: int = 24, **environ: str) -> None:
        self._master, slave = os.openpty()
        self._resize(slave, width, height)
        self.screen = Screen(width)
        self.raw = ""
        self.out = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        bare = {key: value for key, value in os.environ.items() if key not in UNCLEAN}
        self.process = subprocess.Popen(
            children.command(drawing.draw),
            cwd=ROOT,
            env={**bare, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=slave,
            text=True,
        )
        os.close(slave)

    def do(self, statement: str) -> None:
        """Have the process do something to ``tell``."""
        stdin = present(self.process.stdin)
        stdin.write(statement + "\n")
        stdin.flush()

    def see(self, text: str) -> list[str]:
        """Wait until a line holds the text; returns all lines."""
        deadline = time.monotonic() + PATIENCE
        while not any(text in line for line in self.screen.shown()):
            assert time.monotonic() < deadline, f"no {text!r}: {self.screen.shown()}"
            assert self._read(), f"ended without {text!r}: {self.screen.shown()}"
        return self.screen.shown()

    def end(self, code: int = 0) -> list[str]:
        """Have it come to its end; returns all lines that are left."""
        present(self.process.stdin).close()
        while self._read():
            pass
        self.out = present(self.process.stdout).read()
        assert self.process.wait(PATIENCE) == code
        return self.screen.shown()

    def resize(self, width: int, height: int) -> None:
        self.screen.width = width
        self._resize(self._master, width, height)

    def hang_up(self) -> None:
        if self._master >= 0:
            os.close(self._master)
        self._master = -1

    def close(self) -> None:
        self.hang_up()
        with self.process:  # closes its streams
            self.process.kill()

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], PATIENCE)
        assert ready, f"nothing came: {self.screen.shown()}"
        try:
            piece = self._decoder.decode(os.read(self._master, 65536))
        except OSError:  # the process has gone
            return False
        self.raw += piece
        self.screen.feed(piece)
        return True

    @staticmethod
    def _resize(descriptor: int, width: int, height: int) -> None:
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


UNCLEAN = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM", "TTY_COMPATIBLE"}


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A terminal, of the name that a test's parameter has."""
    opened = Terminal(TERM=getattr(request, "param", "xterm-256color"))
    yield opened
    opened.close()


@pytest.fixture
def drawn(terminal: Terminal) -> Terminal:
    """A terminal on which a run is drawn."""
    terminal.do("tell.planned(run())")
    terminal.see("STATE")
    return terminal


def test_what_goes_on_is_drawn_below_what_was_printed(terminal: Terminal) -> None:
    terminal.do("tell.planned(run())")
    terminal.do("tell.on_event(run(), moved(Phase.RUNNING, 'All replicas run.'))")
    terminal.do("tell.note('refused: password=hunter2')")
    terminal.do("tell.on_event(run(), step(40))")
    lines = terminal.see("40/100 ")
    assert "refused: password=***" in lines
    plan = next(n for n, line in enumerate(lines) if line.startswith("seg · pytorch"))
    reported = lines.index("run seg-1 (set nightly, repeat 1)")
    assert plan < reported < lines.index("  Running: All replicas run.")
    assert lines[-1].split()[:2] == ["seg-1", "Running"]
    # Ctrl-Z leaves a terminal that can be used.
    assert not terminal.screen.cursor_hidden
    # The drawing is renewed where it stands.
    terminal.do("tell.on_event(run(), step(50))")
    lines = terminal.see("50/100 ")
    assert not any("40/100" in line for line in lines)


def test_at_the_end_only_what_was_printed_is_left(terminal: Terminal) -> None:
    terminal.do("tell.planned(run())")
    terminal.do("tell.on_event(run(), replica('master-0', Phase.FAILED))")
    terminal.do("tell.on_event(run(), line('Killed'))")
    terminal.see("STATE")
    terminal.do("tell.on_event(run(), moved(Phase.FAILED, 'It broke.', action='Mend it.'))")
    terminal.do("tell.ended(ended(run(), Phase.FAILED))")
    terminal.do("tell.note('That was all.')")
    lines = terminal.end()
    assert lines[lines.index("run seg-1 (set nightly, repeat 1)") + 1 :] == [
        "  Failed: It broke.",
        "    Mend it.",
        "  last lines of master-0:",
        "    Killed",
        "  all lines: k8sbench logs seg-1",
        "That was all.",
    ]
    assert not terminal.screen.cursor_hidden
    assert terminal.out == ""


def test_a_terminal_may_be_made_smaller(terminal: Terminal) -> None:
    terminal.do("for n in range(30): tell.planned(run(f'seg-{n}'))")
    terminal.see("and 10 more: all Created")
    terminal.resize(30, 10)
    drawn = terminal.see("and 24 more: all Created")[-9:]
    assert drawn[1].split()[:3] == ["RUN", "STATE", "TIME"]
    assert max(map(len, drawn)) <= 30
    terminal.resize(80, 1)
    terminal.do("tell.on_event(run(), moved(Phase.RUNNING, 'Now it runs.'))")
    terminal.see("Now it runs.")
    terminal.end()
    assert not terminal.screen.cursor_hidden


def test_a_terminal_that_has_gone_ends_nothing(drawn: Terminal) -> None:
    drawn.hang_up()
    drawn.do("for n in range(100): tell.on_event(run(), note('anybody there?'))")
    drawn.do("tell.close(); output.write('still here\\n')")
    assert drawn.process.communicate(timeout=PATIENCE)[0] == "still here\n"


@pytest.mark.parametrize("terminal", ["dumb", "unknown", ""], indirect=True)
def test_a_terminal_that_cannot_be_drawn_on_gets_plain_lines(terminal: Terminal) -> None:
    terminal.do("tell.planned(run()); tell.on_event(run(), step(10))")
    lines = terminal.end()
    assert lines[-1].startswith("  step 10/100")
    assert "\x1b" not in terminal.raw

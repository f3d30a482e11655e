"""Data on stdout, notes on stderr; tables for people and for pipes."""

import io
import json
import sys

import pytest
import yaml

from k8sbench.app.follow import PrintedLine
from k8sbench.cli.commands import runs
from k8sbench.cli.terminal import output
from k8sbench.results.report import formats
from k8sbench.results.report.tables import Column

COLUMNS = (Column("RUN", whole=True), Column("N", right=True), Column("CAUSE"))
ROWS = (
    ("seg-1", "7", "short"),
    ("深度学习", None, "[red]not markup[/red]\n\x1b[31m" + "long " * 60),
)


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_piped_table_is_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_table(COLUMNS, ROWS)
    output.note("word " * 60)
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err.count("\n") == 1
    assert lines[0] == "RUN        N   CAUSE"
    assert lines[1] == "seg-1      7   short"
    assert lines[2].startswith("深度学习   –   [red]not markup[/red] long long")
    assert len(lines) == 3
    assert lines[2].count("long") == 60


def test_a_table_on_a_terminal_wraps_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "60")
    output.write_table(COLUMNS, ROWS)
    lines = screen.getvalue().splitlines()
    assert max(len(line) for line in lines) <= 60
    assert screen.getvalue().count("long") == 60
    assert "[red]not markup[/red]" in screen.getvalue()
    assert "\x1b" not in screen.getvalue()
    assert lines[1] == "seg-1     7  short"


def test_a_stream_that_cannot_say_a_letter_gets_another(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    output.write("4 × 8 \udcff\n")
    sys.stdout.flush()
    assert raw.getvalue() == b"4 ? 8 ?\n"


def test_json_and_yaml_have_no_numbers_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": float("nan"), "b": [float("inf"), 1.5], "c": "深: no"}
    output.write_json(value)
    expected = {"a": None, "b": [None, 1.5], "c": "深: no"}
    assert json.loads(capsys.readouterr().out) == expected
    assert yaml.safe_load(formats.yaml_text(value)) == expected


def test_a_note_and_a_line_of_a_log_on_a_terminal_are_cleaned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "a\x1b]52;c;cm0gLXJm\x07b"
    output.note(f"The cluster says: {text}")
    assert capsys.readouterr().err == "The cluster says: ab\n"
    output.note("It is refused: \x1b[1mpassword\x1b[0m=hunter2")
    assert capsys.readouterr().err == "It is refused: password=***\n"
    line = PrintedLine(0.0, "master-0", text.encode() + b" \xff\x9b2J")
    shown = runs.line_text(line, timestamps=False, is_terminal=True)
    assert shown == "[master-0] ab \ufffd\ufffd2J".encode()

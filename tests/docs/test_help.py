"""The help of the commands and what the pages say of them."""

from __future__ import annotations

import re

import click
import pytest

from k8sbench.cli import main
from tests.tiers import ROOT
from tests.unit.presence import present


def find(name: str) -> click.Command:
    return present(main.cli.get_command(click.Context(main.cli), name))


@pytest.mark.parametrize("name", main.COMMANDS)
def test_a_command_says_what_the_list_says_and_each_option_has_a_help_text(name: str) -> None:
    command = find(name)
    assert command.get_short_help_str(limit=200) == main.COMMANDS[name][1]
    text = command.get_help(click.Context(command, terminal_width=80))
    assert max(map(len, text.splitlines())) <= 80
    options = (param for param in command.params if isinstance(param, click.Option))
    assert [param.opts for param in options if not (param.hidden or param.help)] == []


@pytest.mark.parametrize("name", ["submit", "render"])
def test_the_options_of_a_submit_stand_in_groups(name: str) -> None:
    command = find(name)
    text = command.get_help(click.Context(command))
    _, *groups = re.split(r"^(Options.*):$", text, flags=re.MULTILINE)
    found = dict(zip(groups[::2], groups[1::2], strict=True))
    examples = {
        "Options of a case": "--batch-size",
        "Options for jobs on a cluster": "--node-pool",
        "Options of a training": "--epochs",
        "Options": "--help",
    }
    assert [*found] == [*examples]
    assert all(option in found[title] for title, option in examples.items())


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_is_shown_in_the_docs(name: str) -> None:
    texts = [p.read_text() for p in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]]
    assert any(f"$ k8sbench {name}" in text for text in texts)

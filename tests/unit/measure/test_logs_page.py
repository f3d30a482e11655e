"""The page on measuring names every family, every estimator and every flag."""

import re
from pathlib import Path

import msgspec
import pytest

from k8sbench.cli.commands.measure import command, import_command
from k8sbench.model.measurement import Throughput
from k8sbench.parse.families import FAMILIES

TEXT = (Path(__file__).parents[3] / "docs" / "logs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_has_a_row(family: str) -> None:
    assert re.search(rf"^\| `{family}` \|", TEXT, re.MULTILINE)


def test_each_estimator_has_a_row() -> None:
    for field in msgspec.structs.fields(Throughput):
        if field.name != "unit":
            assert f"| `{field.name}` |" in TEXT


def test_each_flag_that_it_names_exists() -> None:
    known = {flag for param in (*command.params, *import_command.params) for flag in param.opts}
    for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", TEXT):
        assert flag in known or flag in ("--timestamps", "--published"), flag

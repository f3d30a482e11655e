"""What is said to install what is missing."""

from __future__ import annotations

import shlex
import sys
import tomllib

import pytest

from k8sbench.model import extras
from tests.tiers import ROOT


@pytest.mark.parametrize("extra", extras.REQUIREMENTS)
def test_what_is_to_be_installed_are_the_extra_s_requirements(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert list(extras.REQUIREMENTS[extra]) == project["optional-dependencies"][extra]


def test_the_advice_is_a_command_for_this_python_and_names_no_package_that_is_on_no_index() -> None:
    words = shlex.split(extras.how_to_install("torch").removeprefix("Install it: "))
    assert words == [sys.executable, "-m", "pip", "install", *extras.REQUIREMENTS["torch"]]

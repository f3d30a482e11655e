"""Advice to install missing extras."""

import tomllib

import pytest

from k8sbench.model import extras
from tests.tiers import ROOT


@pytest.mark.parametrize("extra", extras.REQUIREMENTS)
def test_what_is_to_be_installed_are_the_extra_s_requirements(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert list(extras.REQUIREMENTS[extra]) == project["optional-dependencies"][extra]

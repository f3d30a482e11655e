"""Advice to install missing extras."""

import tomllib

import pytest

from k8sbench.model import errors
from tests.tiers import ROOT


@pytest.mark.parametrize("extra", errors.REQUIREMENTS)
def test_what_is_to_be_installed_are_the_extra_s_requirements(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert list(errors.REQUIREMENTS[extra]) == project["optional-dependencies"][extra]

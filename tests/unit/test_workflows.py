"""The workflows are valid, and their steps are the repository's own commands."""

import subprocess
from typing import Any

import pytest
import yaml

from tests.harness.cluster import tools
from tests.tiers import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
PYTHONS = ["3.11", "3.12", "3.13"]


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((WORKFLOWS / name).read_text())["jobs"]
    return found


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


@pytest.mark.tier("go")
def test_the_workflows_are_valid() -> None:
    linter = tools.built(tools.RELEASE).program("actionlint")
    found = subprocess.run(
        [linter, "-no-color", "-shellcheck=", "-pyflakes=", *sorted(WORKFLOWS.glob("*.y*ml"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_the_quick_lane_runs_make_quick_on_each_python_without_privileges() -> None:
    quick = jobs("ci.yaml")["quick"]
    assert commands(quick) == ["make quick PYTHON=python"]
    assert quick["strategy"]["matrix"]["python"] == PYTHONS
    assert "container" not in quick
    assert quick["timeout-minutes"] <= 10


def test_the_gate_runs_everything_and_waits_for_no_other_job() -> None:
    gate = jobs("ci.yaml")["run"]
    assert ".ci/run" in commands(gate)
    assert "needs" not in gate


def test_the_package_names_the_pythons_of_the_quick_lane() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    stated = [f"Programming Language :: Python :: {each}" for each in PYTHONS]
    assert all(each in project for each in stated)


def test_a_release_is_built_and_pushed_before_it_is_made() -> None:
    (release,) = jobs("release.yaml").values()
    built, login, pushed, made = commands(release)
    assert (built, pushed) == ("make release PYTHON=python", "make publish PYTHON=python")
    assert "REGISTRY" in login
    assert made.startswith("gh release create ")

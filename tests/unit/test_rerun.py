"""``tests.rerun``: a failed test runs once more, and a flaky one is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import rerun, tiers

FLAKY = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({flaky}))
def test_flaky(number):
    seen = pathlib.Path(f"seen-{{number}}")
    if not seen.exists():
        seen.touch()
        pytest.fail("failed the first time")

def test_sound():
    assert True
"""
BROKEN = """
def test_broken():
    assert False
"""


def run(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    inner = folder / "inner"
    inner.mkdir()
    for number, text in enumerate(tests):
        (inner / f"test_{number}.py").write_text(text)
    # An ini file of its own: neither the options nor the conftest of this project.
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "tests.rerun", "--numprocesses", "2", "inner"]
    return subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(tiers.ROOT), "HOME": str(folder)},
        text=True,
        capture_output=True,
        check=False,
    )


def test_a_test_that_passes_alone_is_named_as_flaky_and_the_run_passes(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY.format(flaky=rerun.MOST_FLAKY))
    assert done.returncode == 0, done.stdout
    named = [line for line in done.stdout.splitlines() if line.startswith("flaky: ")]
    assert len(named) == rerun.MOST_FLAKY
    kept = (tmp_path / rerun.OUTPUT).read_text()
    assert kept.count("failed the first time") >= rerun.MOST_FLAKY
    assert "3 passed" in kept


def test_more_failures_than_may_be_flaky_fail_at_once(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY.format(flaky=rerun.MOST_FLAKY + 1))
    assert done.returncode == rerun.FAILED
    assert "flaky: " not in done.stdout


def test_a_test_that_fails_twice_fails_the_run_beside_a_flaky_one(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY.format(flaky=1), BROKEN)
    assert done.returncode == rerun.FAILED
    assert "flaky: passed alone: inner/test_0.py::test_flaky[0]" in done.stdout
    assert "failed twice: inner/test_1.py::test_broken" in done.stdout


def test_tests_that_cannot_be_collected_are_no_flaky_ones(tmp_path: Path) -> None:
    done = run(tmp_path, "import nothing_of_this_name")
    assert done.returncode != 0
    assert "flaky: " not in done.stdout

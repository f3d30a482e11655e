"""``tests.rerun``: a failed test runs once more, and a flaky one is named."""

import subprocess
import sys
from pathlib import Path

from tests import rerun, tiers

FLAKY = """
import pathlib
import pytest

def test_flaky():
    seen = pathlib.Path("seen")
    if not seen.exists():
        seen.touch()
        pytest.fail("failed the first time")
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


def test_a_test_that_passes_when_it_runs_again_passes_the_run_and_is_named_last(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, FLAKY)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "flaky: passed alone: inner/test_0.py::test_flaky"


def test_two_failed_tests_fail_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY, BROKEN)
    assert done.returncode == rerun.FAILED
    assert done.stdout.splitlines()[-1] == "2 tests failed, and only 1 would run once more."

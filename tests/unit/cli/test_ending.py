"""How the process ends: at once, with everything done that ends with a process."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tests.tiers import ROOT

PROGRAM = """
import atexit, os, sys, threading
from k8sbench.__main__ import end

at_once = os._exit
os._exit = lambda code: (os.write(1, b"at once"), at_once(code))
atexit.register(print, "at exit")
print("last words")
{meanwhile}
end(3)
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=ROOT, check=False
    )


def test_what_ends_with_a_process_is_done_and_it_ends_at_once() -> None:
    done = run("-c", PROGRAM.format(meanwhile=""))
    assert done.stdout == "last words\nat exit\nat once"
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize(
    "meanwhile",
    ["sys.settrace(lambda *_: None)", "sys.setprofile(lambda *_: None)"],
    ids=["a debugger or coverage", "a profiler"],
)
def test_a_tool_that_looks_at_the_program_sees_its_ordinary_end(meanwhile: str) -> None:
    done = run("-c", PROGRAM.format(meanwhile=meanwhile))
    assert done.stdout == "last words\nat exit\n"
    assert done.returncode == 3


def test_a_thread_that_must_end_first_ends_first() -> None:
    last = "lambda: (threading.main_thread().join(), print('the thread'))"
    done = run("-c", PROGRAM.format(meanwhile=f"threading.Thread(target={last}).start()"))
    assert done.stdout == "last words\nthe thread\nat exit\n"
    assert done.returncode == 3


def test_a_profile_of_the_program_is_written(tmp_path: pathlib.Path) -> None:
    done = run("-m", "cProfile", "-o", str(tmp_path / "profile"), "-m", "k8sbench", "--version")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "profile").stat().st_size > 1000

"""Runs the server tiers, and failed tests once more: part of ``make tests``.

    python -m tests.rerun [arguments of pytest for the first run] FOLDER...

A test that fails runs again at the end, alone and in one process. If it passes then, it is flaky:
the last line names it, and a file keeps the output of both runs. A run with at most ``MOST_FLAKY``
such tests passes. With more failures the second run could change nothing, so there is none.

The second run and its file are for the project's own checks before a push (``.ci/run``): a machine
under load may fail one test of a server by its time limit. A flaky test is a defect to be mended,
and no proof that the code is right.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

MOST_FLAKY = 1
OUTPUT = pathlib.Path("build/flaky-tests.txt")
FAILED = 1
"""Exit code of pytest where tests failed, and nothing worse happened."""


def _pytest(cache: pathlib.Path, log: pathlib.Path, *arguments: str) -> int:
    """Run pytest; print and log its output; return its exit code."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
    with (
        log.open("a") as file,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            file.write(line)
    return process.returncode


def _failed(cache: pathlib.Path) -> list[str]:
    """Return the ids of the tests that failed in the latest run."""
    file = cache / "v/cache/lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


def main(first: list[str], folders: list[str]) -> int:
    """Run the tests of the folders; return the exit code that decides."""
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text("")
    with tempfile.TemporaryDirectory() as name:
        cache = pathlib.Path(name)
        code = _pytest(cache, OUTPUT, *first, *folders)
        failed = _failed(cache)
        if code != FAILED or not failed:
            return code
        if len(failed) > MOST_FLAKY:
            print(f"{len(failed)} tests failed, and only {MOST_FLAKY} would run once more.")
            return code
        print("One of these tests failed. It runs once more, alone:", flush=True)
        code = _pytest(cache, OUTPUT, "--last-failed", "--last-failed-no-failures=none", *folders)
        again = _failed(cache)
    print(f"The output of both runs is in {OUTPUT}.")
    for test in failed:
        print(f"{'failed twice' if test in again else 'flaky: passed alone'}: {test}")
    return code


if __name__ == "__main__":
    options = [one for one in sys.argv[1:] if one.startswith("-") or not pathlib.Path(one).is_dir()]
    sys.exit(main(options, [one for one in sys.argv[1:] if one not in options]))

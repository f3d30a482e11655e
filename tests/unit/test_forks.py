"""Programs that tests run as forks end as processes of their own would (tests/harness/forks.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import forks

TELLS = """import os, sys
print(sys.argv, os.getcwd(), os.environ["NAME"], __name__)
print("not well", file=sys.stderr)
"""


@pytest.mark.parametrize(
    "end",
    [
        "",
        "sys.exit(3)",
        "sys.exit('refused')",
        "raise ValueError('wrong')",
        "os.kill(os.getpid(), 9)",
    ],
)
def test_a_fork_has_what_a_process_has(end: str, tmp_path: Path) -> None:
    arguments = ["-c", TELLS + "sys.stdout.flush()\n" + end, "word"]
    environments = [{**os.environ, "NAME": name} for name in ("one", "two")]
    ended = forks.servers("json.*").start(arguments, environments, 60.0, cwd=tmp_path)
    for environment, fork in zip(environments, ended, strict=True):
        real = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (fork.code, fork.out) == (real.returncode, real.stdout)
        assert fork.err.splitlines()[0] == "not well"
        assert fork.err.splitlines()[-1] == real.stderr.splitlines()[-1]


def test_a_program_that_does_not_end_in_time_is_killed_and_the_next_one_runs(
    tmp_path: Path,
) -> None:
    servers = forks.Servers(["json"])
    waits = "import signal; signal.pause()"
    with pytest.raises(AssertionError, match="still running"):
        servers.start(["-c", waits], [dict(os.environ)], 0.1, cwd=tmp_path)
    (ended,) = servers.start(["-c", "print(1)"], [dict(os.environ)], 60.0, cwd=tmp_path)
    servers.end()
    assert ended == (0, "1\n", "")

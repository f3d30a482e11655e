"""One subreaper and its replica, without a job around them."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k8sbench.adapters.local.launch import MARK, Launch
from k8sbench.adapters.local.replica import Replica
from tests.local.jobs import processes_of

RUN_ID = f"subreaper-{os.getpid()}"
Make = Callable[..., Replica]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make replicas that run a command; nothing of them may be left."""
    made: list[Replica] = []

    def make_replica(*command: str, cwd: str | None = None, **environ: str) -> Replica:
        scratch = tmp_path / f"scratch-{len(made)}"
        scratch.mkdir()
        launch = Launch(
            replica="worker-0",
            command=command,
            environ={MARK: f"{RUN_ID}/worker-0", "PATH": os.defpath} | environ,
            cwd=cwd or str(scratch),
            scratch=str(scratch),
            folders=(f"{scratch}/temporary",),
        )
        made.append(Replica(launch, grace=5.0))
        return made[-1]

    yield make_replica
    for number, replica in enumerate(made):
        replica.close()
        assert not (tmp_path / f"scratch-{number}").exists()
    assert not processes_of(RUN_ID)


def output_of(replica: Replica) -> list[str]:
    """Read a replica's output and control socket to their ends."""
    found: list[str] = []
    while replica.output is not None:
        select.select([replica.output], [], [])
        lines = replica.read_output()
        found += replica.close_output() if lines is None else lines
    while not replica.is_over:
        select.select([replica.control], [], [])
        replica.read_control()
    return found


def test_a_program_starts_with_its_signals_as_the_kernel_has_them(make: Make) -> None:
    """Python ignores SIGPIPE, and what is ignored would stay so in a program of another kind."""
    replica = make("/bin/cat", "/proc/self/status")
    state = dict(line.split(":\t", 1) for line in output_of(replica) if ":\t" in line)
    # Signals 32 and 33 are the C library's own: no program can set them, so they stay inherited.
    ours = ~(1 << 31 | 1 << 32)
    assert int(state["SigIgn"], 16) & ours == 0
    assert int(state["SigBlk"], 16) == 0
    assert replica.code == 0


def test_a_missing_program_and_a_missing_folder_are_named(make: Make) -> None:
    missing = make("/nowhere/program")
    assert output_of(missing) == ["k8sbench: error: /nowhere/program: No such file or directory"]
    assert missing.code == 127
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        make("/bin/true", cwd="/nowhere")


def test_a_command_of_odd_words_arrives_as_it_is(make: Make) -> None:
    words = ["", " ", "$HOME", "'\"", "×", "a\tb", "\udcff"]
    assert output_of(make("/usr/bin/printf", "[%s]\\n", *words)) == [
        *("[]", "[ ]", "[$HOME]", "['\"]", "[×]", "[a\tb]", "[\N{REPLACEMENT CHARACTER}]")
    ]


def test_an_environment_of_any_size_reaches_the_replica(make: Make) -> None:
    replica = make("/usr/bin/env", **{f"V{n}": "x" * 10_000 for n in range(50)})
    assert sum(line.startswith("V") for line in output_of(replica)) == 50


def test_the_replicas_environment_does_not_change_the_subreaper(make: Make, tmp_path: Path) -> None:
    (tmp_path / "psutil.py").write_text("raise SystemExit('not ours')")
    replica = make("/bin/echo", "runs", PYTHONPATH=str(tmp_path), PYTHONSTARTUP="/nowhere")
    assert output_of(replica) == ["runs"]

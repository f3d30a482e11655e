"""One warden and its replica, without a job around them."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k8sbench.adapters.local.launch import MARK, Launch
from k8sbench.adapters.local.replica import Replica
from tests.local.jobs import processes_of, wait_for

RUN_ID = f"warden-{os.getpid()}"
Make = Callable[..., Replica]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make replicas that run a command; nothing of them may be left."""
    made: list[Replica] = []

    def make_replica(*command: str, cwd: str | None = None, grace: float = 5.0) -> Replica:
        scratch = str(tmp_path / f"scratch-{len(made)}")
        launch = Launch(
            replica="worker-0",
            command=command,
            environ={MARK: f"{RUN_ID}/worker-0", "PATH": os.defpath},
            cwd=cwd or scratch,
            scratch=scratch,
            folders=(f"{scratch}/temporary",),
            injected={},
            local={},
            left_out=(),
            places={},
        )
        made.append(Replica(launch, {"PATH": os.defpath}, grace))
        return made[-1]

    yield make_replica
    for replica in made:
        replica.close()
        assert replica.bury(30)
    wait_for(lambda: not processes_of(RUN_ID), "the replicas to end")
    assert not list(tmp_path.glob("scratch-*"))


def said(replica: Replica) -> list[str]:
    """Read a replica's output to its end, and its warden's report."""
    found: list[str] = []
    while True:
        assert replica.output is not None
        select.select([replica.output], [], [])
        lines = replica.read_output()
        if lines is None:
            break
        found += lines
    found += replica.last_output()
    while replica.read_report():
        assert replica.report is not None
        select.select([replica.report], [], [])
    return found


def test_a_program_starts_with_its_signals_as_the_kernel_has_them(make: Make) -> None:
    """Python ignores SIGPIPE, and what is ignored would stay so in a program of another kind."""
    replica = make("/bin/cat", "/proc/self/status")
    replica.start()
    state = dict(line.split(":\t", 1) for line in said(replica) if ":\t" in line)
    # Signals 32 and 33 are the C library's own: no program can set them, so they stay inherited.
    ours = ~(1 << 31 | 1 << 32)
    assert int(state["SigIgn"], 16) & ours == 0
    assert int(state["SigBlk"], 16) == 0
    assert replica.code == 0


def test_letting_go_of_a_replica_ends_it(make: Make) -> None:
    replica = make("/bin/sleep", "600")
    replica.start()
    wait_for(lambda: processes_of(RUN_ID), "the replica to start")
    replica.close()
    assert replica.bury(30)
    assert not processes_of(RUN_ID)


def test_a_warden_that_was_never_told_what_to_start_just_ends(make: Make) -> None:
    replica = make("/bin/sleep", "600")
    replica.close()
    assert replica.bury(30)


def test_an_end_may_be_asked_for_before_the_start(make: Make) -> None:
    replica = make("/bin/sleep", "600")
    replica.start()
    replica.end()
    assert said(replica) == []
    assert replica.code == 128 + signal.SIGTERM
    assert replica.told


def test_a_missing_program_and_a_missing_folder_are_named(make: Make) -> None:
    missing = make("/nowhere/python")
    missing.start()
    said(missing)
    assert missing.problem == "could not be started: /nowhere/python: No such file or directory"
    astray = make("/bin/true", cwd="/nowhere")
    astray.start()
    said(astray)
    assert astray.problem == "could not be started: /nowhere: No such file or directory"


def test_a_folder_that_exists_already_is_neither_used_nor_removed(
    make: Make, tmp_path: Path
) -> None:
    taken = tmp_path / "scratch-0"
    taken.mkdir()
    replica = make("/bin/true")
    replica.start()
    said(replica)
    assert replica.problem == f"could not be started: {taken}: File exists"
    assert taken.exists()
    taken.rmdir()


def test_a_command_of_odd_words_arrives_as_it_is(make: Make) -> None:
    words = ["", " ", "$HOME", "'\"", "×", "a\tb", "\udcff"]
    replica = make("/usr/bin/printf", "[%s]\\n", *words)
    replica.start()
    assert said(replica) == [
        *("[]", "[ ]", "[$HOME]", "['\"]", "[×]", "[a\tb]", "[\N{REPLACEMENT CHARACTER}]")
    ]


def test_an_environment_of_any_size_reaches_the_replica(make: Make) -> None:
    replica = make("/usr/bin/env")
    replica.launch.environ.update({f"V{n}": "x" * 10_000 for n in range(50)})
    replica.start()
    assert sum(line.startswith("V") for line in said(replica)) == 50

"""A job on this machine: its phases, its replicas, its end."""

import itertools
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import psutil
import pytest

from k8sbench.adapters.local import cluster, job, launch
from k8sbench.adapters.local.cluster import GPU, Inventory
from k8sbench.adapters.local.job import LocalReplica
from k8sbench.adapters.local.launch import MARK, Launch
from k8sbench.model.clock_note import parse_note
from k8sbench.model.errors import JobFailed, NotFound, UsageError
from k8sbench.model.phase import Phase
from tests.local.jobs import Machine, MakeMachine, processes_of, run_of
from tests.unit.local import examples

HELLO = "print('hello')"
FOR_EVER = "import signal; print('up', flush=True); signal.pause()"


# The replicas meet, as a framework's do: ``leads`` is true in one of them, ``peer`` is the other.
MEET = """
import os, socket
rendezvous = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
leads = os.environ["RANK"] == "0"
peer = socket.create_server(rendezvous).accept()[0] if leads else None
while peer is None:
    try:
        peer = socket.create_connection(rendezvous)
    except ConnectionRefusedError:
        pass
"""


# -- a job that succeeds ----------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_a_job_succeeds_when_all_its_replicas_do(machine: Machine, replicas: int) -> None:
    seen = machine.run(HELLO, replicas=replicas)
    assert seen.phases == [Phase.STARTING, Phase.RUNNING, Phase.SUCCEEDED]
    names = ["master-0", *(f"worker-{n}" for n in range(replicas - 1))]
    assert [seen.lines(name) for name in names] == [["hello"]] * replicas
    assert seen.exit_codes() == dict.fromkeys(names, 0)
    assert seen.states("master-0") == [Phase.STARTING, Phase.RUNNING, Phase.SUCCEEDED]


@pytest.mark.parametrize(
    ("trainer", "said"),
    [
        # Every replica is a session and a process group of its own.
        ("import os; print(os.getsid(0) == os.getpgid(0) == os.getpid())", "True"),
        # It reads nothing from the terminal.
        ("import sys; print(repr(sys.stdin.read()))", "''"),
        # It inherits nothing but its three streams; the fourth is the listing's own.
        (
            "import os; print(sorted(os.listdir('/proc/self/fd'), key=int)[:4])",
            "['0', '1', '2', '3']",
        ),
        # A run that was planned without GPUs sees none.
        ("import os; print(os.environ['CUDA_VISIBLE_DEVICES'])", ""),
    ],
)
def test_a_replica_shares_nothing(make_machine: MakeMachine, trainer: str, said: str) -> None:
    with socket.socket() as ours:
        ours.set_inheritable(True)
        seen = make_machine(inventory=lambda: FOUR).run(trainer)
    assert seen.lines("master-0") == seen.lines("worker-0") == [said]


def test_a_clock_that_is_set_is_noted_among_the_lines(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = itertools.chain([0.0], itertools.repeat(4000.0))
    clock = SimpleNamespace(time=lambda: time.monotonic() + next(ahead), monotonic=time.monotonic)
    monkeypatch.setattr(job, "time", clock)
    # More than is read at once, of one replica: the first line sees the clock before it is set.
    trainer = "for n in range(3000): print(n, 'x' * 100)"
    lines = machine.run(trainer, replicas=1).lines("master-0")
    notes = [seconds for line in lines if (seconds := parse_note(line)) is not None]
    assert notes == [pytest.approx(4000.0, abs=0.5)]
    assert len(lines) == 3001


def test_a_replicas_temporary_folder_is_private_and_gone_with_it(machine: Machine) -> None:
    trainer = """
import os, tempfile
open(os.path.join(tempfile.gettempdir(), "left"), "w").close()
print(tempfile.gettempdir()); print(os.getcwd())
"""
    seen = machine.run(trainer)
    folders = [*seen.lines("master-0"), *seen.lines("worker-0")]
    assert len(set(folders)) == 4
    assert not any(Path(folder).exists() for folder in folders)


def test_the_runs_folder_says_what_ran(machine: Machine) -> None:
    running = machine.start(HELLO, image="pytorch/pytorch:2.10.0")
    running.to_the_end()
    first, second = json.loads((running.folder / "local.json").read_text())
    assert first["command"][0] == sys.executable
    assert first["environ"]["RANK"] == "0"
    assert second["environ"]["OMP_NUM_THREADS"]
    (mounted,) = running.folder.glob("mounts/*/k8sbench/trainers/little.py")
    assert mounted.read_text() == HELLO


def test_replicas_that_run_on_after_the_leading_one_are_ended(make_machine: MakeMachine) -> None:
    machine = make_machine(finish_grace=0.2)
    trainer = f"import os\nif os.environ['RANK'] == '1':\n    {FOR_EVER}\nprint('done')"
    seen = machine.run(trainer)
    assert seen.final.phase is Phase.SUCCEEDED
    assert "worker-0 ran on" in seen.final.cause
    assert seen.states("worker-0")[-1] is Phase.CANCELLED


# -- a job that fails -------------------------------------------------------------------------

ONE_FAILS = f"""
import os, sys
if os.environ["RANK"] == "1":
    print("before"); raise ValueError("boom")
{FOR_EVER}
"""


def test_one_failing_replica_fails_the_job_and_ends_the_others(machine: Machine) -> None:
    running = machine.start(ONE_FAILS, replicas=4)
    seen = running.to_the_end()
    assert seen.final.phase is Phase.FAILED
    assert seen.final.cause_id == "replica-failed"
    assert seen.final.cause == "worker-0 exited with code 1: ValueError: boom"
    assert seen.exit_codes() == {"master-0": 143, "worker-0": 1, "worker-1": 143, "worker-2": 143}
    assert seen.states("worker-0")[-1] is Phase.FAILED
    assert seen.states("worker-1")[-1] is Phase.CANCELLED
    assert not processes_of(running.run_id)


def test_the_replica_that_broke_is_named_not_the_one_that_lost_it(machine: Machine) -> None:
    """Launchers may print a rank's error after its peers have died."""
    speak_late = """
if leads:
    peer.sendall(str(os.getpid()).encode())
    raise RuntimeError("Connection closed by peer")
first = int(peer.recv(100))
while os.path.exists(f"/proc/{first}"):
    pass
raise ValueError("the cause")
"""
    seen = machine.run(MEET + speak_late)
    assert seen.final.cause.startswith("worker-0 ")
    assert seen.final.cause.endswith(": ValueError: the cause")


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (signal.SIGKILL, "worker-0 lost its subreaper"),
        (signal.SIGTERM, "worker-0 was killed by signal 15 (SIGTERM): up"),
    ],
)
def test_a_subreaper_that_is_ended_fails_the_job(machine: Machine, number: int, cause: str) -> None:
    running = machine.start(FOR_EVER)
    running.until_line("up", "master-0", "worker-0")
    mark = f"{running.run_id}/worker-0"
    ours = psutil.Process().children()
    (subreaper,) = (each for each in ours if each.environ().get(launch.MARK) == mark)
    subreaper.send_signal(number)
    final = running.to_the_end().final
    assert final.phase is Phase.FAILED
    assert final.cause.startswith(cause)
    assert not processes_of(running.run_id)


# -- a job that is cancelled --------------------------------------------------------------------


def test_a_cancelled_job_says_by_whom_and_why(machine: Machine) -> None:
    running = machine.start(FOR_EVER)
    running.until_line("up")
    machine.cluster.cancel(running.run_id, "The run took longer than 3 s.", "timeout")
    machine.cluster.cancel(running.run_id, "Interrupted.", "interrupted")
    seen = running.to_the_end()
    assert (seen.final.phase, seen.final.cause_id) == (Phase.CANCELLED, "timeout")
    assert seen.final.cause == "The run took longer than 3 s."
    assert not processes_of(running.run_id)


def test_a_job_is_cancelled_from_a_signal_handler_inside_its_own_watch(machine: Machine) -> None:
    trainer = "import os, signal, sys; os.kill(int(sys.argv[1]), signal.SIGUSR1); signal.pause()"
    cancelled = []

    def handler(*_: object) -> None:
        cancelled.append(machine.run_ids[0])
        machine.cluster.cancel(machine.run_ids[0], "Interrupted.", "interrupted")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        seen = machine.run(trainer, str(os.getpid()))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert cancelled
    assert seen.final.cause_id == "interrupted"


def test_closing_ends_what_still_runs(machine: Machine) -> None:
    running = machine.start(FOR_EVER)
    running.until_line("up")
    machine.cluster.close()
    assert not processes_of(running.run_id)
    assert running.to_the_end().final.cause_id == "k8sbench-ended"
    with pytest.raises(UsageError, match="closed"):
        machine.start(HELLO)


# -- watching -------------------------------------------------------------------------------------


def test_a_job_is_started_once_however_often_it_is_created(make_machine: MakeMachine) -> None:
    machine = make_machine()
    first, again = (machine.start(HELLO, run_id="once") for _ in range(2))
    assert first.to_the_end().final.phase is Phase.SUCCEEDED
    assert again.to_the_end().lines("master-0") == []


# -- what may not run -----------------------------------------------------------------------------


def test_a_command_of_someone_else_never_runs(machine: Machine, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    with pytest.raises(UsageError, match="own trainers alone") as refused:
        machine.start(HELLO, command=("touch", str(proof)))
    assert refused.value.exit_code == 2
    with pytest.raises(UsageError, match="LD_PRELOAD would load other code"):
        machine.start(HELLO, env={"LD_PRELOAD": str(proof)})
    assert not proof.exists()


def test_a_job_that_cannot_be_started_says_what_is_missing_and_leaves_nothing(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = examples.plan()
    with pytest.raises(JobFailed, match="could not be started"):
        machine.cluster.create(run_of(plan), examples.rendered(plan), Path("/proc/nowhere"))
    with pytest.raises(NotFound):
        machine.cluster.job(plan.run_id)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(JobFailed, match=r"could not be started: .*No such file or directory"):
        machine.start(HELLO)


# -- GPUs -----------------------------------------------------------------------------------------

FOUR = Inventory(
    gpus=tuple(GPU(index=n, uuid=f"GPU-{n}", model="Tesla V100-SXM2-16GB") for n in range(4)),
    driver="570.86.15",
)
THREE_GPUS: dict[str, Any] = {
    "replicas": 1,
    "gpus_per_replica": 3,
    "processes_per_replica": 3,
    "device": "cuda",
}
VISIBLE = "import os, signal; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"


def test_gpus_are_free_again_after_a_run_or_a_failed_start(make_machine: MakeMachine) -> None:
    machine = make_machine(inventory=lambda: FOUR)
    no_room = mock.patch.object(cluster, "held_port", side_effect=OSError("No space left"))
    with no_room, pytest.raises(JobFailed, match="No space left"):
        machine.start(VISIBLE, **THREE_GPUS)
    running = machine.start(VISIBLE + "; signal.pause()", **THREE_GPUS)
    with pytest.raises(UsageError, match="3 of them in use by other runs"):
        machine.start(VISIBLE, **THREE_GPUS)
    machine.cluster.cancel(running.run_id, "enough", "enough")
    running.to_the_end()
    assert machine.run(VISIBLE, **THREE_GPUS).lines("master-0") == ["0,1,2"]


# -- what replicas print --------------------------------------------------------------------------


def test_both_streams_come_in_the_order_of_writing(machine: Machine) -> None:
    trainer = """
import sys
for n in range(50):
    print("out", n, flush=True)
    print("err", n, file=sys.stderr, flush=True)
"""
    seen = machine.run(trainer, replicas=1)
    assert seen.lines("master-0") == [f"{s} {n}" for n in range(50) for s in ("out", "err")]


def test_no_line_is_lost_and_none_doubled(machine: Machine) -> None:
    """Four replicas print more than their pipes hold, until their end."""
    trainer = """
import os, sys
sys.stdout.write("".join(f"{n:06d} {'x' * 60}\\n" for n in range(20_000)))
sys.stdout.flush()
os._exit(0)
"""
    seen = machine.run(trainer, replicas=4)
    expected = [f"{n:06d} {'x' * 60}" for n in range(20_000)]
    for replica in ("master-0", "worker-0", "worker-1", "worker-2"):
        assert seen.lines(replica) == expected


def test_output_that_a_stray_still_holds_open_ends_with_the_replica(machine: Machine) -> None:
    trainer = """
import subprocess, sys
subprocess.Popen(
    [sys.executable, "-c", "import signal; print('stray', flush=True); signal.pause()"],
    start_new_session=True,
)
print("done")
"""
    seen = machine.run(trainer, replicas=1)
    assert seen.final.phase is Phase.SUCCEEDED
    assert "done" in seen.lines("master-0")


# -- one subreaper --------------------------------------------------------------------------------


RUN_ID = f"subreaper-{os.getpid()}"
Make = Callable[..., LocalReplica]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make replicas that run a command; nothing of them may be left."""
    made: list[LocalReplica] = []

    def make_replica(*command: str, cwd: str | None = None, **environ: str) -> LocalReplica:
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
        made.append(LocalReplica(launch, grace=5.0))
        return made[-1]

    yield make_replica
    for number, replica in enumerate(made):
        replica.close()
        assert not (tmp_path / f"scratch-{number}").exists()
    assert not processes_of(RUN_ID)


def output_of(replica: LocalReplica) -> list[str]:
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
    """Python ignores SIGPIPE, and programs of another kind would inherit that."""
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


def test_the_replicas_environment_does_not_change_the_subreaper(make: Make, tmp_path: Path) -> None:
    (tmp_path / "psutil.py").write_text("raise SystemExit('not ours')")
    replica = make("/bin/echo", "runs", PYTHONPATH=str(tmp_path), PYTHONSTARTUP="/nowhere")
    assert output_of(replica) == ["runs"]

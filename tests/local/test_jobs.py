"""A job on this machine: its phases, its replicas, its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

from k8sbench.adapters.local import cluster, launch
from k8sbench.adapters.local.gpus import GPU, Inventory
from k8sbench.model.errors import JobFailed, NotFound, UsageError
from k8sbench.model.phase import Phase
from tests.local.jobs import Machine, MakeMachine, Running, Seen, processes_of, wait_for
from tests.unit import demo_kind
from tests.unit.local import examples

HELLO = "print('hello')"
ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"
FOR_EVER = "import signal; print('up', flush=True); signal.pause()"
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
signal.pause()
"""


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


def subreaper_of_worker(running: Running) -> psutil.Process:
    """The process above all others of worker-0."""
    mark = f"{running.run_id}/worker-0"
    ours = psutil.Process().children()
    (found,) = (each for each in ours if each.environ().get(launch.MARK) == mark)
    return found


def environments(seen: Seen, *replicas: str) -> list[dict[str, str]]:
    return [json.loads(seen.lines(replica)[0]) for replica in replicas]


# -- a job that succeeds ----------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_a_job_succeeds_when_all_its_replicas_do(machine: Machine, replicas: int) -> None:
    seen = machine.run(HELLO, replicas=replicas)
    assert seen.phases == [Phase.STARTING, Phase.RUNNING, Phase.SUCCEEDED]
    names = ["master-0", *(f"worker-{n}" for n in range(replicas - 1))]
    assert [seen.lines(name) for name in names] == [["hello"]] * replicas
    assert seen.exit_codes() == dict.fromkeys(names, 0)
    assert seen.states("master-0") == [Phase.STARTING, Phase.RUNNING, Phase.SUCCEEDED]


def test_every_replica_is_a_session_and_a_process_group_of_its_own(machine: Machine) -> None:
    seen = machine.run("import os; print(os.getsid(0) == os.getpgid(0) == os.getpid())")
    assert seen.lines("master-0") == seen.lines("worker-0") == ["True"]


def test_a_replica_reads_nothing_from_the_terminal(machine: Machine) -> None:
    seen = machine.run("import sys; print(repr(sys.stdin.read()))", replicas=1)
    assert seen.lines("master-0") == ["''"]


def test_a_replica_inherits_nothing_but_its_three_streams(machine: Machine) -> None:
    with socket.socket() as ours:
        ours.set_inheritable(True)
        seen = machine.run(
            "import os; print(sorted(os.listdir('/proc/self/fd'), key=int)[:4])", replicas=1
        )
    # The fourth is the listing's own.
    assert seen.lines("master-0") == ["['0', '1', '2', '3']"]


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


def test_replicas_that_tidy_up_longer_than_the_leading_one_may_do_so(machine: Machine) -> None:
    until_it_ended = """
if not leads:
    peer.recv(1)  # nothing: its end closes the connection
    print("last")
"""
    seen = machine.run(MEET + until_it_ended)
    assert seen.final.phase is Phase.SUCCEEDED
    assert seen.lines("worker-0") == ["last"]


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


def test_a_replica_that_ignores_sigterm_is_killed_after_the_grace(
    make_machine: MakeMachine,
) -> None:
    machine = make_machine(grace=0.2)
    running = machine.start(DEAF)
    running.until_line("up", "master-0", "worker-0")
    machine.cluster.cancel(running.run_id, "enough", "enough")
    seen = running.to_the_end()
    assert seen.exit_codes() == {"master-0": 137, "worker-0": 137}
    assert seen.final.phase is Phase.CANCELLED


def test_the_replica_that_broke_is_named_not_the_one_that_lost_it(machine: Machine) -> None:
    """As launchers have it: what its rank said comes out when its peers are dead already."""
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


def test_a_subreaper_that_is_killed_fails_the_job(machine: Machine) -> None:
    running = machine.start(FOR_EVER)
    running.until_line("up", "master-0", "worker-0")
    subreaper_of_worker(running).kill()
    seen = running.to_the_end()
    assert seen.final.phase is Phase.FAILED
    assert "worker-0 lost its subreaper" in seen.final.cause
    assert not processes_of(running.run_id)


def test_a_replica_that_is_ended_from_outside_k8sbench_fails_the_job(machine: Machine) -> None:
    running = machine.start(FOR_EVER)
    running.until_line("up", "worker-0")
    subreaper_of_worker(running).terminate()
    seen = running.to_the_end()
    assert seen.final.phase is Phase.FAILED
    assert seen.final.cause == "worker-0 was killed by signal 15 (SIGTERM): up"
    assert not processes_of(running.run_id)


def test_a_failure_stays_a_failure_when_the_job_is_cancelled_while_it_ends(
    make_machine: MakeMachine,
) -> None:
    machine = make_machine(grace=0.2)
    running = machine.start(
        MEET
        + f"""
if leads:
    peer.recv(1)
    raise ValueError("boom")
{DEAF.replace("signal.pause()", "peer.close(); signal.pause()")}"""
    )
    running.until(lambda event: event.replica is not None and event.replica.phase is Phase.FAILED)
    machine.cluster.cancel(running.run_id, "enough", "enough")
    assert "ValueError: boom" in running.to_the_end().final.cause


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


def test_a_job_is_cancelled_while_another_thread_waits_for_it(machine: Machine) -> None:
    running = machine.start("import signal; signal.pause()")
    ended = threading.Thread(target=running.to_the_end)
    ended.start()
    machine.cluster.cancel(running.run_id, "enough", "enough")
    ended.join()
    assert running.seen.final.cause == "enough"


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


def test_cancelling_needs_nobody_who_watches(machine: Machine) -> None:
    running = machine.start(FOR_EVER)
    wait_for(lambda: len(processes_of(running.run_id)) == 2, "the replicas to start")
    machine.cluster.cancel(running.run_id, "enough", "enough")
    wait_for(lambda: not processes_of(running.run_id), "the replicas to end")


def test_cancelling_what_is_over_changes_nothing(machine: Machine) -> None:
    running = machine.start(HELLO)
    running.to_the_end()
    machine.cluster.cancel(running.run_id, "too late", "interrupted")
    assert running.seen.final.phase is Phase.SUCCEEDED


def test_closing_ends_what_still_runs(machine: Machine) -> None:
    running = machine.start(FOR_EVER)
    running.until_line("up")
    machine.cluster.close()
    assert not processes_of(running.run_id)
    assert running.to_the_end().final.cause_id == "k8sbench-ended"
    with pytest.raises(UsageError, match="closed"):
        machine.start(HELLO)


def test_closing_waits_for_nobody_who_reads(make_machine: MakeMachine) -> None:
    machine = make_machine(grace=0.2)
    running = machine.start("while True: print('x' * 1000)")
    running.until_line("x")
    machine.cluster.close()
    assert not processes_of(running.run_id)


# -- watching -------------------------------------------------------------------------------------


def test_several_jobs_run_beside_each_other(machine: Machine) -> None:
    running = [machine.start(ENVIRONMENT) for _ in range(3)]
    threads = [threading.Thread(target=each.to_the_end) for each in running]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ports = {environments(each.seen, "worker-0")[0]["MASTER_PORT"] for each in running}
    assert len(ports) == 3


def test_one_who_waits_hears_of_all_jobs_and_each_ends_with_its_final_transition(
    machine: Machine,
) -> None:
    run_ids = {machine.start(HELLO, replicas=1).run_id for _ in range(3)}
    ended: list[str] = []
    while len(ended) < len(run_ids):
        for event in machine.cluster.wait(None):
            assert event.run_id not in ended
            if event.transition is not None and event.transition.phase.final:
                ended.append(event.run_id)
    assert set(ended) == run_ids
    assert machine.cluster.wait(0.0) == []


def test_a_job_is_started_once_however_often_it_is_created(machine: Machine) -> None:
    first = machine.start(HELLO, run_id="once")
    again = machine.start(HELLO, run_id="once")
    assert first.to_the_end().final.phase is Phase.SUCCEEDED
    assert again.to_the_end().lines("master-0") == []


def test_a_job_of_an_earlier_process_is_not_started_again(make_machine: MakeMachine) -> None:
    make_machine().run(HELLO, run_id="once")
    with pytest.raises(UsageError, match="started before"):
        make_machine().start(HELLO, run_id="once")


def test_an_unknown_job_is_not_found(machine: Machine) -> None:
    with pytest.raises(NotFound):
        machine.cluster.job("nobody")
    with pytest.raises(NotFound):
        machine.cluster.cancel("nobody", "", "")


# -- what may not run -----------------------------------------------------------------------------


def test_a_command_of_someone_else_never_runs(machine: Machine, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    with pytest.raises(UsageError, match="own trainers alone") as refused:
        machine.start(HELLO, command=("touch", str(proof)))
    assert refused.value.exit_code == 2
    with pytest.raises(UsageError, match="LD_PRELOAD would load other code"):
        machine.start(HELLO, env={"LD_PRELOAD": str(proof)})
    assert not proof.exists()


def test_a_replica_that_cannot_be_started_says_what_is_missing(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(JobFailed, match=r"could not be started: .*No such file or directory"):
        machine.start(HELLO)


def test_a_job_that_cannot_be_started_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    plan = examples.plan()
    with pytest.raises(JobFailed, match="could not be started"):
        machine.cluster.create(plan, examples.rendered(plan), Path("/proc/nowhere"))
    with pytest.raises(NotFound):
        machine.cluster.job(plan.run_id)


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


def test_replicas_see_gpus_of_their_own(make_machine: MakeMachine) -> None:
    machine = make_machine(inventory=lambda: FOUR)
    seen = machine.run(VISIBLE, gpus_per_replica=2, processes_per_replica=2, device="cuda")
    assert seen.lines("master-0") == ["0,1"]
    assert seen.lines("worker-0") == ["2,3"]


def test_a_run_that_was_planned_without_gpus_sees_none(make_machine: MakeMachine) -> None:
    seen = make_machine(inventory=lambda: FOUR).run(VISIBLE)
    assert seen.lines("master-0") == [""]


def test_gpus_are_free_again_when_their_run_is_over(make_machine: MakeMachine) -> None:
    machine = make_machine(inventory=lambda: FOUR)

    def start(trainer: str) -> Running:
        return machine.start(trainer, **THREE_GPUS)

    running = start(VISIBLE + "; signal.pause()")
    with pytest.raises(UsageError, match="3 of them in use by other runs"):
        start(VISIBLE)
    machine.cluster.cancel(running.run_id, "enough", "enough")
    running.to_the_end()
    assert start(VISIBLE).to_the_end().lines("master-0") == ["0,1,2"]


def test_gpus_are_free_again_when_a_job_cannot_be_started(make_machine: MakeMachine) -> None:
    machine = make_machine(inventory=lambda: FOUR)
    no_room = OSError("No space left on device")
    with (
        mock.patch.object(cluster, "held_port", side_effect=no_room),
        pytest.raises(JobFailed, match="No space left"),
    ):
        machine.start(VISIBLE, **THREE_GPUS)
    assert machine.run(VISIBLE, **THREE_GPUS).lines("master-0") == ["0,1,2"]


PRINTS = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if 'DEMO' in k}))"


def test_a_made_up_kind_runs_on_this_machine(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo_kind.add(monkeypatch)
    seen = machine.run(PRINTS, kind="DemoJob", replicas=3)
    assert seen.final.phase is Phase.SUCCEEDED
    names = ("ruler-0", "helper-0", "helper-1")
    assert seen.exit_codes() == dict.fromkeys(names, 0)
    reported = [json.loads(seen.lines(name)[0]) for name in names]
    assert [one["DEMO_RANK"] for one in reported] == ["0", "1", "2"]
    assert {one["DEMO_WORLD"] for one in reported} == {"3"}
    assert reported[0]["DEMO_CHIEF"] == "me"
    assert reported[1]["DEMO_CHIEF"] == reported[2]["DEMO_CHIEF"] != "me"

"""A local program that is killed once continues as its run's next attempt."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.local import launch
from k8sbench.adapters.local.cluster import LocalCluster
from k8sbench.app.run_contexts import run_context
from k8sbench.app.submit import resumed
from k8sbench.catalog.planning import DRAFT_ID
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import EarlierAttempt
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.local.jobs import processes_of
from tests.unit.lifecycle import played
from tests.unit.lifecycle.played import Silent
from tests.unit.local import examples
from tests.unit.model.specs import a_request
from tests.unit.store.examples import TRAINING

STEPS = 4
TRAINER = f"""
import os, pathlib, signal, subprocess, sys
place = pathlib.Path(sys.argv[1], os.environ["RANK"])
step = int(place.read_text()) if place.exists() else 0
# Of the attempt before nothing runs, not even what its replicas have left behind.
beside = pathlib.Path(sys.argv[1], "pids-" + os.environ["RANK"])
for pid in beside.read_text().split() if beside.exists() else ():
    assert not pathlib.Path("/proc", pid).exists(), "two attempts at once"
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
beside.write_text(f"{{os.getpid()}} {{child.pid}}")
print("from step", step, flush=True)
while step < {STEPS}:
    step += 1
    # Whole or not at all: it may be killed beside the one that kills itself.
    new = place.with_suffix(".new")
    new.write_text(str(step))
    new.rename(place)
    if step == 2 and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
child.kill()
child.wait()
"""
ONE_RANK_ENDS = """
import os, pathlib, signal, sys
if os.environ["RANK"] == "0":
    signal.pause()
begun = pathlib.Path(sys.argv[1], "begun")
again = begun.exists()
begun.touch()
said = "error: no such data" if again else "failed: the disk is full"
print("k8sbench:", said, file=sys.stderr, flush=True)
os._exit(2 if again else 1)
"""


def submitted(
    store: SqlStore,
    trainer: str,
    *words: str,
    max_restarts: int = 3,
    resume: Any = None,
    **changes: Any,
) -> Run:
    """Run a trainer, given as its source text, as ``submit`` does.

    ``resume`` continues what its set has.
    """
    files = {"little.py": trainer}
    changes |= {"max_restarts": max_restarts, "run_id": DRAFT_ID}
    case = PlannedCase(
        draft=examples.plan(*words, files=files, **changes),
        manifests=lambda plan: examples.rendered(plan, files),
    )
    with contextlib.closing(LocalCluster()) as cluster:
        context = msgspec.structs.replace(
            run_context(store, cluster), objects=lambda run, _: examples.rendered(run.plan, files)
        )
        options, cases = a_request(set_name="tests", run_id="restarted"), [case]
        if resume is not None:
            options = a_request(resume=resume)
            _, cases = resumed(cases, context, resume, Silent())
        played.submitted(cases, context, Silent(), Stop(), options)
    assert not processes_of("restarted")
    return store.run("restarted")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with open_store(str(tmp_path / "store")) as opened:
        yield opened


def printed(store: SqlStore, replica: str) -> list[str]:
    (path,) = (path for path in store.log_files("restarted") if path.stem == replica)
    return [line.partition(" ")[2] for line in path.read_text().splitlines()]


def test_a_worker_that_is_killed_goes_on_when_all_are_gone(store: SqlStore, tmp_path: Path) -> None:
    run = submitted(store, TRAINER, str(tmp_path))
    assert (run.phase, run.restarts) == (Phase.SUCCEEDED, 1)
    (restart,) = (step for step in run.history if step.cause_id == "restarting")
    assert restart.cause.startswith("Attempt 2 of 4: worker-0 was killed by signal 9 (SIGKILL)")
    assert printed(store, "worker-0") == ["from step 0", "from step 2"]


SHORT = msgspec.structs.replace(TRAINING, length=4, unit="iterations", evaluate_every=4)
TRAINS: dict[str, Any] = {"mode": "train", "checkpoints": "path:/ck", "seed": 0, "training": SHORT}


@pytest.mark.parametrize("resume", [None, "tests"])
def test_the_same_command_resumes(store: SqlStore, tmp_path: Path, resume: str | None) -> None:
    first = submitted(store, TRAINER, str(tmp_path), max_restarts=0, **TRAINS)
    assert (first.phase, first.restarts) == (Phase.FAILED, 0)
    run = submitted(store, TRAINER, str(tmp_path), max_restarts=0, resume=resume, **TRAINS)
    assert store.ids() == ["restarted"]
    assert (run.phase, run.restarts, run.plan.max_restarts) == (Phase.SUCCEEDED, 1, 1)
    assert run.history[: len(first.history)] == first.history
    assert printed(store, "worker-0") == ["from step 0", "from step 2"]
    assert submitted(store, TRAINER, str(tmp_path), max_restarts=0, **TRAINS) == run  # it is over


def test_an_attempt_does_not_begin_beside_processes_of_the_one_before() -> None:
    """A k8sbench was killed, and its replicas have their grace."""
    environment = {**os.environ, launch.MARK: "left-behind/worker-0"}
    cluster = LocalCluster()

    def run(run_id: str) -> Run:
        plan = examples.plan(run_id=run_id)
        return Run(planned=plan, created_at=0.0, process=None, history=(), artifacts=None)

    with subprocess.Popen(["sleep", "600"], env=environment) as left:
        with pytest.raises(EarlierAttempt, match=f"process {left.pid} "):
            cluster.clear(run("left-behind"))
        cluster.clear(run("another"))
        left.kill()
    cluster.clear(run("left-behind"))


@pytest.mark.tier("frameworks")
def test_under_torchrun_what_fails_is_started_again_and_what_a_rank_has_refused_is_not(
    store: SqlStore, tmp_path: Path
) -> None:
    """Torchrun itself ends with 1 each time; the other rank waits in its replica."""
    run = submitted(store, ONE_RANK_ENDS, str(tmp_path), max_restarts=2, launcher=True)
    assert (run.phase, run.restarts) == (Phase.FAILED, 1)
    (restart,) = (step for step in run.history if step.cause_id == "restarting")
    failed = "exited with code 1: [rank1]: k8sbench: failed: the disk is full"
    assert restart.cause.startswith("Attempt 2 of 3: ")
    assert failed in restart.cause
    assert run.history[-1].cause_id == "usage-error"
    refused = "exited with code 1: [rank1]: k8sbench: error: no such data"
    assert run.history[-1].cause.endswith(refused)

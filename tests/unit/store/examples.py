"""Plans and runs to keep."""

from pathlib import Path
from typing import Any

import msgspec

from k8sbench.catalog.planning import make_plan
from k8sbench.model.errors import Finding
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import PlannedTraining, RunPlan
from k8sbench.model.replica_logs import LogLine
from k8sbench.model.run import Process, Run
from k8sbench.model.sample import Place
from k8sbench.store.sql_store import SqlStore
from tests.unit.model.measurements import measurement
from tests.unit.model.specs import LAPTOP, a_request, loaded

TRAINING = PlannedTraining(
    length=10, unit="epochs", evaluate_every=1, metric="top-1", target=None, stop_at_target=False
)
NOW = 1_795_160_000.25
"""A moment in November 2026."""
PROCESS = Process(host="here", boot_id="b-1", pid=4711, started=123456.0, pid_space="pid:[1]")
REJECTION = Finding(
    id="too-few-records",
    severity="reject",
    sentence="4 records, 5 are needed.",
    evidence=(Place(file="master-0.log", line=7, text="iter 7 …"),),
)


def append(folder: Path, transition: Transition) -> None:
    """Write an event without its row, as a killed process does."""
    with (folder / "events.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(transition) + b"\n")


def archive(
    store: SqlStore, *texts: str, run_id: str = "seg-1", replica: str = "master-0", at: float = NOW
) -> Path:
    """Archive lines that a replica of a run printed; returns its log."""
    writer = store.archive(run_id)
    for text in texts:
        writer.write(LogLine(replica=replica, at=at, text=text))
    return store.folder(run_id) / "logs" / f"{replica}.log"


def plan(run_id: str = "seg-1", **changes: Any) -> RunPlan:
    """Make a real plan of the tests' small catalog entry."""
    made = make_plan(
        loaded(),
        a_request(),
        LAPTOP,
        run_id=run_id,
        set_name=changes.pop("set_name", "nightly"),
        repeat=changes.pop("repeat", 1),
        trainers_digest="t",
    )
    return msgspec.structs.replace(made, **changes)


def elsewhere(run: Run) -> Run:
    """Return a run as a store at any place has it."""
    return msgspec.structs.replace(run, artifacts=None, artifacts_missing=None)


def step(phase: Phase, at: float = NOW + 1, cause: str = "All replicas run.") -> Transition:
    """Make a change of state."""
    return Transition(phase=phase, at=at, cause=cause)


def fill(store: SqlStore, *run_ids: str) -> None:
    """Record ended runs, an hour apart, with files of every kind."""
    for number, run_id in enumerate(run_ids, start=1):
        store.record(plan(run_id, repeat=number), at=NOW + number, process=PROCESS)
        archive(store, f"hello from {run_id}", run_id=run_id)
        for name in ("manifest.yaml", "gpu/nvml.jsonl", "gpu/fetched.json"):
            store.write_artifact(run_id, name, "{}\n")
        store.move(run_id, step(Phase.SUCCEEDED, NOW + 3600 * number))
        store.save_measurement(run_id, measurement())

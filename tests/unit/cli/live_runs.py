"""Active runs and their events, for tests of the live output."""

import json
from typing import Any

import msgspec

from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.replica_logs import LogLine
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports.cluster import JobEvent
from tests.unit.store.examples import NOW, plan

__all__ = ["NOW", "ended", "gap", "line", "moved", "note", "replica", "run", "step"]


def run(run_id: str = "seg-1", **changes: Any) -> Run:
    """Return a new run; its trainer is ours unless ``log`` differs."""
    planned = plan(run_id, **{"log": "k8sbench", **changes})
    recorded = Transition(phase=Phase.CREATED, at=NOW, cause="Recorded.")
    return Run(
        planned=planned,
        created_at=NOW,
        process=None,
        history=(recorded,),
        artifacts="file:///nowhere",
    )


def ended(run: Run, phase: Phase = Phase.SUCCEEDED, **changes: Any) -> Run:
    final = Transition(phase=phase, at=NOW + 60, cause="It is over.")
    return msgspec.structs.replace(run, history=(*run.history, final), **changes)


def moved(phase: Phase, cause: str = "", run_id: str = "seg-1", **more: Any) -> JobEvent:
    return JobEvent(run_id=run_id, transition=Transition(phase=phase, at=NOW, cause=cause, **more))


def replica(name: str, phase: Phase, run_id: str = "seg-1", **more: Any) -> JobEvent:
    return JobEvent(run_id=run_id, replica=ReplicaState(replica=name, phase=phase, **more))


def line(
    text: str, *, at: float = NOW, replica: str = "master-0", run_id: str = "seg-1", **more: Any
) -> JobEvent:
    return JobEvent(run_id=run_id, line=LogLine(replica=replica, at=at, text=text, **more))


def step(
    iteration: int, *, at: float = NOW, total: int = 100, seconds: float = 1.0, **where: Any
) -> JobEvent:
    """A step line of our trainers: ten iterations, ``seconds`` each."""
    event = {
        "event": "step",
        "step": iteration,
        "of": total,
        "steps": 10,
        "seconds": seconds * 10,
        "loss": 0.51234,
    }
    return line(f"K8SBENCH {json.dumps(event)}", at=at, **where)


def note(text: str) -> JobEvent:
    return JobEvent(run_id="seg-1", note=text)


def gap(after: float | None, before: float | None) -> JobEvent:
    lost = LogGap(replica="worker-1", after=after, before=before, why="Rotated.")
    return JobEvent(run_id="seg-1", gap=lost)

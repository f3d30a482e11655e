"""Jobs of four pods as a process that follows them holds them, and what they take of its memory.

The objects are those that an API server sent (``tests/fixtures/objects``), under other names.
"""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes.logs.streams import LogStreams
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import Changed
from k8sbench.lifecycle.live_state import LiveRun
from k8sbench.model.identity import PLAN_ANNOTATION
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from tests.tiers import ROOT

REPLICAS = ("master-0", "worker-0", "worker-1", "worker-2")
_OBJECTS = (ROOT / "tests/fixtures/objects/followed-job.json").read_text()
_NAME = "small-1"


def followed(number: int, streams: LogStreams) -> list[object]:
    """Follow a job that runs; returns what is kept of it."""
    name = f"small-{number:06}"
    plan = msgspec.json.decode(
        _object("PyTorchJob", name)["metadata"]["annotations"][PLAN_ANNOTATION], type=RunPlan
    )
    created = Transition(phase=Phase.CREATED, at=0.0, cause="")
    run = Run(plan=plan, created_at=0.0, owner=None, history=(created,), artifacts=f"/runs/{name}")
    job = Followed(plan, reported=created, since=math.inf)
    _take(job, "PyTorchJob", _object("PyTorchJob", name))
    for replica in REPLICAS:
        pod = _object("Pod", name, replica)
        _take(job, "Pod", pod)
        _take(job, "Event", _object("Event", name, replica))
        uid = pod["metadata"]["uid"]
        streams.want(name, replica, pod=name, uid=uid, container="pytorch", rank=1)
    live = LiveRun(run)
    reading, _ = job.read(0.0)
    for event in (*job.changes(reading, 0.0), job.move(reading, 0.0)):
        live.take(event)
    return [run, job, live]


def bytes_each(count: int) -> float:
    """Follow so many jobs; returns the bytes that each takes."""
    streams = LogStreams(no_api(), "team-a", lambda _: None, limit=0)
    followed(0, streams)  # fills caches
    return _allocated(lambda: [followed(number, streams) for number in range(1, count + 1)]) / count


def _allocated(make: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return size


def _object(kind: str, name: str, replica: str = "worker-0") -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(_OBJECTS)[kind]
    text = msgspec.json.encode(found).decode().replace(_NAME, name)
    text = text.replace(f"{name}-worker-0", f"{name}-{replica}")
    text = text.replace(f"{name}.", f"{name}.{replica}")  # an event's own name
    return dict(msgspec.json.decode(text))


def _take(job: Followed, kind: str, found: dict[str, Any]) -> None:
    kept = trimming.keeper(kind, {job.plan.run_id})(found)
    assert kept is not None
    job.take(Changed(kind, kept))


def no_api() -> Any:
    """Give an API that is not asked for logs: their streams have the limit 0."""
    return object()

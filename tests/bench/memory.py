"""Memory of hundreds of followed jobs of four pods; needs no cluster.

    python tests/bench/memory.py [JOBS]

The objects are those of an API server (``tests/fixtures/objects``), renamed. Prints the memory that
a job takes. Exit code 1 if the limit is missed.
"""

import gc
import math
import resource
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from k8sbench.adapters.kubernetes.logs.streams import LogStreams
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import Changed
from k8sbench.cli.terminal.live import LiveRun
from k8sbench.model.identity import PLAN_ANNOTATION
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from tests.tiers import ROOT

JOBS = 500
LIMIT = 60
"""kB allocated for each job."""
REPLICAS = ("master-0", "worker-0", "worker-1", "worker-2")
_OBJECTS = (ROOT / "tests/fixtures/objects/followed-job.json").read_text()
_NAME = "small-1"


def main() -> int:
    """Measure and print; returns 1 if the limit is missed."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    before, shared = _peak(), unasked_streams()
    kept = [followed(number, shared) for number in range(jobs)]
    resident, each = (_peak() - before) * 1000 / len(kept), bytes_each(200) / 1000
    print(
        f"{len(kept)} followed jobs of {len(REPLICAS)} pods: {each:.0f} kB allocated for each"
        f" (limit {LIMIT}), {resident:.0f} kB resident"
    )
    return int(each > LIMIT)


def unasked_streams() -> LogStreams:
    """Make streams of logs of which none is opened: their limit is 0."""
    api: Any = object()
    return LogStreams(api, "team-a", lambda _: None, limit=0)


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
    shared = unasked_streams()
    followed(0, shared)  # fills caches
    gc.collect()
    tracemalloc.start()
    try:
        kept = [followed(number, shared) for number in range(1, count + 1)]
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return size / len(kept)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


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


if __name__ == "__main__":
    sys.exit(main())

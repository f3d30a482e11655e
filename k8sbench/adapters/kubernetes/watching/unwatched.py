"""State and printed lines of one job that is not watched."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence

from k8sbench.adapters.kubernetes import kinds, listing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.logs import reading
from k8sbench.adapters.kubernetes.ownership import is_of
from k8sbench.adapters.kubernetes.watch_events import ObjectChanged
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.model.kube import RUN_LABEL, labels_of
from k8sbench.model.replica_logs import LogLine
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.stamped_lines import NewLineFilter, PodLogSplitter


def look(api: Api, run: Run) -> Sequence[JobEvent]:
    """Return the states of a job and its replicas; empty without the job."""
    followed = _followed(run)
    with api.explaining(f"job {run.run_id} be read"):
        job = api.find(kinds.path(followed.kind, api.place.namespace, run.plan.job_name))
        if job is None or labels_of(job).get(RUN_LABEL) != run.run_id or not is_of(job, run):
            return ()
        followed.take(ObjectChanged(followed.kind, kinds.trimmed_job(job)))
        for kind in ("Pod", "Event"):
            for found in listing.objects(api, kind, run.run_id):
                followed.take(ObjectChanged(kind, found))
        places = listing.workloads(api) if followed.is_queued() else {}
    now = api.time()
    reading, _ = followed.read(now, places.get(followed.uid or ""))
    first = followed.move(reading, now)
    return [first, *followed.changes(reading, now)]


def printed(api: Api, run: Run) -> Iterator[LogLine]:
    """Yield the lines printed so far, rank 0's first."""
    namespace = api.place.namespace
    followed = _followed(run)
    with api.explaining(f"the logs of {run.run_id} be read"):
        followed.take_pods(listing.objects(api, "Pod", run.run_id))
        _, replicas = followed.read(api.time())
        for one in replicas:
            if one.pod is None or not one.started:
                continue
            text = PodLogSplitter()
            resume = NewLineFilter(None, now=int(time.time() * 1_000_000))
            path = kinds.path("Pod", namespace, one.pod_name, "log")
            query = {"container": one.container, "timestamps": "true"}
            log = api.stream(path, query, silence_s=reading.SILENT_SECONDS)
            with contextlib.closing(log) as served:
                for chunk in itertools.chain(served.chunks(), [None]):
                    for at, line in resume.feed(text.end() if chunk is None else text.feed(chunk)):
                        assert at is not None
                        yield LogLine(replica=one.name, at=at / 1_000_000, text=line)


def _followed(run: Run) -> Followed:
    return Followed(run, reported=run.history[-1], since=time.monotonic())

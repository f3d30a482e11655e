"""Reads the state and the logs of a job once, without following it."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.logs import reading
from k8sbench.adapters.kubernetes.logs.resume import Resume
from k8sbench.adapters.kubernetes.logs.text import LogText
from k8sbench.adapters.kubernetes.ownership import User, is_of
from k8sbench.adapters.kubernetes.watching import extra_queries, reflector, trimming
from k8sbench.adapters.kubernetes.watching.followed import Followed, is_short_of_nodes
from k8sbench.adapters.kubernetes.watching.reflector import Changed
from k8sbench.model.kube import RUN_LABEL, labels_of
from k8sbench.model.run import Run
from k8sbench.ports import Clock, JobEvent, LogLine


def look(api: Api, run: Run, clock: Clock, user: User | None) -> Sequence[JobEvent]:
    """Return the state of a job now, then its replicas'; empty where there is no such job."""
    followed = _followed(run)
    try:
        job = api.find(kinds.path(followed.kind, api.place.namespace, run.plan.job_name))
        if job is None or labels_of(job).get(RUN_LABEL) != run.run_id or not is_of(job, run, user):
            return ()
        followed.take(Changed(followed.kind, trimming.job(job)))
        for kind in ("Pod", "Event"):
            _take_all(api, followed, kind)
        snapshot = followed.snapshot()
        if is_short_of_nodes(snapshot):
            snapshot.nodes = extra_queries.nodes(api)
        if followed.is_queued():
            snapshot.workload = extra_queries.workload(api, followed.uid)
    except ApiFault as fault:
        raise api.explained(fault, f"job {run.run_id} be read") from fault
    now = clock()
    reading, _ = followed.read(api.time(), snapshot)
    first = followed.move(reading, now)
    return [first, *followed.changes(reading, now)]


def printed(api: Api, run: Run) -> Iterator[LogLine]:
    """Return what a job's replicas have printed so far, rank 0's first."""
    namespace, followed = api.place.namespace, _followed(run)
    try:
        _take_all(api, followed, "Pod")
        _, replicas = followed.read(api.time())
        for one in replicas:
            if one.pod is None or not one.started:
                continue
            text, resume = LogText(), Resume(None, now=int(time.time() * 1_000_000))
            path = kinds.path("Pod", namespace, one.pod_name, "log")
            query = {"container": one.container, "timestamps": "true"}
            log = api.stream(path, silence_s=reading.SILENT_SECONDS, **query)
            with contextlib.closing(log) as served:
                for chunk in itertools.chain(served.chunks(), [None]):
                    for at, line in resume.feed(text.end() if chunk is None else text.feed(chunk)):
                        assert at is not None
                        yield LogLine(replica=one.name, at=at / 1_000_000, text=line)
    except ApiFault as fault:
        raise api.explained(fault, f"the logs of {run.run_id} be read") from fault


def _followed(run: Run) -> Followed:
    return Followed(run.plan, reported=run.history[-1], since=time.monotonic())


def _take_all(api: Api, followed: Followed, kind: str) -> None:
    """Take in all objects of a kind that belong to a run."""
    run_id = followed.plan.run_id
    source = reflector.source(kind, api.place.namespace, f"{RUN_LABEL}={run_id}")
    keep = trimming.keeper(kind, {run_id})
    for item in api.list(source.path, labels=source.labels, fields=source.fields, keep=keep)[0]:
        followed.take(Changed(kind, item))

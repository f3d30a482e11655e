"""Jobs of others with the label that asks for observation: their objects, and their kinds here."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import Tolerated
from k8sbench.model import observed_job
from k8sbench.model.kinds import OBSERVED
from k8sbench.model.kube import RUN_LABEL, KubeObject, labels_of, parse_time

JOB_KINDS = {kind.name: kind for kind in OBSERVED.values()}
"""Kinds of jobs that can be observed, by the value of ``kind:``."""


class KnownJob(NamedTuple):
    """A job whose run is followed."""

    kind: str
    name: str
    uid: str
    created_at: float
    """Unix seconds."""
    run_id: str


class LabelledSelection(kinds.Selection):
    """The labelled jobs of a namespace, and the pods and events of those that are followed.

    Reflectors read it on their own threads; one thread adds jobs and drops them.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._known: dict[str, tuple[KnownJob, ...]] = {}
        """Followed jobs by name, in the order of creation."""

    def add(self, job: KnownJob) -> None:
        """Have the objects of a job kept."""
        others = (one for one in self._known.get(job.name, ()) if one.run_id != job.run_id)
        self._known[job.name] = tuple(sorted((*others, job), key=lambda one: one.created_at))

    def drop(self, job: KnownJob) -> None:
        """Keep the objects of a job no longer."""
        rest = tuple(one for one in self._known.get(job.name, ()) if one.run_id != job.run_id)
        if rest:
            self._known[job.name] = rest
        else:
            self._known.pop(job.name, None)

    # -- objects ----------------------------------------------------------------------------------

    def selectors(self, kind: str, run_id: str | None = None) -> tuple[str, str]:
        """Return label and field selectors of a kind; of pods also for one run."""
        if kind == "Event":
            return super().selectors(kind)
        if kind in JOB_KINDS:
            return f"{observed_job.OBSERVE_LABEL}=true,!{RUN_LABEL}", ""
        if run_id is None:
            return f"!{RUN_LABEL}", ""
        job = next(one for one in self._jobs() if one.run_id == run_id)
        return f"{JOB_KINDS[job.kind].pod_label}={job.name}", ""

    def keeps(self, kind: str, found: KubeObject, runs: Container[str | None]) -> bool:
        """Return True for every labelled job, and for objects of the followed ones."""
        return kind in JOB_KINDS or super().keeps(kind, found, runs)

    def run_of(self, kind: str, found: KubeObject) -> str | None:
        """Return the run of an object; None if it belongs to no followed job."""
        if kind == "Pod":
            return self._run_of_pod(found)
        if kind in JOB_KINDS:
            metadata = found["metadata"]
            return observed_job.run_id(self._namespace, kind, metadata["name"], metadata["uid"])
        return super().run_of(kind, found)

    def runs_of(self, kind: str, found: KubeObject) -> Sequence[str | None]:
        """Return the runs that a change concerns: a job's of the same name, too, which is gone."""
        if kind in JOB_KINDS:
            return self.runs_named(kind, found["metadata"]["name"])
        return super().runs_of(kind, found)

    def runs_named(self, kind: str, name: str) -> Sequence[str | None]:
        """Return the runs of all followed jobs that an object of this name may belong to."""
        if kind in JOB_KINDS:
            return [one.run_id for one in self._known.get(name, ()) if one.kind == kind]
        return [one.run_id for one in self._of_name(kind, name)]

    def run_named(self, kind: str, name: str) -> str | None:
        """Return the run of the newest job that an object of this name may belong to."""
        jobs = self._of_name(kind, name)
        return jobs[-1].run_id if jobs else None

    def _of_name(self, kind: str, name: str) -> tuple[KnownJob, ...]:
        """Return the followed jobs with the longest name that an object's name begins with."""
        # Kueue's name for a Workload: kind, job, and a hash.
        own = name.partition("-")[2] if kind == "Workload" else name
        while own:
            if own in self._known:
                return self._known[own]
            own = own.rpartition("-")[0]
        return ()

    def _run_of_pod(self, pod: KubeObject) -> str | None:
        """Return the run of the job that owns a pod or, where others stand between, by its age."""
        metadata, labels = pod["metadata"], labels_of(pod)
        owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
        made = parse_time(metadata.get("creationTimestamp"))
        for kind in OBSERVED.values():
            named = self._known.get(labels.get(kind.pod_label, ""), ())
            for job in reversed([one for one in named if one.kind == kind.name]):
                if job.uid in owners:
                    return job.run_id
                if kind.makers and (made is None or made >= job.created_at):
                    return job.run_id
        return None

    def _jobs(self) -> Iterator[KnownJob]:
        for jobs in list(self._known.values()):
            yield from jobs


def served_kinds(api: Api) -> set[str]:
    """Return the kinds of jobs that the cluster has; raises :class:`ApiFault`."""
    found = set()
    for kind in OBSERVED.values():
        with Tolerated(404):
            group = api.get(f"/apis/{kind.api_version}", retry_s=0.0)
            if any(one["name"] == kind.plural for one in group.get("resources") or ()):
                found.add(kind.name)
    return found

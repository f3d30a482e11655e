"""Deletes a run's objects: only those that bear the run's label."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from k8sbench.adapters.kubernetes import kinds, listing, sharing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.sharing import User
from k8sbench.diagnose.job.state import kept_by
from k8sbench.model.kube import RUN_LABEL, KubeObject, labels_of, name_of
from k8sbench.ports import Collected


class LastSeen(NamedTuple):
    """A job as the process that followed it saw it last."""

    kind: str
    uid: str
    version: str
    """Its resourceVersion."""
    marks: frozenset[str]
    """The names of the marks on it."""
    is_ours: bool
    """Whether it bears the run's label."""

    @classmethod
    def of(cls, kind: str, job: KubeObject) -> LastSeen:
        """Keep that of a job."""
        metadata = job["metadata"]
        is_ours = labels_of(job).get(RUN_LABEL) == name_of(job)
        return cls(kind, metadata["uid"], metadata["resourceVersion"], sharing.marks(job), is_ours)


def remove(
    api: Api,
    run_id: str,
    *,
    user: User | None = None,
    last: LastSeen | None = None,
    owns_config_map: bool = False,
    collected: Callable[[], Collected] | None = None,
) -> str | None:
    """Delete a run's job, and with it its pods and its ConfigMap; idempotent.

    Returns why the job stays, or what its deletion waits for; else None. It stays where its uid is
    not that of ``last``, where others than ``user`` need it (for whom it is noted what was
    ``collected``), and where it does not bear the run's label. Unless it is known to own its
    ConfigMap that is looked for: the process that created them may have been killed in between.
    """
    if last is not None and owns_config_map and _is_gone(api, run_id, user, last):
        return None
    try:
        found, unlabelled = listing.look_for(api, run_id)
        if found is not None:
            kind, job = found
            if last is not None and last.uid != job["metadata"]["uid"]:
                why: str | None = "another job of that name was created since."
            else:
                why = None if user is None else sharing.keeper(api, kind, job, user, collected)
            if why is not None:
                return f"{why} To delete it all the same: k8sbench delete {run_id}"
            path = kinds.path(kind, api.place.namespace, run_id)
            left = api.delete(path, uid=job["metadata"]["uid"])
            if left is not None and ((kept := kept_by(left)) is not None or owns_config_map):
                return kept
        path = kinds.path("ConfigMap", api.place.namespace, run_id)
        orphan = api.find(path)
        if (
            orphan is not None
            and labels_of(orphan).get(RUN_LABEL) == run_id
            and not orphan["metadata"].get("ownerReferences")
        ):
            api.delete(path, uid=orphan["metadata"]["uid"])
    except ApiFault as fault:
        raise api.explained(fault, f"job {run_id} be deleted") from fault
    return unlabelled


def _is_gone(api: Api, run_id: str, user: User | None, last: LastSeen) -> bool:
    """Delete a job by one request, provided that nobody has changed it since it was seen.

    Not one that others have marked.
    """
    if not last.is_ours or (user is not None and last.marks - {user.key}):
        return False
    path = kinds.path(last.kind, api.place.namespace, run_id)
    try:
        left = api.delete(path, uid=last.uid, version=last.version)
    except ApiFault as fault:
        if fault.status == 409:
            return False
        raise api.explained(fault, f"job {run_id} be deleted") from fault
    return left is None or kept_by(left) is None

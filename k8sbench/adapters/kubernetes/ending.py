"""Deletes a run's objects: only those that bear the run's label."""

from __future__ import annotations

from collections.abc import Callable

from k8sbench.adapters.kubernetes import kinds, listing, sharing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.sharing import User
from k8sbench.diagnose.job.state import kept_by
from k8sbench.model.kube import RUN_LABEL, labels_of
from k8sbench.ports import Collected


def remove(
    api: Api,
    run_id: str,
    *,
    user: User | None = None,
    uid: str | None = None,
    owns_config_map: bool = False,
    collected: Callable[[], Collected] | None = None,
) -> str | None:
    """Delete a run's job, and with it its pods and its ConfigMap; idempotent.

    Returns why the job stays, or what its deletion waits for; else None. It stays where its uid is
    not ``uid``, where others than ``user`` need it (for whom it is noted what was ``collected``),
    and where it does not bear the run's label. Unless it is known to own its ConfigMap that is
    looked for: the process that created them may have been killed in between.
    """
    try:
        found, unlabelled = listing.look_for(api, run_id)
        if found is not None:
            kind, job = found
            if uid not in {None, job["metadata"]["uid"]}:
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

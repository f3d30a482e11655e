"""Deletes the job of a run that is over: one that bears the run's label and is this store's."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from k8sbench.adapters.kubernetes import listing, ownership
from k8sbench.adapters.kubernetes.client.api import RETRY_SECONDS, Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import Change, User
from k8sbench.diagnose.job.state import kept_by
from k8sbench.model import times
from k8sbench.model.errors import OwnedElsewhere
from k8sbench.model.kube import RUN_LABEL, KubeObject, labels_of
from k8sbench.model.ownership import RECEIPT_SECONDS, Collected, Receipt


class LastSeen(NamedTuple):
    """A job as the process that followed it saw it last."""

    kind: str
    job: KubeObject
    """Its metadata alone."""

    @classmethod
    def of(cls, kind: str, job: KubeObject) -> LastSeen:
        """Keep that of a job."""
        return cls(kind, {"metadata": job["metadata"]})


def remove(
    api: Api,
    run_id: str,
    *,
    user: User | None = None,
    last: LastSeen | None = None,
    uid: str | None = None,
    collected: Callable[[], Collected] | None = None,
    force: bool = False,
) -> str | None:
    """Delete a run's job, and with it its pods; idempotent.

    Returns why the job stays, or what its deletion waits for; else None. It stays where it is not
    that of ``last`` or of ``uid``, where another store owns it, and where it does not bear the
    run's label; unless ``force``, also where its owner keeps it, and for its submitter, who is to
    find a receipt of what another store has ``collected``.
    """
    try:
        is_seen = last is not None and labels_of(last.job).get(RUN_LABEL) == run_id
        found, unlabelled = (last, None) if is_seen else listing.look_for(api, run_id)
        if found is None:
            return unlabelled
        kind, job = found
        if uid is not None and uid != job["metadata"]["uid"]:
            return f"another job of that name was created since (uid {job['metadata']['uid']})."
        ownership.check_ours(job, user)
        if user is not None and not force:
            job, why = _collected(api, kind, job, user, collected)
            if why is not None:
                return f"{why} To delete it all the same: k8sbench delete {run_id}"
        left = ownership.delete(api, kind, job, user)
    except OwnedElsewhere as error:
        return f"{error.message} {error.action}"
    except ownership.VanishedError:
        found, unlabelled = listing.look_for(api, run_id)
        return unlabelled if found is None else "another job of that name was created since."
    except ApiFault as fault:
        raise api.explained(fault, f"job {run_id} be deleted") from fault
    return None if left is None else kept_by(left)


def _collected(
    api: Api, kind: str, job: KubeObject, user: User, collected: Callable[[], Collected] | None
) -> tuple[KubeObject, str | None]:
    """Write a receipt onto a job of which others may want to know, and say why it stays."""
    owner = ownership.of(job, user).owner
    keeps = user.keep or (owner is not None and owner.keep)
    has_adopted = owner is not None and owner.has_adopted
    if collected is not None and (keeps or has_adopted):
        receipt = _receipt(user, collected(), api.time())

        def signed(now: KubeObject) -> Change | None:
            ownership.check_ours(now, user)
            is_signed = ownership.of(now, user).receipt is not None
            return None if is_signed else ownership.annotated(receipt=ownership.encoded(receipt))

        job = ownership.change(api, kind, job, signed, retry_s=RETRY_SECONDS)
    if keeps:
        return job, f"k8sbench on {user.host} keeps it (--keep)."
    if has_adopted and not user.is_collector:
        days = times.duration(RECEIPT_SECONDS)
        return job, f"it stays for {days}, for the k8sbench that submitted it to see the result."
    return job, None


def _receipt(user: User, collected: Collected, at: float) -> Receipt:
    known = msgspec.structs.asdict(collected)
    return Receipt(store=user.store, host=user.host, at=at, **known)

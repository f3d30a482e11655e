"""Changes of a job's owner, and what stores that do not own it ask of the one that does."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from k8sbench.adapters.kubernetes import listing, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import Change, User
from k8sbench.model.kube import KubeObject
from k8sbench.model.ownership import Ownership
from k8sbench.model.run import Wish

REQUEST_SECONDS = 5.0
"""For one request; who asked tries again."""


class _OtherwiseError(Exception):
    """The job is not as it was known to be."""


def change(api: Api, run_id: str, decide: Callable[[KubeObject], Change | None], what: str) -> bool:
    """Change the job of a run; False where there is none, or it is not as was expected.

    Raises :class:`BenchError`; ``what`` ends its sentence.
    """
    found = listing.find(api, run_id)
    try:
        if found is not None:
            ownership.change(api, *found, decide, retry_s=REQUEST_SECONDS)
    except (ownership.VanishedError, _OtherwiseError):
        return False
    except ApiFault as fault:
        raise api.explained(fault, what) from fault
    return found is not None


def asked(job: KubeObject, *, wish: Wish) -> Change:
    """Ask for something, in place of what was asked before."""
    del job
    return ownership.annotated(wish=ownership.encoded(wish))


def answered(job: KubeObject, *, user: User | None, now: float) -> Change:
    """Take off what was asked, and stamp the job; raises :class:`OwnedElsewhere`."""
    ownership.check_ours(job, user)
    owner = ownership.of(job, user).owner
    if owner is None:
        return ownership.annotated(wish=None)
    keep = owner.keep or (user is not None and user.keep)
    is_left = owner.is_handed_over and (user is None or user.detached)
    stamp = msgspec.structs.replace(owner, at=now, keep=keep, is_handed_over=is_left)
    return ownership.annotated(wish=None, owner=ownership.encoded(stamp))


def adopted(job: KubeObject, *, user: User, known: Ownership, now: float) -> Change | None:
    """Make a store the owner, unless another one was faster."""
    whose = ownership.of(job, user)
    if whose.owner is not None and whose.owner.store == user.store:
        return None
    if (whose.owner, whose.receipt) != (known.owner, known.receipt):
        raise _OtherwiseError
    keep = whose.owner is not None and whose.owner.keep
    owner = user.owner(now, has_adopted=True, keep=keep)
    return ownership.annotated(wish=None, owner=ownership.encoded(owner))

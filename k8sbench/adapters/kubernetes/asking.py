"""Changes of a job's owner, and what stores that do not own it ask of the one that does.

A job that has ended is stamped while the store that owns it still works on it: no other store
adopts a job with a new stamp. One that others may adopt is stamped before its end is reported: two
stores might measure its run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from functools import partial

import msgspec

from k8sbench.adapters.kubernetes import listing, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import Change, User
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.model.errors import BenchError, OwnedElsewhere, is_refused
from k8sbench.model.kube import KubeObject
from k8sbench.model.ownership import STAMP_SECONDS, Ownership

REQUEST_SECONDS = 5.0
"""For one request; who asked tries again."""
CLAIM_SECONDS = 1.0
"""Before another try to stamp a job."""


def change(api: Api, run_id: str, decide: Callable[[KubeObject], Change | None], what: str) -> bool:
    """Change the job of a run; False where there is none, or it is not as was expected.

    Raises :class:`BenchError`; ``what`` ends its sentence.
    """
    found = listing.find(api, run_id)
    try:
        if found is not None:
            ownership.change(api, *found, decide, retry_s=REQUEST_SECONDS)
    except ownership.VanishedError:
        return False
    except ApiFault as fault:
        raise api.explained(fault, what) from fault
    return found is not None


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
        raise ownership.VanishedError  # it is not as it was known to be
    keep = whose.owner is not None and whose.owner.keep
    owner = user.owner(now, has_adopted=True, keep=keep)
    return ownership.annotated(wish=None, owner=ownership.encoded(owner))


class Stamps:
    """Writes the stamps of one store, on other threads."""

    def __init__(
        self,
        api: Api,
        user: User | None,
        start: Callable[[Callable[[], None]], None],
        reread: Callable[[Collection[str]], None],
    ) -> None:
        """``start`` executes a request on another thread.

        ``reread`` gets the runs whose jobs could not be stamped, on any thread.
        """
        self._api, self._user = api, user
        self._start, self._reread = start, reread
        self._next_at = time.monotonic() + STAMP_SECONDS

    def write(self, run_id: str) -> None:
        """Stamp a job of this store, and take off it what another store has asked."""
        changed = partial(answered, user=self._user, now=self._api.time())
        change(self._api, run_id, changed, f"the wish on {run_id} be answered")

    def renew(self, followed: Iterable[Followed]) -> None:
        """Stamp the jobs that have ended, where that is due."""
        if time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + STAMP_SECONDS
            for job in followed:
                if job.ended_at is not None and job.is_ours:
                    self._start(partial(self._try, job))

    def claim(self, followed: Followed) -> None:
        """Begin to take back a job that others may adopt; the watch tells what came of it."""
        if not self.must_claim(followed):
            followed.claim = "" if followed.claim == "asked" else followed.claim
        elif followed.claim == "":
            followed.claim = "asked"
            self._start(partial(self._try, followed))

    def must_claim(self, followed: Followed) -> bool:
        """Whether a job is to be taken back before its end is reported."""
        follows = self._user is not None and not self._user.detached
        return follows and followed.is_adoptable and followed.claim != "refused"

    def keep(self, followed: Followed) -> None:
        """Write onto a job that its user keeps it: no collector adopts it."""
        if self._user is not None and self._user.keep and followed.is_ours:
            self._start(partial(self._try, followed))

    def _try(self, followed: Followed) -> None:
        run_id = followed.plan.run_id
        try:
            self.write(run_id)
        except OwnedElsewhere:
            pass  # the watch says whose it is
        except BenchError as error:
            refused = is_refused(error)
            if not refused:
                self._api.pause(CLAIM_SECONDS)
            followed.claim = "refused" if refused else ""
            self._reread({run_id})

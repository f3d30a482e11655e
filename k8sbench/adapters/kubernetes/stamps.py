"""Stamps on jobs that have ended: the store that owns them still works on them.

No other store adopts a job with a new stamp. A job that others may adopt is stamped before its end
is reported: two stores might measure its run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from functools import partial

from k8sbench.adapters.kubernetes import asking
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.ownership import User
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.model.errors import BenchError, OwnedElsewhere, is_refused

CLAIM_SECONDS = 1.0
"""Before another try to stamp a job."""


class Stamps:
    """Writes the stamps of one store, on other threads."""

    def __init__(
        self,
        api: Api,
        user: User | None,
        start: Callable[[Callable[[], None]], None],
        reread: Callable[[Collection[str]], None],
        seconds: float,
    ) -> None:
        """``start`` executes a request on another thread; ``seconds`` lie between two stamps.

        ``reread`` gets the runs whose jobs could not be stamped, on any thread.
        """
        self._api, self._user = api, user
        self._start, self._reread = start, reread
        self._seconds, self._next_at = seconds, time.monotonic() + seconds

    def write(self, run_id: str) -> None:
        """Stamp a job of this store, and take off it what another store has asked."""
        changed = partial(asking.answered, user=self._user, now=self._api.time())
        asking.change(self._api, run_id, changed, f"the wish on {run_id} be answered")

    def renew(self, followed: Iterable[Followed]) -> None:
        """Stamp the jobs that have ended, where that is due."""
        if time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + self._seconds
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

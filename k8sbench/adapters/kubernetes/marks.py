"""Keeps this store's marks on the jobs that it follows: sets, renews and removes them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from k8sbench.adapters.kubernetes import listing, sharing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.model.errors import BenchError
from k8sbench.ports import Clock


class Marks:
    """The marks of ``user`` on the jobs in ``followed``; without a user there are none.

    Requests are made by ``start``, on other threads.
    """

    def __init__(
        self,
        api: Api,
        user: sharing.User | None,
        followed: Mapping[str, Followed],
        start: Callable[[Callable[[], None]], None],
        *,
        clock: Clock,
        renew_s: float,
    ) -> None:
        self._api, self._user, self._followed, self._start = api, user, followed, start
        self._clock, self._renew_s, self._renewed_at = clock, renew_s, clock()
        """``renew_s``: between two renewals, the last of which was ``renewed_at``."""

    def set(self, run_ids: Iterable[str]) -> None:
        """Set marks on jobs that are followed, unless they have ended by then."""
        if (user := self._user) is None:
            return
        for run_id in run_ids:
            mark = partial(self._mark, run_id, sharing.renew, only_followed=not user.detached)
            self._start(mark)

    def remove(self, run_ids: Iterable[str]) -> None:
        """Remove marks from jobs that go on, unless they are to be kept."""
        if (user := self._user) is None or user.keep or user.detached:
            return
        for run_id in run_ids:
            self._start(partial(self._mark, run_id, sharing.leave))

    def renew(self) -> None:
        """Renew all marks when that is due: those of a process that was killed expire.

        By the time of day: a laptop that has slept renews them at once.
        """
        now = self._clock()
        if not 0.0 <= now - self._renewed_at < self._renew_s:
            self._renewed_at = now
            self.set(list(self._followed))

    def _mark(
        self, run_id: str, change: Callable[..., None], *, only_followed: bool = False
    ) -> None:
        """Change a mark; a refusal is ignored."""
        with contextlib.suppress(ApiFault, BenchError):
            followed = self._followed.get(run_id)
            found = followed.found if followed is not None else None
            found = found or listing.find(self._api, run_id)
            if found is not None and (not only_followed or run_id in self._followed):
                change(self._api, *found, self._user)

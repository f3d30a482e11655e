"""The watches of all jobs that are followed: one reflector for each kind of object.

Of those that fail: since when, and the sentence that users read about it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence

from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
from k8sbench.adapters.kubernetes.watching import reflector, trimming
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import (
    Failed,
    Listed,
    Reflector,
    WatchEvent,
    Works,
)
from k8sbench.model.errors import BenchError

NOTE_SECONDS = 5.0
"""A watch that fails for so long is reported to the user."""
_PLURALS = {"Pod": "pods", "Event": "events"}
_REFUSALS = frozenset({401, 403, 404})


class WatchFailures:
    """The kinds of objects that cannot be watched now. Times are monotonic."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[float, ApiFault]] = {}
        """Kind → since when its watch fails, and the last fault."""
        self._reported: float | None = None
        """Start of the failure that was reported to the user."""

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def failed(self, kind: str, fault: ApiFault, now: float) -> None:
        """Record that the watch of a kind has failed."""
        since, _ = self._kinds.get(kind, (now, None))
        self._kinds[kind] = (since, fault)

    def works(self, kind: str) -> None:
        """Record that it works again."""
        self._kinds.pop(kind, None)

    def report_at(self) -> float | None:
        """When the failure is to be reported; None: nothing is."""
        if not self._kinds or self._reported is not None:
            return None
        return min(since for since, _ in self._kinds.values()) + NOTE_SECONDS

    def report(
        self, now: float, watched: int, explained: Callable[[ApiFault, str], BenchError]
    ) -> str | None:
        """Return a sentence once when a watch fails for a while, and once when all work again.

        ``watched`` is the number of kinds that are watched.
        """
        if self._reported is not None and not self._kinds:
            text = f"The API server answers again, after {now - self._reported:.0f} s."
            self._reported = None
            return text
        if (due := self.report_at()) is None or now < due:
            return None
        since, fault = min(self._kinds.values(), key=lambda one: one[0])
        self._reported = since
        what = " and ".join(sorted({_PLURALS.get(kind, "jobs") for kind in self._kinds}))
        if fault.status in _REFUSALS:
            error = explained(fault, f"the {what} be watched")
            return f"The {what} cannot be watched: {error} Retrying."
        silent = f"report {what}" if len(self._kinds) < watched else "answer"
        return (
            f"The API server does not {silent} since {now - since:.0f} s ({fault.message});"
            " retrying. Running jobs continue."
        )


class Watches:
    """Starts the reflectors; knows which are complete and which fail."""

    def __init__(
        self, api: Api, runs: Container[str], on_event: Callable[[WatchEvent], None]
    ) -> None:
        """Keep objects of the ``runs``, which are read whenever an object arrives."""
        self.failures = WatchFailures()
        self._api, self._runs, self._on_event = api, runs, on_event
        self._reflectors: dict[str, Reflector] = {}
        self._is_stale = False
        """Whether earlier changes of a job that is followed now may have been left out."""
        self._refreshed_at = 0.0
        """When everything was last listed again, monotonic seconds."""
        self._listed: set[str] = set()
        """Kinds whose list was received completely since then."""

    def list_again(self) -> None:
        """Have everything listed again: a job existed before it was followed."""
        self._is_stale = True

    def watch(self, jobs: Sequence[Followed]) -> None:
        """Watch the objects of all these jobs."""
        if self._is_stale and self._reflectors:
            self._refreshed_at = time.monotonic()
            self._listed.clear()
            for watch in self._reflectors.values():
                watch.refresh()
        self._is_stale = False
        for kind in (*sorted({followed.kind for followed in jobs}), "Pod", "Event"):
            if kind not in self._reflectors:
                self._reflectors[kind] = Reflector(
                    self._api,
                    reflector.source(kind, self._api.place.namespace),
                    trimming.keeper(kind, self._runs),
                    self._on_event,
                )

    def take(self, event: Listed | Failed | Works) -> bool:
        """Take in the state of a watch; return whether more is known to be complete now."""
        match event:
            case Listed():
                if event.started_at >= self._refreshed_at:
                    self._listed.add(event.kind)
                    return True
            case Failed():
                self.failures.failed(event.kind, event.fault, time.monotonic())
            case Works():
                self.failures.works(event.kind)
                for kind in self.failures:
                    self._reflectors[kind].try_now()
        return False

    def has_all(self, kind: str) -> bool:
        """Whether all objects of a kind were received since they were last listed again."""
        return kind in self._listed

    def report(self) -> str | None:
        """Return a sentence once when a watch fails for a while, and once when all work again."""
        return self.failures.report(time.monotonic(), len(self._reflectors), self._api.explained)

    def close(self) -> None:
        """Stop all reflectors."""
        for watch in self._reflectors.values():
            watch.close()

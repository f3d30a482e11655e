"""The watches of all jobs that are followed: one reflector for each kind of object."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.watching import scope
from k8sbench.adapters.kubernetes.watching.failures import WatchFailures
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import (
    Failed,
    Listed,
    Reflector,
    WatchEvent,
    Works,
)
from k8sbench.adapters.kubernetes.watching.scope import Scope


class Watches:
    """Starts the reflectors and widens their scope; knows which are complete and which fail."""

    def __init__(
        self,
        api: Api,
        runs: Container[str],
        ended: Container[str],
        on_event: Callable[[WatchEvent], None],
        *,
        watch_s: float,
        longest_pause: float,
    ) -> None:
        """Keep objects of the ``runs``, and jobs of those that have ``ended``; both are read
        whenever an object arrives.
        """
        self.failures = WatchFailures()
        self._api, self._runs, self._ended, self._on_event = api, runs, ended, on_event
        self._watch_s, self._longest_pause = watch_s, longest_pause
        self._scope: Scope | None = None
        self._reflectors: dict[str, Reflector] = {}
        self._is_stale = False
        """Whether earlier changes of a job that is followed now may have been left out."""
        self._scoped_at = 0.0
        """When the scope last changed, monotonic seconds."""
        self._listed: set[str] = set()
        """Kinds whose list was received completely since then."""

    def list_again(self) -> None:
        """Have everything listed again: a job existed before it was followed."""
        self._is_stale = True

    def watch(self, jobs: Sequence[Followed]) -> None:
        """Watch the objects of all these jobs."""
        namespace = self._api.place.namespace
        plans = [followed.plan for followed in jobs]
        wider = Scope.of(plans, self._is_stale) if self._scope is None else self._scope.with_(plans)
        again = self._scope is not None and (wider != self._scope or self._is_stale)
        self._scope, self._is_stale = wider, False
        if again:
            self._scoped_at = time.monotonic()
            self._listed.clear()
            for kind, reflector in self._reflectors.items():
                reflector.refresh(wider.source(kind, namespace).labels)
        for kind in (*sorted({followed.kind for followed in jobs}), "Pod", "Event"):
            if kind not in self._reflectors:
                self._reflectors[kind] = Reflector(
                    self._api,
                    wider.source(kind, namespace),
                    scope.keeper(kind, self._runs, self._ended),
                    self._on_event,
                    watch_s=self._watch_s,
                    longest_pause=self._longest_pause,
                )

    def take(self, event: Listed | Failed | Works) -> bool:
        """Take in the state of a watch; return whether more is known to be complete now."""
        match event:
            case Listed():
                if event.started_at >= self._scoped_at:
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
        """Whether all objects of a kind were received since the scope last changed."""
        return kind in self._listed

    def report(self) -> str | None:
        """Return a sentence once when a watch fails for a while, and once when all work again."""
        return self.failures.report(time.monotonic(), len(self._reflectors), self._api.explained)

    def close(self) -> None:
        """Stop all reflectors."""
        for reflector in self._reflectors.values():
            reflector.close()

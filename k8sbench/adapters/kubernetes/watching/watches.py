"""The watches of all jobs that are followed: one per kind of object, as wide as need be."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.watching import scope
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import Failed, Listed, News, Reflector, Works
from k8sbench.adapters.kubernetes.watching.scope import Scope
from k8sbench.adapters.kubernetes.watching.trouble import Trouble


class Watches:
    """Begins and widens them; knows what was told completely, and what is not told just now."""

    def __init__(
        self,
        api: Api,
        runs: set[str],
        tell: Callable[[News], None],
        *,
        watch_s: float,
        longest_pause: float,
    ) -> None:
        """``runs`` are those whose objects are kept: as it is when something comes."""
        self.trouble = Trouble()
        self._api, self._runs, self._tell = api, runs, tell
        self._watch_s, self._longest_pause = watch_s, longest_pause
        self._scope: Scope | None = None
        self._reflectors: dict[str, Reflector] = {}
        self._is_stale = False
        """Whether objects of a job that is followed since may have passed by unseen."""
        self._scoped_at = 0.0
        """Since when the reflectors follow what they follow now; never goes back."""
        self._listed: set[str] = set()
        """Kinds of which all that there was then was told."""

    def missed(self) -> None:
        """Say that a job was there before it was followed: what there is is to be listed anew."""
        self._is_stale = True

    def watch(self, jobs: Sequence[Followed]) -> None:
        """Have all these jobs watched."""
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
                    scope.keeper(kind, self._runs),
                    self._tell,
                    watch_s=self._watch_s,
                    longest_pause=self._longest_pause,
                )
                self._reflectors[kind].start()

    def take(self, news: Listed | Failed | Works) -> bool:
        """Take in how a watch is; whether from now on more is known to be complete."""
        match news:
            case Listed():
                if news.asked_at >= self._scoped_at:
                    self._listed.add(news.kind)
                    return True
            case Failed():
                self.trouble.failed(news.kind, news.fault, time.monotonic())
            case Works():
                self.trouble.works(news.kind)
                for kind in self.trouble:
                    self._reflectors[kind].try_now()
        return False

    def has_all(self, kind: str) -> bool:
        """Whether all objects of a kind were told, as they were at some time since."""
        return kind in self._listed

    def note(self) -> str | None:
        """Say once that the API server does not tell us, and once that it does again."""
        return self.trouble.note(time.monotonic(), len(self._reflectors), self._api.explained)

    def close(self) -> None:
        """End them all."""
        for reflector in self._reflectors.values():
            reflector.close()

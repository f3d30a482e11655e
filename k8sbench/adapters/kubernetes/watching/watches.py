"""The watches of all jobs that are followed: one reflector for each kind of object."""

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
    """The reflectors: starts them, widens their scope, knows which are complete and which fail."""

    def __init__(
        self,
        api: Api,
        runs: set[str],
        on_news: Callable[[News], None],
        *,
        watch_s: float,
        longest_pause: float,
    ) -> None:
        """``runs`` are those whose objects are kept; the set is read whenever an object arrives."""
        self.trouble = Trouble()
        self._api, self._runs, self._on_news = api, runs, on_news
        self._watch_s, self._longest_pause = watch_s, longest_pause
        self._scope: Scope | None = None
        self._reflectors: dict[str, Reflector] = {}
        self._is_stale = False
        """Whether objects of a job that is followed since may have passed by unseen."""
        self._scoped_at = 0.0
        """Since when the reflectors follow what they follow now; never goes back."""
        self._listed: set[str] = set()
        """Kinds whose list was received completely since then."""

    def missed(self) -> None:
        """Note that a job existed before it was followed: everything is to be listed again."""
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
                    self._on_news,
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
        """Whether all objects of a kind were received since the scope last changed."""
        return kind in self._listed

    def note(self) -> str | None:
        """Return a sentence once when a watch fails for a while, and once when all work again."""
        return self.trouble.note(time.monotonic(), len(self._reflectors), self._api.explained)

    def close(self) -> None:
        """Stop all reflectors."""
        for reflector in self._reflectors.values():
            reflector.close()

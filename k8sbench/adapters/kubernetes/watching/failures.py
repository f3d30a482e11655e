"""Watches that fail: since when, and the sentence that users read about it. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from k8sbench.adapters.kubernetes.client.faults import ApiFault
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

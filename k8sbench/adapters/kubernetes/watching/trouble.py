"""Which watches fail, since when, and the sentence that users read about it. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError

NOTE_SECONDS = 5.0
"""A watch that fails for so long is reported to the user."""
_PLURALS = {"Pod": "pods", "Event": "events"}
_REFUSALS = frozenset({401, 403, 404})


class Trouble:
    """The kinds of objects that cannot be watched just now. Times are of a clock that never goes
    back.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[float, ApiFault]] = {}
        """Kind → since when its watch fails, and the last fault."""
        self._noted: float | None = None
        """Since when, of the trouble that users know of."""

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def failed(self, kind: str, fault: ApiFault, now: float) -> None:
        """Take in that objects of a kind cannot be watched."""
        since, _ = self._kinds.get(kind, (now, None))
        self._kinds[kind] = (since, fault)

    def works(self, kind: str) -> None:
        """Take in that they can be again."""
        self._kinds.pop(kind, None)

    def look_at(self) -> float | None:
        """When the trouble will be reported, if nothing else happens."""
        if not self._kinds or self._noted is not None:
            return None
        return min(since for since, _ in self._kinds.values()) + NOTE_SECONDS

    def note(
        self, now: float, watched: int, explained: Callable[[ApiFault, str], BenchError]
    ) -> str | None:
        """Return a sentence once when a watch fails for a while, and once when all work again.

        ``watched`` is the number of kinds that are watched.
        """
        if self._noted is not None and not self._kinds:
            text = f"The API server answers again, after {now - self._noted:.0f} s."
            self._noted = None
            return text
        if not self._kinds or self._noted is not None:
            return None
        since, fault = min(self._kinds.values(), key=lambda one: one[0])
        if now - since < NOTE_SECONDS:
            return None
        self._noted = since
        what = " and ".join(sorted({_PLURALS.get(kind, "jobs") for kind in self._kinds}))
        if fault.status in _REFUSALS:
            said = explained(fault, f"the {what} be watched")
            return f"The {what} cannot be watched: {said} Trying on."
        silent = f"tell of {what}" if len(self._kinds) < watched else "answer"
        return (
            f"The API server does not {silent} since {now - since:.0f} s ({fault.message});"
            " trying on. The job goes on meanwhile."
        )

"""A digest of records as they are printed, by which a log is known that was read before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

AT_ONCE = 256
"""Records that are put into the digest together."""


class RecordDigest:
    """SHA-256 over texts, of which many are put into it together."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        """Add the text of one record."""
        self._texts.append(text)
        if len(self._texts) == AT_ONCE:
            self._flush()

    def extend(self, texts: Iterable[str]) -> None:
        """Add the texts of several records."""
        self._texts += texts
        self._flush()

    def hex(self) -> str:
        """Return the digest of what was added so far."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update("".join(self._texts).encode("utf-8", "replace"))
        self._texts.clear()

"""Who submits into a set: any number of processes, or one that resumes it.

What a set lacks can be told only while nobody else adds to it: a resumption beside a submit, or
beside another resumption, would make more runs than were asked for. So each submit holds one of a
set's places, and a resumption all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from k8sbench.model.errors import UsageError
from k8sbench.ports import Claims

PLACES = 8
"""Submits that may add to a set at a time."""


@contextlib.contextmanager
def held(claims: Claims, set_name: str, *, resumes: bool) -> Iterator[None]:
    """Hold a place of a set, or all of them where it is resumed.

    Raises :class:`UsageError` where another process holds what is needed.
    """
    places = [f"set {set_name} {number}" for number in range(PLACES)]
    mine: list[str] = []
    try:
        for place in places:
            if claims.claim(place):
                mine.append(place)
                if not resumes:
                    break
            elif resumes:
                break
        if len(mine) < (PLACES if resumes else 1):
            raise UsageError(
                f"Set {set_name} is being submitted by another k8sbench process.",
                "Wait for its end; 'k8sbench list --set' shows its runs.",
            )
        yield
    finally:
        for place in mine:
            claims.release(place)

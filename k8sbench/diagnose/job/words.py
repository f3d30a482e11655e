"""Formatting of names and quotations in the sentences of diagnoses."""

from __future__ import annotations

from collections.abc import Sequence

from k8sbench.diagnose.job.facts import Replica

QUOTED = 240
"""Longest text of Kubernetes' own that is quoted, characters."""


def names(replicas: Sequence[Replica]) -> str:
    """Name replicas: all of up to three, else the first two and how many more."""
    shown = [replica.name for replica in replicas]
    if len(shown) > 3:
        shown = [*shown[:2], f"{len(shown) - 2} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def quoted(text: str) -> str:
    """Quote Kubernetes' own words, in short."""
    text = " ".join(text.split()).rstrip(".")
    return f"'{text if len(text) <= QUOTED else text[: QUOTED - 1] + '…'}'"

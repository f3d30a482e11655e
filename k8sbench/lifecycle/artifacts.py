"""What a run's folder has beside its logs: gaps in them, and what was found beside a local run."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from k8sbench.model.errors import BenchError
from k8sbench.model.finding import Finding
from k8sbench.model.measurement import SURROUNDINGS
from k8sbench.model.sample import LogGap
from k8sbench.ports import Store

T = TypeVar("T")

GAPS = "log-gaps.json"
"""Artifact of a run whose logs the cluster did not have whole."""


def kept_surroundings(store: Store, run_id: str) -> list[Finding]:
    """Read what was found beside a local run on its machine; none where no file is."""
    return _kept(store, run_id, SURROUNDINGS, list[Finding])


def kept_gaps(store: Store, run_id: str) -> list[LogGap]:
    """Read which gaps are on record for a run's logs, whoever found them; none where no file is."""
    return _kept(store, run_id, GAPS, list[LogGap])


def _kept(store: Store, run_id: str, name: str, kind: type[list[T]]) -> list[T]:
    content = store.kept(run_id, name)
    if content is None:
        return []
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        path = store.folder(run_id) / name
        raise BenchError(f"{path} cannot be read: {error}.") from error

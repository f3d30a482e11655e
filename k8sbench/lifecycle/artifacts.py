"""What a run's folder has beside its logs: gaps in them."""

from __future__ import annotations

import msgspec

from k8sbench.model.errors import BenchError
from k8sbench.model.sample import LogGap
from k8sbench.ports import Store

GAPS = "log-gaps.json"
"""Artifact of a run whose logs the cluster did not have whole."""


def kept_gaps(store: Store, run_id: str) -> list[LogGap]:
    """Read which gaps are on record for a run's logs, whoever found them; none where no file is."""
    content = store.kept(run_id, GAPS)
    if content is None:
        return []
    try:
        return msgspec.json.decode(content, type=list[LogGap])
    except msgspec.MsgspecError as error:
        path = store.folder(run_id) / GAPS
        raise BenchError(f"{path} cannot be read: {error}.") from error

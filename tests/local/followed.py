"""A run that has this machine's first GPU, followed through NVML without any program."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec

from k8sbench.adapters.local import gpus
from k8sbench.adapters.metrics.nvml import NvmlSource
from k8sbench.model.gpu_metrics import Fetched, SeriesQuery


def followed(folder: Path) -> tuple[NvmlSource, Fetched]:
    """Follow it; returns the source, which goes on, and its first sample."""
    given = [msgspec.to_builtins(gpu) for gpu in gpus.inventory().gpus[:1]]
    record = {"replicas": [{"name": "master-0", "gpus": given}]}
    (folder / "local.json").write_text(json.dumps(record))
    source = NvmlSource(lambda _: folder)
    source.follow(SimpleNamespace(run_id="r"), [])  # type: ignore[arg-type]
    found = source.fetch(SeriesQuery(run_id="r", namespace=None, nodes={}, start=0, end=9e9))
    assert found.series, found.missing
    return source, found

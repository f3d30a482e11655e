"""Baselines: a file each in the store's folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from k8sbench.adapters.store import artifacts, disk
from k8sbench.model.run import Baseline

BASELINE_FOLDER = "baselines"


def read_all(root: Path) -> dict[str, bytes]:
    """Read what is kept of all baselines, by name."""
    with disk.translated(f"read {root / BASELINE_FOLDER}"):
        paths = sorted((root / BASELINE_FOLDER).glob("[!.]*.json"))
        return {path.name.removesuffix(".json"): path.read_bytes() for path in paths}


def decoded(name: str, content: bytes) -> Baseline:
    """Read a stored baseline; StoreError with an action if damaged."""
    action = f"Save it again with --replace, or: k8sbench baseline remove {name}"
    kept = artifacts.decoded(content, Baseline, f"The baseline {name}", action)
    return msgspec.structs.replace(kept, name=name)

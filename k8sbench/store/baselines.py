"""Baselines: a file each in the store's folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from k8sbench.model.run import Baseline
from k8sbench.store import disk, json_files

BASELINE_FOLDER = "baselines"


def list_names(root: Path) -> list[str]:
    """List the baselines, damaged ones included."""
    with disk.translate_errors(f"read {root / BASELINE_FOLDER}"):
        paths = (root / BASELINE_FOLDER).glob("[!.]*.json")
        return sorted(path.name.removesuffix(".json") for path in paths)


def path_of(root: Path, name: str) -> Path:
    """Return the file of a baseline."""
    return root / BASELINE_FOLDER / f"{name}.json"


def read(root: Path, name: str) -> Baseline | None:
    """Read a baseline; None without it, StoreError with an action if damaged."""
    content = disk.read(path_of(root, name))
    if content is None:
        return None
    action = f"Save it again with --replace, or: k8sbench baseline remove {name}"
    baseline = json_files.decode_json(content, Baseline, f"The baseline {name}", action)
    return msgspec.structs.replace(baseline, name=name)

"""Checks that data, weights and checkpoints can be used, before a run is recorded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from k8sbench.model import sources
from k8sbench.model.errors import UsageError
from k8sbench.model.plan import RunPlan

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api


def check_here(plan: RunPlan) -> None:
    """Check the files of a local run; raises :class:`UsageError`, exit code 2."""
    if (data := _path(plan.data)) is not None:
        _check(data, "--data", "folder", os.access(data, os.R_OK | os.X_OK) and data.is_dir())
    if (weights := _path(plan.weights)) is not None:
        _check(weights, "--weights", "file", os.access(weights, os.R_OK) and weights.is_file())
    if (folder := _path(plan.checkpoints)) is not None:
        # The run makes what is missing of it.
        parent = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK))
        if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
            raise UsageError(
                f"--checkpoints {folder}: {parent} is not a folder that you may write to.",
                "Name another folder.",
            )


def check_claims(api: Api, plans: Sequence[RunPlan]) -> None:
    """Check the volume claims of all plans; raises :class:`Unreachable`, exit code 6."""
    with_claims = [plan for plan in plans if sources.claims(plan)]
    if not with_claims:
        return
    from k8sbench.adapters.kubernetes import preflight

    requests = (preflight.request_of(plan, api.place.namespace) for plan in with_claims)
    different = {(item.claims, item.written, item.replicas > 1): item for item in requests}
    for request in different.values():
        preflight.refuse_claims(api, request)


def _path(place: str | None) -> Path | None:
    if place is None or not place.startswith("path:"):
        return None
    return Path(place.removeprefix("path:"))


def _check(path: Path, option: str, kind: str, fits: bool) -> None:
    if fits:
        return
    if not os.access(path, os.F_OK):
        raise UsageError(f"{option}: there is no {kind} {path}.", f"Name the {kind} that is meant.")
    raise UsageError(f"{option}: {path} is no {kind} that you may read.", f"Name such a {kind}.")

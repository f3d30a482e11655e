"""Baselines: named copies of runs for later comparisons.

A baseline holds the runs with plan and measurement, not only their names. It stays unchanged if the
runs are removed or measured again.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run


class KeptRun(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline's run, reduced to the needs of a comparison."""

    plan: RunPlan
    """The run's plan."""
    created_at: float
    """Unix seconds."""
    history: tuple[Transition, ...]
    """Its changes of state, oldest first."""
    measurement: Measurement | None
    """Its figures and verdict; None where it was not measured."""
    image_digest: str | None
    """Digest of the replicas' image; None if unknown."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs under a name."""

    schema: int = SCHEMA
    """Version of the document."""
    name: str
    """Its name."""
    saved_at: float
    """Unix seconds."""
    of: tuple[str, ...]
    """Names given by the user: runs, groups, sets."""
    runs: tuple[KeptRun, ...]
    """Its runs, complete."""

    def as_runs(self) -> list[Run]:
        """Return its runs; their files are not part of it."""
        return [
            Run(
                plan=kept.plan,
                created_at=kept.created_at,
                owner=None,
                history=kept.history,
                artifacts=None,
                artifacts_missing=f"They are of the baseline {self.name}.",
                measurement=kept.measurement,
                image_digest=kept.image_digest,
            )
            for kept in self.runs
        ]


def kept(run: Run) -> KeptRun:
    """Return a baseline's copy of a run."""
    return KeptRun(
        plan=run.plan,
        created_at=run.created_at,
        history=run.history,
        measurement=run.measurement,
        image_digest=run.image_digest,
    )

"""Sweeps over batch sizes: runs of one set that differ in nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from k8sbench.model.phase import Phase
from k8sbench.model.run import Run

GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
"""Cause id of a job whose program had too little GPU memory."""


def is_out_of_memory(run: Run) -> bool:
    """Return True if a run lacked GPU memory and has no figure.

    One that failed after its window, such as in an evaluation, has a figure.
    """
    is_measured = run.measurement is not None
    end = run.history[-1]
    return end.phase is Phase.FAILED and end.cause_id == GPU_OUT_OF_MEMORY and not is_measured


def without_memory(runs: Sequence[Run]) -> frozenset[str]:
    """Return the runs out of GPU memory that are results.

    A batch size that does not fit is a result once another size of its sweep was measured.
    """
    out = [run for run in runs if is_out_of_memory(run)]
    if not out:
        return frozenset()
    sizes: defaultdict[tuple[object, ...], set[int]] = defaultdict(set)
    for run in runs:
        if run.measurement is not None:
            sizes[run.group_key.sweep].add(run.plan.batch_size)
    return frozenset(
        run.run_id for run in out if sizes[run.group_key.sweep] - {run.plan.batch_size}
    )

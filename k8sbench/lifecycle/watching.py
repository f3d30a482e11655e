"""Watching a run that another process follows: by its record, which that process keeps up."""

from __future__ import annotations

from collections.abc import Callable

from k8sbench.lifecycle import gathering, records
from k8sbench.lifecycle.context import Reporter, Stop
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, Store

LOOK_SECONDS = 0.5
"""Between two looks at the record."""
GPU_METRICS_SECONDS = 150.0
"""After a run was closed, for the process that followed it to fetch its GPU metrics: two of an
exporter's usual intervals, and what it gives a source to answer."""


def watch_record(
    store: Store,
    run: Run,
    reporter: Reporter,
    stop: Stop,
    *,
    refreshed: Callable[[str], Run],
    sleep: Callable[[float], None],
) -> Run:
    """Report a run's further changes of state until it is closed, or at a stop; returns it then.

    ``refreshed`` reads the run anew, and sees when the process that follows it is gone.
    """
    reported = len(run.history)
    while True:
        for transition in run.history[reported:]:
            reporter.on_event(run, JobEvent(run_id=run.run_id, transition=transition))
        reported = len(run.history)
        if is_closed(run) or stop.cause is not None:
            return run
        if run.plan.backend == "kubernetes" and store.claims.claim(run.run_id):
            # No process follows it any more.
            return store.run(run.run_id)
        sleep(LOOK_SECONDS)
        run = refreshed(run.run_id)


def watch_gpu_metrics(
    store: Store,
    run: Run,
    stop: Stop,
    *,
    left: Callable[[], float],
    sleep: Callable[[float], None],
) -> Run:
    """Wait until a closed run's record has the GPU metrics that are owed; returns it then.

    It may lack them where the process that fetches them is gone, where no time is ``left``, in
    seconds (that process may hang), or at a stop.
    """
    is_attended = True
    while is_attended and gathering.is_owed(run) and stop.cause is None and left() > 0:
        # This first and the record after it: it may be completed, and left, in between.
        is_attended = gathering.is_attended(store, run.run_id)
        if is_attended:
            sleep(LOOK_SECONDS)
        run = store.run(run.run_id)
    return run


def is_closed(run: Run) -> bool:
    """Whether nothing more is to come of a run."""
    return run.phase.final and not records.is_unmeasured(run)

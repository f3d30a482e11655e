"""``k8sbench cancel``: end a run that goes on; its logs are kept."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import click

from k8sbench.cli import clusters
from k8sbench.cli.clusters import Access, access_options
from k8sbench.cli.commands import reading, watch
from k8sbench.cli.commands.submit import opened_store
from k8sbench.cli.terminal import output, progress
from k8sbench.model.errors import Interrupted, UsageError
from k8sbench.model.run import Run
from k8sbench.runs import collecting
from k8sbench.runs.following import Manner

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore

CAUSE, CAUSE_ID = "Cancelled by k8sbench cancel.", "cancelled"


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@access_options
@reading.store_option
def command(runs: tuple[str, ...], access: Access, where: str | None) -> None:
    """End runs that go on.

    The job is deleted from the cluster when its logs are archived; a local run's processes are
    ended by the k8sbench that started them. A run that is over stays as it is.
    """
    with opened_store(where) as store:
        for run_id in clusters.ids_of(store, runs, access):
            run = store.run(run_id)
            if run.phase.final:
                output.note(f"Run {run.run_id} is {run.phase} already.")
                continue
            end(store, run, access)


def end(store: SqlStore, run: Run, access: Access) -> Run:
    """Cancel a run and wait for its end."""
    if run.plan.backend == "local":
        _end_process(run)
        run = watch.follow(store, run, access, Manner())
    elif store.claims.claim(run.run_id):
        run = _end_job(store, run, access)
    else:
        # Whoever follows it archives its logs and closes it.
        with clusters.cluster_of(run, access) as cluster:
            cluster.cancel(run.run_id, CAUSE, CAUSE_ID)
        run = watch.follow(store, run, access, Manner())
    output.note(f"Run {run.run_id} is {run.phase}. {run.history[-1].cause}")
    return run


def _end_job(store: SqlStore, run: Run, access: Access) -> Run:
    with (
        clusters.cluster_of(run, access, store=store) as cluster,
        clusters.stopping() as stop,
        progress.telling() as tell,
    ):
        world = clusters.world(store, cluster, location=run.location)
        closed = collecting.cancel(run, world, tell, stop, CAUSE, CAUSE_ID)
    if closed is None:
        raise Interrupted(
            f"{stop.cause}: whether {run.run_id} ends was not waited for.",
            f"See: k8sbench status {run.run_id}",
        )
    return closed


def _end_process(run: Run) -> None:
    owner, alive = run.owner, reading.alive()
    if owner is None or not alive(owner):
        raise UsageError(
            f"Run {run.run_id} runs on another machine"
            + (f" ({owner.host})." if owner is not None else "."),
            "End it there.",
        )
    os.kill(owner.pid, signal.SIGTERM)

"""``k8sbench watch``: follow a run that was submitted before, to its row."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from k8sbench.cli import clusters
from k8sbench.cli.clusters import Access, access_options
from k8sbench.cli.commands import reading, results
from k8sbench.cli.commands.submit import exit_code, opened_store, worst
from k8sbench.cli.terminal import output, progress
from k8sbench.model.errors import REJECTED_EXIT_CODE, Interrupted
from k8sbench.model.run import Run
from k8sbench.runs import collecting, records, shadowing
from k8sbench.runs.following import Manner

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--keep", is_flag=True, help="Leave job and pods on the cluster at the end.")
@click.option("--wait", is_flag=True, help="Wait even for what cannot come by itself.")
@reading.rows_option
@access_options
@reading.store_option
def command(run: str, keep: bool, wait: bool, form: str, access: Access, where: str | None) -> int:
    """Follow a run to its end and print its row.

    RUN is a run id or a unique beginning of one. A run that another k8sbench follows is watched by
    its record. Ctrl-C leaves the run alone. Exit codes are those of submit.
    """
    with opened_store(where) as store:
        found = clusters.run_of(store, run, access)
        found = follow(store, found, access, Manner(keep=keep, wait=wait))
        codes = [exit_code(found)]
        if results.print_runs(store, [found.run_id], form):
            codes.append(REJECTED_EXIT_CODE)
    return worst(codes)


def follow(store: SqlStore, run: Run, access: Access, manner: Manner) -> Run:
    """Follow a run until it is closed, whoever follows it; an interrupt is an error."""
    with clusters.stopping() as stop, progress.telling() as tell:
        while not shadowing.is_closed(run) and stop.cause is None:
            if run.plan.backend == "kubernetes" and store.claims.claim(run.run_id):
                with clusters.cluster_of(
                    run, access, keep=manner.keep, store=store, say=tell.note
                ) as cluster:
                    world = clusters.world(store, cluster, location=run.location)
                    taken = collecting.collect([run], world, tell, stop, manner, follow=True)
                    run = (taken.closed or taken.going_on)[0]
            else:
                tell.planned(run)
                run = shadowing.shadow(
                    store,
                    run,
                    tell,
                    stop,
                    refreshed=lambda run_id: records.find(
                        store, run_id, alive=reading.alive(), now=reading.now()
                    ),
                    sleep=time.sleep,
                )
    if stop.cause is not None and not shadowing.is_closed(run):
        raise Interrupted(
            f"{stop.cause}: {run.run_id} goes on; it is {run.phase}.",
            f"Come back with: k8sbench watch {run.run_id}",
        )
    if stop.cause is not None:
        output.note(f"{stop.cause}")
    return run

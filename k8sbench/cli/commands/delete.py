"""``k8sbench delete``: take a run's job, pods and ConfigMap off the cluster."""

from __future__ import annotations

import click

from k8sbench.cli import clusters
from k8sbench.cli.clusters import Access, access_options
from k8sbench.cli.commands import cancel, reading
from k8sbench.cli.commands.submit import opened_store
from k8sbench.cli.terminal import output


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@access_options
@reading.store_option
def command(runs: tuple[str, ...], access: Access, where: str | None) -> None:
    """Delete what runs have left on the cluster; their records and logs stay.

    A run that goes on is cancelled first. Only what k8sbench created is deleted.
    """
    with opened_store(where) as store:
        for run_id in clusters.ids_of(store, runs, access):
            run = store.run(run_id)
            if run.plan.backend == "kubernetes" and not run.phase.final:
                cancel.end(store, run, access)
            with clusters.cluster_of(run, access) as cluster:
                why = cluster.remove(run.run_id)
            output.note(
                f"Run {run.run_id} has nothing on the cluster any more."
                if why is None
                else f"Run {run.run_id} stays on the cluster: {why}"
            )

"""``k8sbench cancel`` and ``k8sbench delete``: end runs, delete their objects."""

from __future__ import annotations

import click

from k8sbench.app import follow
from k8sbench.cli.options import access_options, store_option
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import reporter
from k8sbench.model.request import ClusterAccess


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@access_options
@store_option
def command(runs: tuple[str, ...], access: ClusterAccess, where: str | None) -> None:
    """Cancel runs that have not ended.

    The job is deleted from the cluster when its logs are archived; a local run's processes are
    ended by the k8sbench that started them. A run that has ended is not changed.
    """
    with reporter.reporting() as progress:
        follow.cancel(runs, where, access, progress, SignalStop())


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@access_options
@store_option
def delete_command(runs: tuple[str, ...], access: ClusterAccess, where: str | None) -> None:
    """Delete the objects of runs on the cluster.

    A run that has not ended is cancelled first. Only what k8sbench created is deleted. The records
    and logs in the store stay.
    """
    with reporter.reporting() as progress:
        follow.delete(runs, where, access, progress, SignalStop())

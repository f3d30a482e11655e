"""``k8sbench collect``: fetch and measure what detached and interrupted runs left on a cluster."""

from __future__ import annotations

import click

from k8sbench.cli import clusters
from k8sbench.cli.clusters import Access, access_options
from k8sbench.cli.commands import reading, results
from k8sbench.cli.commands.submit import exit_code, opened_store, worst
from k8sbench.cli.terminal import output, progress
from k8sbench.model.errors import REJECTED_EXIT_CODE, Interrupted, UsageError
from k8sbench.model.run import Location, Run
from k8sbench.ports import Store
from k8sbench.runs import collecting, unrecorded
from k8sbench.runs.collecting import Taken
from k8sbench.runs.following import Manner
from k8sbench.runs.world import Reporter, World


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every run of the namespace that is still owed.")
@click.option("-f", "--follow", is_flag=True, help="Wait for those that are not over.")
@click.option("--keep", is_flag=True, help="Leave jobs and pods on the cluster.")
@click.option("--wait", is_flag=True, help="Wait even for what cannot come by itself.")
@click.option(
    "--accept", multiple=True, metavar="REASON", help="Overrule a rejection by its id; marked."
)
@reading.rows_option
@access_options
@reading.store_option
def command(
    runs: tuple[str, ...],
    every: bool,
    follow: bool,
    keep: bool,
    wait: bool,
    accept: tuple[str, ...],
    form: str,
    access: Access,
    where: str | None,
) -> int:
    """Archive the logs of runs that are over, measure them and print their rows.

    Works with nothing but the cluster: jobs of other people's stores are taken up by their own
    annotations. Again is harmless. Ctrl-C leaves the jobs alone. Exit codes are those of submit.
    """
    if every == bool(runs):
        raise UsageError("Name runs, or all of them with --all.", "k8sbench list shows the runs.")
    manner = Manner(keep=keep, wait=wait)
    with opened_store(where) as store:
        taken = Taken()
        for location, names in _by_location(store, runs, access).items():
            api = clusters.of_location(location, access) if location else clusters.connect(access)
            clusters.say_if_silent(api)
            with (
                clusters.opened(api, keep=keep, store=store) as cluster,
                clusters.stopping() as stop,
                progress.telling() as tell,
            ):
                world = clusters.world(store, cluster, location=api.place, accept=accept)
                wanted = [store.run(name) for name in names] if runs else _every(world, tell)
                for run in wanted:
                    if collecting.owed(run):
                        collecting.check_place(run, cluster, api.place)
                some = collecting.collect(wanted, world, tell, stop, manner, follow=follow)
                taken.closed += some.closed
                taken.going_on += some.going_on
                taken.followed += some.followed
            if stop.cause is not None:
                break
        for run in taken.going_on:
            output.note(f"  {run.run_id} goes on; wait for it with --follow")
        for run in taken.followed:
            output.note(f"  {run.run_id} is followed by another k8sbench process: left to it")
        if every and not (taken.closed or taken.going_on or taken.followed):
            output.note("Nothing is owed here.")
        codes = [exit_code(run) for run in taken.closed]
        shown = [run.run_id for run in taken.closed]
        # Data is whole also where there is none.
        printed = shown or form in {"json", "csv"}
        if printed and results.print_runs(store, shown, form, accept=accept):
            codes.append(REJECTED_EXIT_CODE)
    if stop.cause is not None and taken.going_on:
        raise Interrupted(
            f"{stop.cause}: {len(taken.going_on)} of the runs go on.",
            "Come back with the same command.",
        )
    return worst(codes)


def _by_location(
    store: Store, runs: tuple[str, ...], access: Access
) -> dict[Location | None, list[str]]:
    """Sort the named runs by the cluster they are on; None: the one of the command line."""
    if not runs:
        return {None: []}
    locations: dict[Location | None, list[str]] = {}
    for text in runs:
        run = clusters.run_of(store, text, access)
        if run.plan.backend != "kubernetes":
            raise UsageError(
                f"Run {run.run_id} is a local one; there is nothing to collect.",
                f"See: k8sbench status {run.run_id}",
            )
        names = locations.setdefault(None if access.named else run.location, [])
        if run.run_id not in names:
            names.append(run.run_id)
    return locations


def _every(world: World, tell: Reporter) -> list[Run]:
    unrecorded.record_all(world, tell.note)
    return collecting.open_runs(world)

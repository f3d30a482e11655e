"""``status``: what was planned of a run, what became of it, what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from k8sbench.app import collectors, connections, context, lookup, stores
from k8sbench.app.stores import Note
from k8sbench.lifecycle import foreign_jobs, records
from k8sbench.lifecycle.records import RunStatus
from k8sbench.model.errors import BenchError, NamedNotThere, NotFound, UsageError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent


def status(text: str, where: str | None, access: ClusterAccess, note: Note) -> RunStatus:
    """Return what is known of a run, recorded or not, and how its job is on the cluster now.

    A run that is not closed here may be so at a collector, which then is what is returned.
    """
    if where == stores.CLUSTER:
        status_there = collectors.run(access, text, note, insist=True)
        assert status_there is not None
        return records.status_elsewhere(status_there)
    with stores.to_read(where, note) as store:
        try:
            run, recorded = lookup.look_up(store, text, access)
        except NotFound:
            if (status_there := collectors.run(access, text, note)) is None:
                raise
            return records.status_elsewhere(status_there)
        if collectors.may_know_more(run):
            there = connections.access_to(run.location, access)
            status_there = collectors.run(there, run.run_id, note)
            if status_there is not None and collectors.knows_more(status_there, run):
                return records.status_elsewhere(status_there)
        reported = _look(run, access, note)
        return records.status(
            store,
            run if recorded else foreign_jobs.as_reported(run, reported),
            alive=context.alive(),
            on_cluster=records.on_cluster(reported, context.now()),
            recorded=recorded,
        )


def _look(run: Run, access: ClusterAccess, note: Note) -> Sequence[JobEvent]:
    """Query the job's state; empty for a final run, or where the cluster does not answer."""
    if run.plan.backend != "kubernetes" or run.phase.final:
        return ()
    from k8sbench.adapters.kubernetes import listing

    try:
        with connections.glimpse_of(run, access) as cluster:
            reported = cluster.look(run)
            unlabelled = None if reported else listing.look_for(cluster.api, run.run_id)[1]
    except BenchError as error:
        if access.named and isinstance(error, UsageError | NamedNotThere):
            raise
        note(f"warning: {error.message} What is shown is on record. {error.action}")
        return ()
    if unlabelled is not None:
        note(f"warning: {unlabelled} What is shown is on record.")
    elif not reported:
        note(
            f"warning: there is no job {run.run_id} on the cluster any more."
            f" Close the run with: k8sbench collect {run.run_id}"
        )
    return reported

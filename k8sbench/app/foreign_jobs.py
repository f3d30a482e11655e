"""Foreign jobs: jobs of a cluster that were submitted from another store.

Their own annotations are enough to look at one. Nothing is recorded by looking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from k8sbench.app import records
from k8sbench.app.records import ListedRun
from k8sbench.model.errors import PlanUnreadable
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Location, Run
from k8sbench.ports import FoundJob, JobEvent, RunFilter

CAUSE = "Known from the cluster alone: this store did not submit it."


def among(jobs: Sequence[FoundJob], known: Collection[str]) -> list[FoundJob]:
    """Return the jobs of which there is no record, oldest first."""
    return [job for job in jobs if job.run_id not in known]


def matching(jobs: Sequence[FoundJob], wanted: RunFilter) -> list[FoundJob]:
    """Return the jobs whose plans match a filter; skip unreadable plans."""
    return [
        job
        for job in jobs
        if (plan := job.known_plan) is not None
        and wanted.fits(plan, job.created_at)
        and wanted.phase in (None, job.phase)
    ]


def named(jobs: Sequence[FoundJob], text: str, known: Sequence[str], where: Location) -> FoundJob:
    """Return the job of an id, or of a unique beginning of one.

    ``known`` are the ids of the store's own runs, which do not match.
    """
    ids = [job.run_id for job in jobs]
    places = f"in the store or in namespace {where.namespace} of {where.server}"
    return jobs[ids.index(records.resolve(ids, text, other_ids=known, where=places))]


def note_unreadable(jobs: Sequence[FoundJob], note: Callable[[str], None]) -> None:
    """Note which jobs are left out because their plans cannot be read."""
    for job in jobs:
        try:
            _ = job.plan
        except PlanUnreadable as wrong:
            note(f"warning: left out: {wrong}")


def as_run(job: FoundJob, where: Location) -> Run:
    """Make of a job the run that it would be in the store."""
    created = Transition(phase=Phase.CREATED, at=job.created_at, cause=CAUSE, job_uid=job.uid)
    return Run(
        plan=job.plan,
        created_at=job.created_at,
        owner=None,
        history=(created,),
        artifacts=None,
        artifacts_missing=CAUSE,
        location=where,
    )


def listed(job: FoundJob, where: Location) -> ListedRun:
    """Take from a job what a list shows."""
    return msgspec.structs.replace(
        records.listed(as_run(job, where)), phase=job.phase, on_cluster=job.phase, recorded=False
    )


def as_reported(run: Run, events: Sequence[JobEvent]) -> Run:
    """Return the run in the state that the cluster reports of its job."""
    reported = [event.transition for event in events if event.transition is not None]
    return msgspec.structs.replace(run, history=(*run.history, *reported))

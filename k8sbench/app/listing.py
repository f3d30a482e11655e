"""``list`` and ``status``: recorded runs, and their jobs' states on the cluster.

The documents of a collector's store, which :mod:`k8sbench.collector` serves, have the same form.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.adapters import processes
from k8sbench.app import (
    catalog,
    collectors,
    connections,
    context,
    lookup,
    records,
    reporting,
    stores,
)
from k8sbench.app.records import ListedRun, RunStatus
from k8sbench.app.stores import Note
from k8sbench.lifecycle import collecting
from k8sbench.measure.group import grouping
from k8sbench.model import creation
from k8sbench.model.counts import counted
from k8sbench.model.errors import BenchError, NamedNotThere, NotFound, UsageError
from k8sbench.model.group import GroupFilter, no_run_of, no_run_together
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.ports import FoundJob, JobEvent, RunFilter, Store
from k8sbench.report import document


def list_runs(
    wanted: RunFilter, where: str | None, access: ClusterAccess, note: Note
) -> list[ListedRun]:
    """Return the runs that match, oldest first, with those of a collector.

    Of a named namespace only its runs, and the foreign jobs there besides. Runs that do not match
    are read as well, as for ``results``: with them it is judged which count.
    """
    insist = where == stores.CLUSTER
    place, jobs = None, list[FoundJob]()
    with stores.to_read(stores.NOWHERE if insist else where, note) as store:
        ours = lookup.listing(store)
        if access.named and not insist:
            with connections.glance(connections.connect(access)) as cluster:
                place, jobs = cluster.api.place, list(cluster.jobs())
        theirs = collectors.runs(access, note, insist=insist, benchmark=wanted.benchmark)
        both, added = collectors.merged(ours, theirs)
        runs = [
            run
            for run in both
            if wanted.fits(run.plan, run.created_at)
            and (place is None or collecting.same_place(run.location, place))
        ]
        # Of a run that the collector has its job is no news.
        still = [run for run in runs if run.run_id not in added]
        _note_wishes(store, still, note)
        alone = [run for run in still if run.location and stores.is_alone(store, run)]
        phases = _on_clusters(alone, note) if place is None else _present(alone, jobs)
        over = [run_id for run_id, phase in phases.items() if phase.final]
        if over:
            note(f"{_are(over)} over on the cluster, and not collected: k8sbench collect --all")
        rows = [records.listed(run, on_cluster=phases.get(run.run_id)) for run in runs]
        if place is not None:
            known = {*store.ids(), *added}
            foreign = lookup.foreign_jobs(jobs, known, wanted, note)
            if foreign:
                note(f"{_are(foreign)} not recorded in this store; k8sbench watch records one.")
            rows += [
                records.listed(
                    job.as_run(place),
                    phase=job.phase,
                    on_cluster=job.phase,
                    recorded=False,
                )
                for job in foreign
            ]
        if not rows and place is not None:
            note(f"No run matches in namespace {place.namespace} of {place.server}.")
        elif not rows and not insist:
            _check_filters(wanted, both)
            if not store.unreadable:
                stores.note_empty(store, note)
    return sorted(judged(rows, both), key=lambda row: row.created_at)


def judged(rows: Sequence[ListedRun], among: Iterable[Run]) -> list[ListedRun]:
    """Give rows the verdicts that ``results`` shows.

    A run may be valid by itself and still be rejected within its group.
    """
    rejected = {
        member.run_id: tuple(reason.id for reason in member.reasons)
        for group in grouping.groups(among)
        for member in group.members
        if member.verdict == "rejected"
    }
    return [
        msgspec.structs.replace(
            row, verdict="rejected", reasons=rejected[row.run_id], throughput=None, unit=None
        )
        if row.run_id in rejected and row.phase.final
        else row
        for row in rows
    ]


def _check_filters(wanted: RunFilter, every: Sequence[Run]) -> None:
    """Reject filters that none of some runs fits, and name the nearest values."""
    if wanted.set_name is not None:
        records.check_set(wanted.set_name, [run.plan.set_name for run in reversed(every)])
    if not every:
        return
    names = sorted({run.plan.benchmark for run in every})
    if wanted.benchmark is not None and wanted.benchmark not in names:
        raise no_run_of("benchmark", wanted.benchmark, names)
    raise no_run_together(wanted.since, max(run.created_at for run in every))


def _note_wishes(store: Store, runs: Sequence[Run], note: Note) -> None:
    """Note pending cancellations and deletions that no process carries out."""
    if wished := [run for run in runs if run.wishes and stores.is_unclaimed(store, run)]:
        note(f"{_are(wished)} still to be cancelled or deleted: k8sbench collect --all")


def _on_clusters(alone: Sequence[Run], note: Note) -> dict[str, Phase]:
    """Query the phases of runs that no process follows.

    Runs on unreachable clusters are missing from the result.
    """
    phases: dict[str, Phase] = {}
    for location in dict.fromkeys(run.location for run in alone):
        assert location is not None
        there = [run for run in alone if run.location == location]
        try:
            with connections.glance(connections.connect(ClusterAccess(), location)) as cluster:
                place, jobs = cluster.api.place, cluster.jobs()
        except BenchError as error:
            note(f"warning: {_are(there)} shown as last seen: {error.message}")
            continue
        # By another URL it may be the same cluster or not: a job that is not found is not lost.
        if not collecting.same_place(location, place):
            seen = {job.run_id for job in jobs}
            if unseen := [run for run in there if run.run_id not in seen]:
                note(
                    f"warning: {_are(unseen)} shown as last seen: submitted to {location.server},"
                    f" and that kubeconfig now leads to {place.server}."
                )
            there = [run for run in there if run.run_id in seen]
        phases |= _present(there, jobs)
    return phases


def _present(runs: Sequence[Run], jobs: Sequence[FoundJob]) -> dict[str, Phase]:
    """Return job phases by run.

    A run whose job may never have been created does not count as lost.
    """
    phases = {job.run_id: job.phase for job in jobs}
    return {
        run.run_id: phases.get(run.run_id, Phase.LOST)
        for run in runs
        if run.run_id in phases or creation.is_known_created(run)
    }


def _are(runs: Sized) -> str:
    return counted(len(runs), "run", ("is", "are"))


def status(text: str, where: str | None, access: ClusterAccess, note: Note) -> RunStatus:
    """Return the record of a run and its job's current state.

    The run need not be recorded. If it is open here but closed at a collector, the collector's
    record is returned.
    """
    with stores.run_seen(text, where, access, note) as (store, run, recorded, _):
        if run.source == collectors.SOURCE:
            return records.status(None, run)
        seen, reported = run, _look(run, access, note)
        if not recorded:
            steps = [event.transition for event in reported if event.transition is not None]
            seen = msgspec.structs.replace(run, history=(*run.history, *steps))
        return records.status(
            *(store, seen),
            alive=processes.alive,
            on_cluster=records.on_cluster(reported, context.now()),
            recorded=recorded,
        )


def _look(run: Run, access: ClusterAccess, note: Note) -> Sequence[JobEvent]:
    """Query a job's state.

    Returns no events for a final run, or if the cluster does not answer.
    """
    if run.plan.backend != "kubernetes" or run.phase.final:
        return ()
    try:
        with connections.glance(connections.of_run(run, access), run) as cluster:
            reported = cluster.look(run)
    except BenchError as error:
        if access.named and isinstance(error, UsageError | NamedNotThere):
            raise
        note(f"warning: {error.message} What is shown is on record. {error.action}")
        return ()
    if not reported:
        note(
            f"warning: there is no job {run.run_id} on the cluster any more."
            f" Close the run with: k8sbench collect {run.run_id}"
        )
    return reported


# -- documents of a collector's store, in the form that the CLI prints -----------------------------


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a run's folder."""

    schema: int = SCHEMA
    """Version of the document."""
    name: str
    """Path below the folder."""
    bytes: int
    """Size of the file."""
    written_at: float
    """Unix seconds."""


def runs(store: Store, query: Mapping[str, str]) -> list[ListedRun] | list[RunStatus]:
    """Return the newest runs that match, oldest first; ``detail=status`` with all there is.

    There are at most :data:`.records.PAGE`; those before them are asked for with ``until``.
    """
    matching = store.runs(_filter(query))
    if query.get("detail") == "status":
        return [records.status(store, run) for run in matching]
    return judged([records.listed(run) for run in matching], store.runs(RunFilter()))


def run(store: Store, text: str) -> RunStatus:
    """Return the run of an id, or of a unique beginning of one."""
    return records.status(store, _find(store, text))


def groups(store: Store, query: Mapping[str, str]) -> Any:
    """Return the rows of ``results -o json``."""
    report = _report(store, query)
    return document.document(report.results, report.parities)


def page(where: str | None, store: Store, query: Mapping[str, str]) -> str:
    """Return the page of ``results -o html``; ``lang=zh`` in Chinese."""
    from k8sbench.app import results

    lang = query.get("lang", "en")
    if lang not in ("en", "zh"):
        raise UsageError(f"lang={lang} is none.", "Ask for en or zh.")
    return results.page(_report(store, query), (), where, lambda _: None, lang=lang)


def _report(store: Store, query: Mapping[str, str]) -> reporting.Report:
    asked = _filter(query)
    wanted = reporting.Wanted(
        chosen=GroupFilter(benchmark=asked.benchmark, framework=asked.framework),
        set_name=asked.set_name,
        since=asked.since,
        every=query.get("all") == "true",
    )
    find = catalog.finder(store, lambda _: None)
    return reporting.report(store.runs(RunFilter()), wanted, find=find)


def artifacts(store: Store, text: str) -> list[Artifact]:
    """List the files of a run's folder."""
    folder = store.folder(_find(store, text).run_id)
    names = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            about = path.stat()
            name = path.relative_to(folder).as_posix()
            names.append(Artifact(name=name, bytes=about.st_size, written_at=about.st_mtime))
    return names


def artifact(store: Store, text: str, name: str) -> Path:
    """Return a file of a run's folder, and never one that is elsewhere."""
    folder = store.folder(_find(store, text).run_id).resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise NotFound(f"Run {text} has no artifact {name!r}.")
    return path


def room(where: str | None) -> tuple[int, int]:
    """Return a store's size and its disk's free space in bytes."""
    with stores.to_read(where, lambda _: None) as store:
        root = store.root
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files), shutil.disk_usage(root).free


def _find(store: Store, text: str) -> Run:
    return store.run(records.resolve(store.ids(), text, where="in the collector's store"))


def _filter(query: Mapping[str, str]) -> RunFilter:
    """Read a query; what it says besides is ignored."""
    given = {"limit": records.PAGE, "set_name": query.get("set"), **query}
    try:
        wanted = msgspec.convert(given, RunFilter, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"The query cannot be read: {error}.") from error
    return msgspec.structs.replace(wanted, limit=min(wanted.limit or records.PAGE, records.PAGE))

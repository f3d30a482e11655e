"""Documents of a collector's store, in the form that the CLI prints."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.app import catalog, listing, records, reporting, stores
from k8sbench.app.records import ListedRun, RunStatus
from k8sbench.model.errors import NotFound, UsageError
from k8sbench.model.group import GroupFilter
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.phase import Phase
from k8sbench.model.run import Baseline, Run
from k8sbench.ports import RunFilter, Store
from k8sbench.report import document

MOST = 1e11
"""Largest number of seconds in a query; more must be milliseconds."""


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


def runs(where: str | None, query: Mapping[str, str]) -> list[ListedRun] | list[RunStatus]:
    """Return the newest runs that match, oldest first; ``detail=status`` with all there is.

    There are at most :data:`.records.PAGE`; those before them are asked for with ``until``.
    """
    with stores.to_read(where, lambda _: None) as store:
        matching = store.runs(_filter(query))
        if query.get("detail") == "status":
            return [records.status(store, run) for run in matching]
        rows = [records.listed(run) for run in matching]
        return listing.judged(rows, store.runs(RunFilter()))


def run(where: str | None, text: str) -> RunStatus:
    """Return the run of an id, or of a unique beginning of one."""
    with stores.to_read(where, lambda _: None) as store:
        return records.status(store, _find(store, text))


def groups(where: str | None, query: Mapping[str, str]) -> Any:
    """Return the rows of ``results -o json``."""
    report = _report(where, query)
    return document.document(report.results, report.parities)


def page(where: str | None, query: Mapping[str, str]) -> str:
    """Return the page of ``results -o html``; ``lang=zh`` in Chinese."""
    from k8sbench.app import results

    lang = query.get("lang", "en")
    if lang not in ("en", "zh"):
        raise UsageError(f"lang={lang} is none.", "Ask for en or zh.")
    return results.page(_report(where, query), (), where, lambda _: None, lang=lang)


def _report(where: str | None, query: Mapping[str, str]) -> reporting.Report:
    wanted = reporting.Wanted(
        chosen=GroupFilter(benchmark=query.get("benchmark"), framework=query.get("framework")),
        set_name=query.get("set"),
        since=_number(query, "since"),
        every=query.get("all") == "true",
    )
    with stores.to_read(where, lambda _: None) as store:
        return reporting.report(
            store.runs(RunFilter()), wanted, find=catalog.finder(store, lambda _: None)
        )


def baselines(where: str | None) -> list[Baseline]:
    """Return the baselines, with their runs."""
    with stores.to_read(where, lambda _: None) as store:
        return store.baselines()


def artifacts(where: str | None, text: str) -> list[Artifact]:
    """List the files of a run's folder."""
    with stores.to_read(where, lambda _: None) as store:
        folder = store.folder(_find(store, text).run_id)
    names = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            about = path.stat()
            name = path.relative_to(folder).as_posix()
            names.append(Artifact(name=name, bytes=about.st_size, written_at=about.st_mtime))
    return names


def artifact(where: str | None, text: str, name: str) -> Path:
    """Return a file of a run's folder, and never one that is elsewhere."""
    with stores.to_read(where, lambda _: None) as store:
        folder = store.folder(_find(store, text).run_id).resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise NotFound(f"Run {text} has no artifact {name!r}.")
    return path


def latest(where: str | None, most: int) -> list[Run]:
    """Return the newest runs that are over, oldest first."""
    with stores.to_read(where, lambda _: None) as store:
        return [run for run in store.runs(RunFilter(limit=most)) if run.phase.final]


def room(where: str | None) -> tuple[int, int]:
    """Return a store's size and its disk's free space in bytes."""
    with stores.to_read(where, lambda _: None) as store:
        root = store.root
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files), shutil.disk_usage(root).free


def _find(store: Store, text: str) -> Run:
    return store.run(records.resolve(store.ids(), text, where="in the collector's store"))


def _filter(query: Mapping[str, str]) -> RunFilter:
    phase = query.get("phase")
    if phase is not None and phase not in set(Phase):
        raise UsageError(f"There is no phase {phase!r}.", f"Phases: {', '.join(Phase)}.")
    limit = _number(query, "limit", least=1, of="runs")
    return RunFilter(
        benchmark=query.get("benchmark"),
        framework=query.get("framework"),
        set_name=query.get("set"),
        since=_number(query, "since"),
        until=_number(query, "until"),
        phase=None if phase is None else Phase(phase),
        limit=records.PAGE if limit is None else int(min(limit, records.PAGE)),
    )


def _number(
    query: Mapping[str, str], name: str, *, least: float = 0.0, of: str = "Unix seconds"
) -> float | None:
    if (text := query.get(name)) is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= MOST:
        raise UsageError(
            f"{name}={text!r} is not a number of {of}.", f"Give one from {least:g} to {MOST:g}."
        )
    return number

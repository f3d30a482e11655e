"""Documents of the operator's store, in the form that the CLI prints."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.app import catalog, stores
from k8sbench.app import report as reports
from k8sbench.app.runs import judged, log_files
from k8sbench.measure.group import selection
from k8sbench.model.errors import NotFound, UsageError
from k8sbench.model.group import GroupFilter
from k8sbench.model.identity import resolve
from k8sbench.model.kube import MOST_RUNS
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.run import Run
from k8sbench.ports import RunFilter, Store
from k8sbench.report import document, run_document
from k8sbench.report.run_document import ListedRun, RunStatus


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

    There are at most :data:`MOST_RUNS`; those before them are asked for with ``until``.
    """
    matching = store.runs(_filter(query))
    if query.get("detail") == "status":
        return [_recorded(store, run) for run in matching]
    return judged([run_document.listed(run) for run in matching], store.runs(RunFilter()))


def run(store: Store, text: str) -> RunStatus:
    """Return the run of an id, or of a unique beginning of one."""
    return _recorded(store, _find(store, text))


def _recorded(store: Store, run: Run) -> RunStatus:
    return run_document.status(run, log_files=log_files(store, run))


def groups(store: Store, query: Mapping[str, str]) -> Any:
    """Return the rows of ``results -o json``."""
    report = _report(store, query)
    return document.document(report.results, report.parities)


def page(where: str | None, store: Store, query: Mapping[str, str]) -> str:
    """Return the page of ``results -o html``; ``lang=zh`` in Chinese."""
    lang = query.get("lang", "en")
    if lang not in ("en", "zh"):
        raise UsageError(f"lang={lang} is none.", "Ask for en or zh.")
    report = _report(store, query, published=True)
    members = [member for row in report.results for member in row.group.members]
    files = {member.run_id: _files(store, member.run_id) for member in members}
    return reports.page(report, (), where, lambda _: None, lang=lang, files=files)


def _files(store: Store, run_id: str) -> list[str]:
    """List the manifest and the logs of a run's folder."""
    folder = store.folder(run_id)
    paths = [folder / "manifest.yaml", *store.log_files(run_id)]
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]


def _report(store: Store, query: Mapping[str, str], *, published: bool = False) -> selection.Report:
    asked = _filter(query)
    wanted = selection.Wanted(
        chosen=GroupFilter(benchmark=asked.benchmark, framework=asked.framework),
        set_name=asked.set_name,
        since=asked.since,
        every=query.get("all") == "true",
    )
    find = catalog.finder(store, lambda _: None)
    return selection.report(store.runs(RunFilter()), wanted, find=find, published=published)


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
    with stores.to_read(where, lambda _: None, is_operator=True) as store:
        root = store.root
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files), shutil.disk_usage(root).free


def _find(store: Store, text: str) -> Run:
    return store.run(resolve(store.ids(), text, where="in the operator's store"))


def _filter(query: Mapping[str, str]) -> RunFilter:
    """Read a query; what it says besides is ignored."""
    given = {"limit": MOST_RUNS, "set_name": query.get("set"), **query}
    try:
        wanted = msgspec.convert(given, RunFilter, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"The query cannot be read: {error}.") from error
    return msgspec.structs.replace(wanted, limit=min(wanted.limit or MOST_RUNS, MOST_RUNS))

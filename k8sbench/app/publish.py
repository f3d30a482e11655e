"""``report``: write the rows of sets as a publishable folder."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from k8sbench.app import catalog, collectors, connections, results, stores
from k8sbench.measure.group import selection
from k8sbench.measure.group.selection import Wanted
from k8sbench.model.errors import UsageError
from k8sbench.model.group import Result
from k8sbench.model.kinds import rank_order
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.report import document, formats, plot, publication
from k8sbench.report.publication import Publication
from k8sbench.report.words import Lang

if TYPE_CHECKING:
    from k8sbench.ports import Store
    from k8sbench.report.plot import Panel

SUMS = "SHA256SUMS"
RESULTS = "results.json"
Content = str | bytes | Path
"""Content of a file: text, bytes, or the path of a file to copy."""


def publish(
    sets: Sequence[str],
    folder: Path,
    where: str | None,
    note: Callable[[str], None],
    *,
    lang: Lang = "en",
    title: str | None = None,
    published: bool = False,
    accept: Collection[str] = (),
    access: ClusterAccess = results.HERE,
) -> Publication:
    """Write a report of some sets, replacing a former report.

    Includes a collector's runs and their logs. Raises :class:`NotFound` for an unknown set, and
    :class:`UsageError` for a set with active runs or a folder with other content.
    """
    from k8sbench import __version__

    results.check_accepted(accept)
    former = _former(folder)
    with (
        stores.with_collector(where, access, note) as (store, runs),
        tempfile.TemporaryDirectory(prefix="k8sbench-logs-") as copies,
    ):
        find = catalog.finder(store, note)
        reports = [
            selection.report(
                runs, Wanted(set_name=name), accept=accept, published=published, find=find
            )
            for name in dict.fromkeys(sets)
        ]
        rows = [result for report in reports for result in report.results]
        by_id = {run.run_id: run for run in runs}
        _check_ended(rows, by_id)

        def copied(run_id: str) -> list[Path]:
            there = connections.access_to(by_id[run_id].location, access)
            found = collectors.copied(there, run_id, Path(copies) / run_id, "logs")
            return sorted(found, key=lambda path: rank_order(path.stem))

        logs, files = _files_of_runs(store, rows, copied)
        charts = None if not plot.is_there() else list(_charts(rows))
        plans = {row.group.key.benchmark: row.group.plan for row in rows}
        made = Publication(
            results=rows,
            runs=by_id,
            specs={name: spec for name, plan in plans.items() if (spec := find(plan)) is not None},
            logs=logs,
            charts=None if charts is None else [(panel.title, path) for path, panel in charts],
            has_published=published,
            sets=list(dict.fromkeys(sets)),
            version=__version__,
            title=title,
            lang=lang,
        )
        parities = [pair for report in reports for pair in report.parities]
        files[publication.README] = publication.readme(made)
        files[RESULTS] = formats.json_text(document.document(rows, parities))
        if text := publication.commands(rows):
            files["commands.sh"] = text
        for path, panel in charts or ():
            files[path] = plot.picture("svg", [panel])
        _write(folder, files, former)
    return made


def _check_ended(rows: Sequence[Result], runs: Mapping[str, Run]) -> None:
    ids = [member.run_id for row in rows for member in row.group.members]
    if going_on := [run_id for run_id in ids if not runs[run_id].is_closed]:
        raise UsageError(
            f"Run {going_on[0]} is not measured yet: it is {runs[going_on[0]].phase}.",
            "Report the set when its runs are over: k8sbench collect --all.",
        )


def _files_of_runs(
    store: Store, rows: Sequence[Result], copied: Callable[[str], list[Path]]
) -> tuple[dict[str, list[str]], dict[str, Content]]:
    """Map report file names to run logs and row manifests.

    ``copied`` copies the logs of a collector's run to this machine.
    """
    names = publication.names([row.group for row in rows])
    logs: dict[str, list[str]] = {}
    files: dict[str, Content] = {}
    for row in rows:
        name = names[row.group.key.id]
        for member in row.group.members:
            is_theirs = member.source == collectors.SOURCE
            if not is_theirs and store.run(member.run_id).artifacts is None:
                continue
            found = copied(member.run_id) if is_theirs else store.log_files(member.run_id)
            paths = [
                f"logs/{path}"
                for path in publication.log_names(row.group, name, member, len(found))
            ]
            logs[member.run_id] = paths
            files |= dict(zip(paths, found, strict=True))
            if is_theirs:
                continue
            manifest = store.folder(member.run_id) / "manifest.yaml"
            if manifest.is_file():
                files.setdefault(f"manifests/{name}.yaml", manifest)
    return logs, files


def _charts(rows: Sequence[Result]) -> Iterator[tuple[str, Panel]]:
    """Make the charts of the rows, each with the path of its file."""
    for kind, panels in (("throughput", plot.bars(rows)), ("scaling", plot.scaling(rows))):
        for number, panel in enumerate(panels, 1):
            yield f"figures/{kind}-{number}.svg", panel


def _former(folder: Path) -> dict[str, str]:
    """Read the former report's files: path → digest.

    Refuses a folder with other content.
    """
    from k8sbench.adapters.store import disk

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file.", "Name a folder, which may be a new one.")
    with disk.translated(f"read {folder}", "-o"):
        there = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
        sums = (folder / SUMS).read_bytes() if SUMS in there else b""
    lines = sums.decode("utf-8", "replace").splitlines()
    former = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
    if {publication.README, RESULTS} <= former.keys():
        return former
    # What begins with a dot, such as .git, stays as it is.
    if other := [name for name in there if name[:1] != "."]:
        raise UsageError(
            f"{folder} holds {other[0]}, and no report of k8sbench.",
            "Name an empty folder, a new one, or one that holds a report.",
        )
    return {}


def _write(folder: Path, files: Mapping[str, Content], former: Mapping[str, str]) -> None:
    """Write all files to a temporary subfolder, then move them."""
    from k8sbench.adapters.store import disk

    with disk.translated(f"write the report {folder}", "-o"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".k8sbench-") as name:
            begun, sums = Path(name), []
            for path, content in sorted(files.items()):
                new = begun / path
                new.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, Path):
                    shutil.copyfile(content, new)
                else:
                    new.write_bytes(content.encode() if isinstance(content, str) else content)
                sums.append(f"{_digest(new)}  {path}\n")
            (begun / SUMS).write_text("".join(sums), "utf-8")
            for path in (*files, SUMS):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (begun / path).replace(folder / path)
        for path in former.keys() - files.keys():
            old = folder / path
            # The file of sums may come from elsewhere; what somebody has edited stays.
            is_below = ".." not in PurePosixPath(path).parts and folder in old.parents
            if is_below and old.is_file() and _digest(old) == former[path]:
                old.unlink()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Results for readers: the publishable folder of ``report``, and the HTML page."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from k8sbench.app import answers, benchmarks, connections, stores
from k8sbench.app.answers import StoresRead
from k8sbench.app.results import check_accepted
from k8sbench.lifecycle.context import Note
from k8sbench.model.errors import (
    BenchError,
    UsageError,
)
from k8sbench.model.group import Result
from k8sbench.model.kinds import rank_order
from k8sbench.model.names import resolve
from k8sbench.model.run import Run
from k8sbench.results.groups import ratios, selection
from k8sbench.results.groups.selection import Wanted

if TYPE_CHECKING:
    from k8sbench.app.report_folder import Content
    from k8sbench.messages import Lang
    from k8sbench.model.group import Group, Member
    from k8sbench.results.groups.selection import Report
    from k8sbench.results.report.plot import History
    from k8sbench.results.report.publication import Publication
    from k8sbench.store.interface import Store


@answers.completed
def publish(
    sets: Sequence[str],
    folder: Path,
    scope: StoresRead,
    note: Note,
    *,
    lang: Lang = "en",
    title: str | None = None,
    published: bool = False,
    environment: Path | None = None,
    notes: Path | None = None,
    force: bool = False,
) -> Publication:
    """Write a report of some sets, replacing a former report.

    An operator's logs are copied. ``environment`` (YAML) and ``notes`` (Markdown) stay in the
    folder and are part of the next report there. Raises :class:`NotFound` for an unknown set, and
    :class:`UsageError` for a set with active runs, a folder with other content, or a file that was
    changed by hand, unless ``force`` is set.
    """
    from k8sbench import __version__
    from k8sbench.app import report_folder
    from k8sbench.results.report import environment as given
    from k8sbench.results.report import publication, readme

    check_accepted(scope.accept)
    former = report_folder.former_files(folder, {publication.README, publication.RESULTS})
    with (
        answers.answering(scope, note, [f"set:{name}" for name in sets]) as answer,
        tempfile.TemporaryDirectory(prefix="k8sbench-logs-") as copies,
    ):
        find = benchmarks.spec_finder(answer.store, note)
        reports = [
            selection.report(answer.groups, Wanted(set_name=name), published=published, find=find)
            for name in dict.fromkeys(sets)
        ]
        rows = [result for report in reports for result in report.results]
        by_id = answer.groups.runs
        _check_ended(rows, by_id)

        def copied(run_id: str) -> list[Path]:
            there = connections.access_to(by_id[run_id].location, scope.access)
            found = stores.operator_files(there, run_id, Path(copies) / run_id, "logs")
            return sorted(found, key=lambda path: rank_order(path.stem))

        given_text, notes_text = (
            report_folder.given(folder / name if path is None else path, is_needed=path is not None)
            for path, name in ((environment, given.FILE), (notes, publication.NOTES))
        )
        logs, files = _files_of_runs(answer.store, rows, copied)
        names = publication.names([row.group for row in rows])
        cases = {row.group.key.benchmark: row.group.facts for row in rows}
        made = publication.Publication(
            results=rows,
            parities=ratios.parities(row.group for row in rows),
            runs=by_id,
            specs={
                name: spec for name, facts in cases.items() if (spec := find(facts)) is not None
            },
            logs=logs,
            charts=publication.charts(rows, _timelines(rows, by_id, logs, files, note), lang),
            has_published=published,
            sets=list(dict.fromkeys(sets)),
            version=__version__,
            title=title,
            lang=lang,
            given_text=given_text,
            given=given.read(
                given_text or "",
                str(environment or folder / given.FILE),
                sets,
                {names[row.group.key.id]: row.group for row in rows},
            ),
            notes=notes_text,
        )
        made_files = publication.files(made, readme.text(made))
        if not force:
            own = {given.FILE, publication.NOTES}
            report_folder.check_unchanged(folder, (files | made_files).keys() - own, former)
        report_folder.write(folder, files | made_files, former)
    return made


def _timelines(
    rows: Sequence[Result],
    runs: Mapping[str, Run],
    logs: Mapping[str, Sequence[str]],
    files: Mapping[str, Content],
    note: Note,
) -> list[History]:
    """Read the throughput over time of each row's last run."""
    chosen = {last(row.group).run_id: row.group.unit for row in rows[:MOST_DRAWN]}
    found = {run_id: [Path(str(files[n])) for n in logs.get(run_id, ())] for run_id in chosen}
    return [
        _timeline(runs[run_id], unit, functools.partial(found.__getitem__, run_id), note)
        for run_id, unit in chosen.items()
        if found[run_id]
    ]


def _check_ended(rows: Sequence[Result], runs: Mapping[str, Run]) -> None:
    ids = [member.run_id for row in rows for member in row.group.members]
    if going_on := [run_id for run_id in ids if not runs[run_id].is_closed]:
        raise UsageError(
            f"Run {going_on[0]} is not measured yet: it is {runs[going_on[0]].phase}.",
            "Report the set when its runs are over: k8sbench collect --all.",
        )


def _files_of_runs(
    store: Store | None, rows: Sequence[Result], copied: Callable[[str], list[Path]]
) -> tuple[dict[str, list[str]], dict[str, Content]]:
    """Map report file names to run logs and row manifests.

    ``copied`` copies the logs of an operator's run, which no ``store`` has, to this machine.
    """
    from k8sbench.results.report import publication

    names = publication.names([row.group for row in rows])
    logs: dict[str, list[str]] = {}
    files: dict[str, Content] = {}
    for row in rows:
        name = names[row.group.key.id]
        for member in row.group.members:
            found = copied(member.run_id) if store is None else store.log_files(member.run_id)
            paths = publication.log_names(row.group, name, member, len(found))
            logs[member.run_id] = paths
            files |= dict(zip(paths, found, strict=True))
            manifest = None if store is None else store.folder(member.run_id) / "manifest.yaml"
            if manifest is not None and manifest.is_file():
                files.setdefault(f"manifests/{name}.yaml", manifest)
    return logs, files


MOST_DRAWN = 20
"""Maximum number of run charts of a report; each takes 0.1 s or more."""


def timelines(
    report: Report, named: Collection[str], where: str | None, note: Note
) -> list[History]:
    """Read run timelines for charts.

    These are the named runs, else the last run of each row, newest first. Raises :class:`NotFound`
    for a named run that is in no row. An operator's timelines are only on its own page, because
    only the operator has their data.
    """
    from k8sbench.results.report.page_content import MOST_HISTORIES

    groups = [row.group for row in report.results]
    units = {member.run_id: group.unit for group in groups for member in group.members}
    chosen = {resolve(sorted(units), text) for text in named} or {
        last(group).run_id for group in groups
    }
    every = (member for group in groups for member in group.members)
    here = (one for one in every if one.run_id in chosen and one.source != stores.SOURCE)
    newest = sorted(here, key=lambda run: -run.created_at)[:MOST_HISTORIES]
    if not newest:
        return []
    with stores.open_readonly(where, note) as store:
        runs: list[Run] = []
        for member in newest:
            run = store.read_run(member.run_id)
            if run is None:
                why = store.unreadable.get(member.run_id, "it was removed.")
                note(f"warning: without the steps of {member.run_id}: {why}")
            else:
                runs.append(run)
        return [
            _timeline(run, units[run.run_id], functools.partial(store.log_files, run.run_id), note)
            for run in runs
        ]


def last(group: Group) -> Member:
    """Return the last run of a group that counts; else the last one."""
    return max(group.members, key=lambda run: (run.rate is not None, run.created_at))


def page(
    report: Report,
    named: Collection[str],
    where: str | None,
    note: Note,
    *,
    lang: Lang = "en",
    title: str | None = None,
    files: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Render a report as a page, with a timeline per row.

    ``files`` are the paths of each run's files below ``api/v1/runs/RUN/artifacts``, if the page has
    links to them.
    """
    from k8sbench import __version__
    from k8sbench.results.report import page
    from k8sbench.results.report.page_content import Page

    return page.html(
        Page(
            results=report.results,
            parities=report.parities,
            histories=timelines(report, named, where, note),
            series=report.series,
            compared=report.compared,
            begins=report.begins,
            files=files or {},
            at=connections.now(),
            version=__version__,
            lang=lang,
            title=title,
        )
    )


def _timeline(run: Run, unit: str, logs: Callable[[], Sequence[Path]], note: Note) -> History:
    """Read a run's throughput over time; without a curve, and a note, if unreadable."""
    from k8sbench.reader import log_files
    from k8sbench.reader.measuring import recorded
    from k8sbench.results.report.plot import History

    curve = None
    try:
        lines = itertools.chain.from_iterable(
            log_files.opened({str(path): path.name for path in logs()[:1]})
        )
        curve = recorded.curve(run.plan, lines)
    except BenchError as error:
        note(f"warning: without the steps of {run.run_id}: {error}")
    return History(run_id=run.run_id, unit=unit, measured=run.measurement, curve=curve)

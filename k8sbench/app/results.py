"""``results``, ``report``, ``explain``, ``compare``, ``history``, ``baseline``, and the page.

Rows and sets side by side, as a publishable folder, or as one HTML file.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import benchmarks, connections, stores
from k8sbench.app.known_groups import GivenRuns, StoredGroups
from k8sbench.app.stores import StoresRead
from k8sbench.lifecycle.context import Note
from k8sbench.measure.group import causes, comparison, ratios, selection, series, sides
from k8sbench.measure.group import history as over_time
from k8sbench.measure.group.comparison import Held
from k8sbench.measure.group.selection import Wanted
from k8sbench.model.errors import (
    FIRST_RUN,
    FORMER_IDS,
    BenchError,
    NotFound,
    UsageError,
    did_you_mean,
)
from k8sbench.model.group import EVERY, GroupFilter, Result, no_run_together
from k8sbench.model.identity import checked_set_name, resolve
from k8sbench.model.kinds import rank_order
from k8sbench.model.plain_text import counted
from k8sbench.model.run import Baseline, Run, kept_run
from k8sbench.model.series import AcceptedLevel, Line
from k8sbench.report import group_words
from k8sbench.report.document import BaselineInfo, baseline_info

if TYPE_CHECKING:
    from k8sbench.adapters.files.report_folder import Content
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.measure.group.selection import Report
    from k8sbench.model.compared import CaseChange, CaseHistory, Comparison
    from k8sbench.model.group import Group, GroupRow, Member
    from k8sbench.ports import GroupedStore, ServedGroups, Store
    from k8sbench.report.explanation import Row
    from k8sbench.report.plot import History
    from k8sbench.report.publication import Publication
    from k8sbench.report.words import Lang


class RunRows(msgspec.Struct, frozen=True, kw_only=True):
    """Finished runs and the rows of their groups."""

    runs: tuple[Run, ...]
    report: Report
    rejected: frozenset[str]
    """Ids of invalid runs, including outliers within their groups."""
    refusals: tuple[BenchError, ...] = ()
    """Errors of jobs that were not created."""


@stores.completed
def results(
    wanted: Wanted,
    scope: StoresRead,
    note: Note,
    *,
    published: bool = False,
    over_sets: bool = False,
) -> Report:
    """Make the selected rows of a store and the operator.

    If none match, notes what the store has. If the scope names the operator's store, only its runs
    count.
    """
    check_accepted(scope.accept)
    with stores.with_operator(scope, note) as (store, groups):
        report = selection.report(
            groups,
            wanted,
            published=published,
            find=benchmarks.spec_finder(store, note),
            is_strict=True,
            over_sets=over_sets,
        )
        if not report.results:
            stores.note_empty(store, note)
    return report


def rows(
    store: GroupedStore,
    runs: Sequence[Run],
    note: Note,
    *,
    accept: Collection[str] = (),
    theirs: ServedGroups | None = None,
) -> RunRows:
    """Make the rows that some runs belong to: the end of ``submit``.

    ``theirs`` are the groups of the operator, if they were asked for.
    """
    run_ids = {run.run_id for run in runs}
    given = GivenRuns(run for run in runs if run.source == stores.SOURCE)
    groups = StoredGroups(store, note, theirs=theirs or given, accept=accept)
    wanted = selection.Wanted(runs=tuple(run_ids))
    report = selection.report(groups, wanted, find=benchmarks.spec_finder(store, note))
    rejected = frozenset(
        member.run_id
        for row in report.results
        for member in row.group.members
        if member.run_id in run_ids
        and (member.verdict == "rejected" or row.group.state == "unsteady")
    )
    return RunRows(runs=tuple(runs), report=report, rejected=rejected)


@stores.completed
def explain(text: str, scope: StoresRead, note: Note) -> list[Row]:
    """Explain a finding, run or group by its id.

    The beginning of a run's id is enough, if it is unique.
    """
    from k8sbench.report import explanation, ids

    if found := list(ids.matching(text)):
        return found
    check_accepted(scope.accept)
    with stores.with_operator(scope, note) as (store, groups):
        try:
            return list(explanation.explain(text, groups, benchmarks.spec_finder(store, note)))
        except NotFound as missing:
            action = did_you_mean(text, ids.ALL) + (missing.action or "")
            raise NotFound(missing.message, action) from missing


def check_accepted(accept: Collection[str], *, of_groups: bool = True) -> None:
    """Reject a mistyped id, which would otherwise overrule nothing, in silence."""
    if not accept:
        return
    from k8sbench.measure import rules
    from k8sbench.report import ids

    known = ids.REASONS if of_groups else rules.ALL
    for name in accept:
        if FORMER_IDS.get(name, name) not in known:
            raise NotFound(
                f"--accept {name}: there is no such reason.",
                did_you_mean(name, known) + "List them: k8sbench explain '*'",
            )


# -- compare, history and baseline; also for the operator ------------------------------------------


@stores.completed
def compare(
    a: str,
    b: str,
    scope: StoresRead,
    note: Note,
    *,
    limit: float | None = None,
    floor: float = comparison.FLOOR,
    chosen: GroupFilter = EVERY,
) -> Comparison:
    """Compare the selected cases of two sides.

    Each side consists of runs, groups, sets or baselines. The store's other sets tell how much
    sets of a case vary.
    """
    with _read(scope, note) as known:
        one = sides.named(a, known)
        two = sides.named(b, known)
        chosen.chosen(group.row for group in (*one.groups, *two.groups))  # raises if nothing fits
        one, two = (
            msgspec.structs.replace(
                side, groups=tuple(group for group in side.groups if chosen.fits(group.row))
            )
            for side in (one, two)
        )
        _note_sides(one, two, note)
        compared = comparison.compare(one, two, limit=limit, floor=floor, earlier=known.groups)
        return causes.explained(compared, {**one.runs, **two.runs}, known.groups)


def _note_sides(one: sides.Side, two: sides.Side, note: Note) -> None:
    """Note runs of both sides, and runs that go on."""
    if both := one.run_ids & two.run_ids:
        note(f"note: {counted(len(both), 'run', ('is', 'are'))} on both sides.")
    for side in (one, two):
        if count := sum(group.in_progress for group in side.groups):
            open_runs = counted(count, "run", ("is", "are"))
            note(f"note: {side.name}: {open_runs} open, without a figure as yet.")


@stores.completed
def history(
    chosen: GroupFilter, scope: StoresRead, note: Note, *, since: float | None = None
) -> list[CaseHistory]:
    """Return every case of a benchmark over its newest sets, with the changes marked."""
    with _read(scope, note) as known:
        rows = known.groups.rows
        if not rows:
            none = f"There is no run of {chosen.benchmark}: there are no runs yet."
            raise NotFound(none, FIRST_RUN)
        fitting = chosen.chosen(rows)
        series = selection.histories(known.groups, fitting, since or 0.0)
        if not series:
            raise no_run_together(since, max(row.ended for row in fitting))
        return series


def changes(chosen: GroupFilter, scope: StoresRead, note: Note) -> list[CaseChange]:
    """Return the changes that the sets of all cases show, the newest first."""
    with _read(scope, note) as known:
        rows = known.groups.rows
        return over_time.changes(chosen.chosen(rows), known.groups)


def accept_levels(
    chosen: GroupFilter, where: str | None, note: Note, *, at: float
) -> list[AcceptedLevel]:
    """Accept the present level of the chosen cases from whose change they have not recovered."""
    with stores.open_writable(where, create=False, note=note) as store:
        groups = StoredGroups(store, note)
        return _accept(store, groups, chosen.chosen(groups.rows), at)


def _accept(
    store: SqlStore, groups: StoredGroups, rows: Iterable[GroupRow], at: float
) -> list[AcceptedLevel]:
    """Accept the levels of cases that are open with some of these rows, which are their newest."""
    newest: dict[Line, GroupRow] = {}
    for row in sorted(filter(series.counts, groups.rows), key=lambda row: row.began):
        newest[row.line] = row
    ids = {row.group_id for row in rows}
    chosen = [row for row in newest.values() if row.group_id in ids]
    judged = groups.judged(chosen)
    still = [row for row in chosen if judged[row.group_id].open is not None]
    names = group_words.names(groups.groups(still), group_words.with_batch)
    levels = [
        AcceptedLevel(
            case=names[row.group_id],
            line=row.line,
            set_name=row.set_name,
            began=row.began,
            accepted_at=at,
        )
        for row in still
    ]
    if levels:
        store.accept(levels)
    return levels


# -- the newest sets against a baseline -----------------------------------------------------------


def held_against(where: str | None, name: str) -> dict[tuple[str, ...], Held]:
    """Compare the newest set of each case with a baseline, if there is one."""
    with stores.open_readonly(where, lambda _: None) as store:
        kept = next((one for one in store.baselines() if one.name == name), None)
        if kept is None:
            return {}
        groups = StoredGroups(store, lambda _: None)
        return comparison.against(kept, groups)


def open_changes(where: str | None) -> dict[tuple[str, ...], float]:
    """Return the present level of each case with an open change ÷ the level before it.

    By :func:`.comparison.labels`; of several cases with the same labels, the lowest.
    """
    with stores.open_readonly(where, lambda _: None) as store:
        groups = StoredGroups(store, lambda _: None)
        newest: dict[Line, GroupRow] = {}
        for row in sorted(filter(series.counts, groups.rows), key=lambda row: row.began):
            newest[row.line] = row
        judged = groups.judged(newest.values())
        found: dict[tuple[str, ...], float] = {}
        open_rows = (row for row in newest.values() if judged[row.group_id].open is not None)
        for group in groups.groups(open_rows):
            still = judged[group.key.id].open
            if still is not None:
                labels = comparison.labels(group.plan)
                found[labels] = min(1 + still.change, found.get(labels, math.inf))
        return found


# -- baselines ------------------------------------------------------------------------------------


def save_baseline(
    name: str, texts: Sequence[str], where: str | None, note: Note, *, replace: bool, at: float
) -> Baseline:
    """Keep the runs of a side that count, under a name."""
    checked_set_name(name, "baseline")
    with stores.open_writable(where, create=False, note=note) as store:
        groups = StoredGroups(store, note)
        side = sides.named(",".join(texts), sides.known(groups, store.baselines()))
        valid = [m.run_id for g in side.groups for m in g.members if m.rate is not None]
        left_out = sum(len(group.members) for group in side.groups) - len(valid)
        if not valid:
            raise UsageError(
                f"No run of {side.name} counts, so there is nothing to compare with.",
                "See why with: k8sbench results",
            )
        if left_out:
            note(
                f"{left_out} of the runs do not count and are left out; k8sbench results says why."
            )
        kept = tuple(kept_run(side.runs[run_id]) for run_id in valid)
        made = Baseline(name=name, saved_at=at, of=tuple(texts), runs=kept)
        store.save_baseline(made, replace=replace)
        for level in _accept(store, groups, (group.row for group in side.groups), at):
            note(f"The level of {level.case} is accepted: it is part of the baseline.")
    return made


def list_baselines(scope: StoresRead, note: Note) -> list[BaselineInfo]:
    """List baselines by name, an operator's after local ones."""
    theirs = stores.operator_baselines(scope, note)
    where = stores.NOWHERE if scope.insists else scope.where
    with stores.open_readonly(where, note) as store:
        here = {baseline.name: baseline_info(baseline, "here") for baseline in store.baselines()}
    there = [baseline_info(one, stores.SOURCE) for one in theirs if one.name not in here]
    return [*here.values(), *there]


def remove_baseline(name: str, where: str | None) -> None:
    """Remove a baseline; the runs that it was made of stay."""
    with stores.open_writable(where, create=False) as store:
        store.remove_baseline(name)


@contextlib.contextmanager
def _read(scope: StoresRead, note: Note) -> Iterator[sides.Known]:
    """Open the groups and baselines of a store, and of the operator."""
    check_accepted(scope.accept)
    with stores.with_operator(scope, note) as (store, groups):
        there = stores.operator_baselines(scope, note)
        yield sides.known(groups, [*there, *store.baselines()])


# -- report and the page ---------------------------------------------------------------------------


@stores.completed
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

    Includes an operator's runs and their logs. ``environment`` (YAML) and ``notes`` (Markdown) stay
    in the folder and are part of the next report there. Raises :class:`NotFound` for an unknown
    set, and :class:`UsageError` for a set with active runs, a folder with other content, or a file
    that was changed by hand, unless ``force`` is set.
    """
    from k8sbench import __version__
    from k8sbench.adapters.files import report_folder
    from k8sbench.report import environment as given
    from k8sbench.report import publication, readme

    check_accepted(scope.accept)
    former = report_folder.former_files(folder, {publication.README, publication.RESULTS})
    with (
        stores.with_operator(scope, note) as (store, groups),
        tempfile.TemporaryDirectory(prefix="k8sbench-logs-") as copies,
    ):
        find = benchmarks.spec_finder(store, note)
        reports = [
            selection.report(groups, Wanted(set_name=name), published=published, find=find)
            for name in dict.fromkeys(sets)
        ]
        rows = [result for report in reports for result in report.results]
        by_id = groups.runs
        _check_ended(rows, by_id)

        def copied(run_id: str) -> list[Path]:
            there = connections.access_to(by_id[run_id].location, scope.access)
            found = stores.operator_files(there, run_id, Path(copies) / run_id, "logs")
            return sorted(found, key=lambda path: rank_order(path.stem))

        given_text, notes_text = (
            report_folder.given(folder / name if path is None else path, is_needed=path is not None)
            for path, name in ((environment, given.FILE), (notes, publication.NOTES))
        )
        logs, files = _files_of_runs(store, rows, copied)
        names = publication.names([row.group for row in rows]).values()
        plans = {row.group.key.benchmark: row.group.plan for row in rows}
        made = publication.Publication(
            results=rows,
            parities=ratios.parities(row.group for row in rows),
            runs=by_id,
            specs={name: spec for name, plan in plans.items() if (spec := find(plan)) is not None},
            logs=logs,
            charts=publication.charts(rows, _timelines(rows, by_id, logs, files, note), lang),
            has_published=published,
            sets=list(dict.fromkeys(sets)),
            version=__version__,
            title=title,
            lang=lang,
            given_text=given_text,
            given=given.read(
                given_text or "", str(environment or folder / given.FILE), sets, names
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
    store: Store, rows: Sequence[Result], copied: Callable[[str], list[Path]]
) -> tuple[dict[str, list[str]], dict[str, Content]]:
    """Map report file names to run logs and row manifests.

    ``copied`` copies the logs of an operator's run to this machine.
    """
    from k8sbench.report import publication

    names = publication.names([row.group for row in rows])
    logs: dict[str, list[str]] = {}
    files: dict[str, Content] = {}
    for row in rows:
        name = names[row.group.key.id]
        for member in row.group.members:
            is_theirs = member.source == stores.SOURCE
            found = copied(member.run_id) if is_theirs else store.log_files(member.run_id)
            paths = publication.log_names(row.group, name, member, len(found))
            logs[member.run_id] = paths
            files |= dict(zip(paths, found, strict=True))
            manifest = None if is_theirs else store.folder(member.run_id) / "manifest.yaml"
            if manifest is not None and manifest.is_file():
                files.setdefault(f"manifests/{name}.yaml", manifest)
    return logs, files


MOST_DRAWN = 20
"""Maximum number of run charts per page; each takes 0.1 s or more."""


def timelines(
    report: Report, named: Collection[str], where: str | None, note: Note
) -> list[History]:
    """Read run timelines for charts.

    These are the named runs, else the last run of each row, newest first. Raises :class:`NotFound`
    for a named run that is in no row. An operator's timelines are only on its own page, because
    only the operator has their data.
    """

    groups = [row.group for row in report.results]
    units = {member.run_id: group.unit for group in groups for member in group.members}
    chosen = {resolve(sorted(units), text) for text in named} or {
        last(group).run_id for group in groups
    }
    if where == stores.CLUSTER:
        return []
    every = (member for group in groups for member in group.members)
    here = (one for one in every if one.run_id in chosen and one.source != stores.SOURCE)
    newest = sorted(here, key=lambda run: -run.created_at)[:MOST_DRAWN]
    with stores.open_readonly(where, note) as store:
        runs: list[Run] = []
        for member in newest:
            run = store.readable(member.run_id)
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
    lang: str = "en",
    title: str | None = None,
    files: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Render a report as a page, with a timeline per row.

    ``files`` are the paths of each run's files below ``api/v1/runs/RUN/artifacts``, if the page has
    links to them.
    """
    from k8sbench import __version__
    from k8sbench.report import page as pages

    return pages.html(
        pages.Page(
            results=report.results,
            parities=report.parities,
            histories=timelines(report, named, where, note),
            series=report.series,
            compared=report.compared,
            files=files or {},
            at=connections.now(),
            version=__version__,
            lang=lang,
            title=title,
        )
    )


def _timeline(run: Run, unit: str, logs: Callable[[], Sequence[Path]], note: Note) -> History:
    """Read a run's throughput over time; without a curve, and a note, if unreadable."""
    from k8sbench.adapters.files import log_files
    from k8sbench.measure.run import recorded
    from k8sbench.report.plot import History

    curve = None
    try:
        lines = itertools.chain.from_iterable(
            log_files.opened({str(path): path.name for path in logs()[:1]})
        )
        curve = recorded.curve(run.plan, lines)
    except BenchError as error:
        note(f"warning: without the steps of {run.run_id}: {error}")
    return History(run_id=run.run_id, unit=unit, measured=run.measurement, curve=curve)

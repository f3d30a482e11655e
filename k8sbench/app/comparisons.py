"""Sets beside each other and over time: ``compare``, ``history`` and ``baseline``.

Also what the operator's metrics say of the newest sets.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import msgspec

from k8sbench import messages
from k8sbench.app import answers, stores
from k8sbench.app.answers import StoresRead
from k8sbench.app.results import check_accepted
from k8sbench.lifecycle.context import Note
from k8sbench.model.errors import (
    FIRST_RUN,
    NotFound,
    UsageError,
)
from k8sbench.model.group_filter import EVERY, GroupFilter, no_run_together
from k8sbench.model.names import checked_set_name
from k8sbench.model.plain_text import counted, share
from k8sbench.model.run import Baseline, kept_run
from k8sbench.model.series import AcceptedLevel, Judged, SeriesRange
from k8sbench.results.groups import (
    causes,
    comparison,
    new_cases,
    nights,
    selection,
    sides,
    since_baseline,
)
from k8sbench.results.groups import history as over_time
from k8sbench.results.groups.comparison import Held
from k8sbench.results.groups.sides import Side
from k8sbench.results.report import formats, group_words
from k8sbench.results.report.document import BaselineInfo, baseline_info
from k8sbench.results.stored_groups import StoredGroups

if TYPE_CHECKING:
    from k8sbench.model.compared import AlternatingCase, CaseChange, CaseHistory, Comparison
    from k8sbench.model.group import GroupRow
    from k8sbench.store.sql_store import SqlStore


@answers.completed
def compare(
    a: str | None,
    b: str | None,
    scope: StoresRead,
    note: Note,
    *,
    limit: float | None = None,
    floor: float = comparison.FLOOR,
    chosen: GroupFilter = EVERY,
) -> Comparison:
    """Compare the selected cases of two sides; without sides, of the newest two nights.

    Each side consists of runs, groups, sets or baselines. The store's other sets tell how much
    sets of a case vary. The second side is held against the newest baseline of each case, too.
    """
    sides_named = [part.strip() for side in (a, b) if side is not None for part in side.split(",")]
    with _read(scope, note, sides_named) as known:
        if a is not None and b is not None:
            named = _named(a, b, known, chosen)
            return _compare(*named, known, note, limit=limit, floor=floor)
        if a is not None or b is not None:
            raise UsageError(
                f"compare needs both sides: {a or b} is one.",
                "Name the other, or none: without sides it compares the newest night with the one"
                " before.",
            )
        rows = known.groups.rows
        if not rows:
            raise _no_runs()
        fitting = chosen.chosen(rows)
        found = sides.newest_nights(known.groups, fitting)
        if not found:
            raise NotFound(
                "There is no night to compare: no run that measures a speed has ended.",
                "Smoke runs and runs on CPUs claim no speed. k8sbench list shows the runs.",
            )
        return _compare_nights(found, fitting, known, note, limit=limit, floor=floor)


def _no_runs() -> NotFound:
    return NotFound("There is no night to compare: there are no runs yet.", FIRST_RUN)


def _named(a: str, b: str, known: sides.Known, chosen: GroupFilter) -> tuple[Side, Side]:
    """Return the selected cases of two sides by their names."""
    one = sides.named(a, known)
    two = sides.named(b, known)
    chosen.chosen(group.row for group in (*one.groups, *two.groups))  # raises if nothing fits
    fitting = (
        msgspec.structs.replace(
            side, groups=tuple(group for group in side.groups if chosen.fits(group.row))
        )
        for side in (one, two)
    )
    one, two = fitting
    return one, two


def _compare_nights(
    found: Sequence[Side],
    fitting: Iterable[GroupRow],
    known: sides.Known,
    note: Note,
    *,
    limit: float | None = None,
    floor: float = comparison.FLOOR,
) -> Comparison:
    """Compare the newest night of some rows with the one before; alone, its cases stand alone."""
    nothing = Side(name="", groups=(), runs={})
    one, two = found if len(found) > 1 else (nothing, *found)
    compared = _compare(one, two, known, note, limit=limit, floor=floor)
    missing = selection.missing_cases(fitting, known.groups, found)
    return msgspec.structs.replace(compared, missing=missing)


def _compare(
    one: Side,
    two: Side,
    known: sides.Known,
    note: Note,
    *,
    limit: float | None = None,
    floor: float = comparison.FLOOR,
) -> Comparison:
    """Compare two sides, with the baselines of their cases and the causes of their changes."""
    _note_sides(one, two, note)
    compared = comparison.compare(one, two, limit=limit, floor=floor, earlier=known.groups)
    compared = over_time.with_marks(compared, known.groups)
    compared = new_cases.added(compared, known.groups)
    compared = since_baseline.added(compared, known.baselines.values(), known.groups)
    return causes.explained(compared, {**one.runs, **two.runs}, known.groups)


def _note_sides(one: Side, two: Side, note: Note) -> None:
    """Note runs of both sides, and runs that go on."""
    if both := one.run_ids & two.run_ids:
        note(f"note: {counted(len(both), 'run', ('is', 'are'))} on both sides.")
    for side in (one, two):
        if count := sum(group.in_progress for group in side.groups):
            open_runs = counted(count, "run", ("is", "are"))
            note(f"note: {side.name}: {open_runs} open, without a figure as yet.")


@answers.completed
def history(
    chosen: GroupFilter, scope: StoresRead, note: Note, *, since: float | None = None
) -> list[CaseHistory]:
    """Return every case of a benchmark over its newest sets, with the changes marked.

    With ``since`` all sets since then, else notes how many older ones are left out.
    """
    with _read(scope, note) as known:
        rows = known.groups.rows
        if not rows:
            none = f"There is no run of {chosen.benchmark}: there are no runs yet."
            raise NotFound(none, FIRST_RUN)
        fitting = chosen.chosen(rows)
        series = selection.histories(known.groups, fitting, since)
        if not series:
            raise no_run_together(since, max(row.ended for row in fitting))
        if since is None and (older := len(fitting) - sum(len(one.points) for one in series)):
            are = counted(older, "older set", ("is", "are"))
            date = datetime.fromtimestamp(min(row.began for row in fitting), UTC)
            note(f"{are} not shown; --since {date:%Y-%m-%d} shows all sets.")
        return series


class Overview(NamedTuple):
    """The newest night of all cases, and their changes."""

    newest: Comparison | None
    """The newest two nights; None if no run that measures a speed has ended."""
    changes: list[CaseChange]
    """The newest first."""
    alternating: list[AlternatingCase]
    """Cases that alternate between two levels."""


@answers.completed
def overview(
    chosen: GroupFilter, scope: StoresRead, note: Note, *, since: float | None = None
) -> Overview:
    """Compare the newest two nights, and return what the sets of all cases show.

    With ``since`` only changes that sets with a run since then show. If there are none, notes why.
    Raises :class:`NotFound` without runs.
    """
    with _read(scope, note) as known:
        rows = known.groups.rows
        if not rows:
            raise _no_runs()
        fitting = chosen.chosen(rows)
        found = sides.newest_nights(known.groups, fitting)
        newest = _compare_nights(found, fitting, known, note) if found else None
        sets = over_time.CaseSets(fitting, known.groups)
        changes = sets.changes(since)
        alternating = sets.alternating()
    if not changes and not alternating:
        note(messages.text("en", over_time.why_unchanged(fitting, since)))
    return Overview(newest, changes, alternating)


def accept_levels(
    chosen: GroupFilter, scope: StoresRead, note: Note, *, at: float
) -> list[AcceptedLevel]:
    """Accept the present level of the chosen cases from whose change they have not recovered."""
    answers.check_changes_own(scope)
    with stores.open_writable(scope.where, create=False, note=note) as store:
        groups = StoredGroups(store, note)
        return _accept(store, groups, chosen.chosen(groups.rows), at)


class FixedRange(NamedTuple):
    """A range of a case that was fixed anew."""

    range: SeriesRange
    lost: int
    """Number of earlier sets that are not judged any more."""


def fix_ranges(chosen: GroupFilter, scope: StoresRead, note: Note) -> list[FixedRange]:
    """Fix the ranges of the chosen cases by their newest sets; return those that change.

    Raises :class:`UsageError` while one of them has an open change, which it could hide.
    """
    answers.check_changes_own(scope)
    with stores.open_writable(scope.where, create=False, note=note) as store:
        groups = StoredGroups(store, note)
        changed = groups.ranges_anew(chosen.chosen(groups.rows))
        newest = nights.newest(groups.rows)
        rows = {each.line: newest[each.line] for each in changed if each.line in newest}
        names = _names(groups, rows.values())
        _check_nothing_is_open(chosen, groups, rows.values(), names)
        changed = [
            msgspec.structs.replace(each, case=names[rows[each.line].group_id])
            if each.line in rows
            else each
            for each in changed
        ]
        before = {row.group_id for row in groups.rows if nights.counts(row)}
        groups.replace_ranges(changed)
        lost = [
            row.line for row in groups.rows if row.group_id in before and not nights.counts(row)
        ]
        return [FixedRange(each, lost.count(each.line)) for each in changed]


def _check_nothing_is_open(
    chosen: GroupFilter,
    groups: StoredGroups,
    rows: Collection[GroupRow],
    names: Mapping[str, str],
) -> None:
    """Raise if a case with one of these rows, its newest, has an open change."""
    judged = groups.judged(rows)
    for row in rows:
        if (still := judged[row.group_id].open) is not None:
            raise UsageError(
                f"{names[row.group_id]} is open: {formats.signed_percent(still.change)} since"
                f" {still.since}. Over another range that could not be seen. Nothing was changed.",
                f"If its level is right, accept it first: k8sbench history {chosen.benchmark}"
                " --accept-level",
            )


def _names(groups: StoredGroups, rows: Iterable[GroupRow]) -> dict[str, str]:
    """Return the names of cases, by the ids of rows of theirs."""
    made = groups.groups(rows)
    return group_words.names(made, group_words.with_models(made, group_words.with_batch))


def _accept(
    store: SqlStore, groups: StoredGroups, rows: Iterable[GroupRow], at: float
) -> list[AcceptedLevel]:
    """Accept the levels of cases that are open with some of these rows, which are their newest."""
    ids = {row.group_id for row in rows}
    chosen = [row for row in nights.newest(groups.rows).values() if row.group_id in ids]
    judged = groups.judged(chosen)
    still = [row for row in chosen if judged[row.group_id].open is not None]
    names = _names(groups, chosen)
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
        store.accept_levels(levels)
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


ChangeKind = Literal["confirmed", "unconfirmed", "alternating"]
"""Kind of a change of a case as of its newest set; a case has one at most.

``confirmed``: an open change that more than one set shows. ``unconfirmed``: a drop of its newest
set alone. ``alternating``: the case alternates between two levels.
"""
KINDS = get_args(ChangeKind)


def changed_cases(where: str | None) -> dict[ChangeKind, dict[tuple[str, ...], float]]:
    """Return the ratio of the two levels of each case that changed.

    That is the present level ÷ the one before the change, or the lower ÷ the higher of two that
    alternate. By :func:`.comparison.labels`; of several cases with the same labels, the lowest.
    A case that is not measured any more is among them: what is open does not end by waiting.
    """
    found: dict[ChangeKind, dict[tuple[str, ...], float]] = {kind: {} for kind in KINDS}
    with stores.open_readonly(where, lambda _: None) as store:
        groups = StoredGroups(store, lambda _: None)
        newest = nights.newest(groups.rows)
        judged = groups.judged(newest.values())
        changed = {row.group_id: _kind_and_ratio(judged[row.group_id]) for row in newest.values()}
        rows = (row for row in newest.values() if changed[row.group_id] is not None)
        for group in groups.groups(rows):
            change = changed[group.key.id]
            if change is not None:
                kind, ratio = change
                labels = comparison.labels(group.facts, group.key)
                found[kind][labels] = min(ratio, found[kind].get(labels, math.inf))
    return found


def _kind_and_ratio(judged: Judged) -> tuple[ChangeKind, float] | None:
    if (levels := judged.alternating) is not None:
        return "alternating", math.exp(levels.low - levels.high)
    if judged.open is None:
        return None
    is_confirmed = judged.open.kind != "unconfirmed"
    return "confirmed" if is_confirmed else "unconfirmed", 1 + judged.open.change


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
                f"See why with: k8sbench explain {min(side.run_ids)}",
            )
        if left_out:
            verbs = ("does not count and is left out", "do not count and are left out")
            words = share(left_out, left_out + len(valid), "run", verbs)
            note(f"{words}; k8sbench results --all says why.")
        kept = tuple(kept_run(side.runs[run_id]) for run_id in valid)
        made = Baseline(name=name, saved_at=at, of=tuple(texts), runs=kept)
        store.save_baseline(made, replace=replace)
        for level in _accept(store, groups, (group.row for group in side.groups), at):
            note(f"The level of {level.case} is accepted: it is part of the baseline.")
    return made


@answers.completed
def list_baselines(scope: StoresRead, note: Note) -> list[BaselineInfo]:
    """List the baselines of the store that answers, by name."""
    with answers.answering(scope, note) as answer:
        source = "here" if answer.served is None else stores.SOURCE
        return [baseline_info(baseline, source) for baseline in answer.baselines()]


def remove_baseline(name: str, where: str | None) -> None:
    """Remove a baseline; the runs that it was made of stay."""
    with stores.open_writable(where, create=False) as store:
        store.remove_baseline(name)


@contextlib.contextmanager
def _read(scope: StoresRead, note: Note, names: Sequence[str] = ()) -> Iterator[sides.Known]:
    """Open the groups and baselines of the store that answers."""
    check_accepted(scope.accept)
    with answers.answering(scope, note, names, has_baselines=True) as answer:
        yield sides.known(answer.groups, answer.baselines())

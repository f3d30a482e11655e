"""The groups of a store's runs.

The index keeps them. Made anew are those of sets that have changed, and those that change where a
reason is overruled by ``--accept``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from k8sbench.model.errors import FORMER_IDS, StoreError
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.profile import IterationRange
from k8sbench.model.run import Run
from k8sbench.model.series import Judged, Line, SeriesRange
from k8sbench.results.groups import grouping, ranges
from k8sbench.results.groups.known import singles
from k8sbench.results.judged_series import JudgedSeries, acceptances
from k8sbench.store.group_interface import GroupedStore
from k8sbench.store.interface import RunFilter

AT_ONCE = 50
"""Sets whose groups are made and kept together."""


class StoredGroups:
    """Implements :class:`~k8sbench.results.groups.known.KnownGroups`."""

    def __init__(
        self,
        store: GroupedStore,
        note: Callable[[str], None],
        *,
        lost: Mapping[str, Run] | None = None,
        accept: Collection[str] = (),
    ) -> None:
        self._store = store
        self._index = store.group_index
        self._accept = accept
        self._lost = lost or {}
        """Lost runs by id, which a store that can only be read has as active ones."""
        self._groups: dict[str, Group] = {}
        """Groups that were made or read, by id."""
        self.rows: Sequence[GroupRow] = []
        self._unkept: list[GroupRow] = []
        """Rows of groups that the index does not keep, and of those in their place."""
        self._ranges = {each.line: each.over for each in store.series_ranges()}
        """Ranges of iterations of the series that have one."""
        self._follow_changes(note)
        self._overrule()
        self.runs: Mapping[str, Run] = RunsById(
            store.ids, lambda run_id: store.read_run(run_id) or store.run(run_id)
        )

    def groups(self, rows: Iterable[GroupRow]) -> list[Group]:
        """Return the groups of some rows, less those that were removed meanwhile."""
        rows = list(rows)
        unread = [row.group_id for row in rows if row.group_id not in self._groups]
        self._groups |= self._index.groups(unread)
        return [self._groups[row.group_id] for row in rows if row.group_id in self._groups]

    def judged(self, rows: Iterable[GroupRow]) -> Mapping[str, Judged]:
        """Return what the series of their cases say of some sets, by group id."""
        return self._judged_series.judged(rows)

    def notable(self, rows: Iterable[GroupRow]) -> Mapping[str, Judged]:
        """Return the judgements of some sets that are notable, by group id, in the rows' order."""
        return self._judged_series.notable(rows)

    def sets_of(self, run_ids: Collection[str]) -> set[str]:
        """Return the names of the sets of some runs."""
        return self._index.sets_of(run_ids)

    def recorded(self, wanted: RunFilter) -> list[Run]:
        """Return the runs that match, oldest first, as they are now."""
        return [self._lost.get(run.run_id, run) for run in self._store.runs(wanted)]

    def readable(self, run_id: str) -> Run | None:
        """Return a run as it is now; None if it cannot be read."""
        return self._lost.get(run_id) or self._store.read_run(run_id)

    @functools.cached_property
    def _judged_series(self) -> JudgedSeries:
        accepted = acceptances(self._store.accepted_levels(), self.rows)
        return JudgedSeries(self._index, self.rows, self._unkept, accepted)

    def _follow_changes(self, note: Callable[[str], None]) -> None:
        """Make the groups of changed sets, and keep those in which nothing goes on."""
        # Before the rows: what changes meanwhile is as new in them.
        versions = self._index.changed_sets()
        still_open = self._index.open_sets()
        self.rows = self._index.rows()
        changed = sorted(versions.keys() | still_open)
        for begin in range(0, len(changed), AT_ONCE):
            if len(changed) > AT_ONCE:
                note(f"note: the rows of {begin} of {len(changed)} sets are made")
            some = changed[begin : begin + AT_ONCE]
            made = self._make(some)
            former = self._use(made)
            closed = {name: groups for name, groups in made.items() if name not in still_open}
            # In a store that can only be read they are made each time.
            kept: list[str] = []
            with contextlib.suppress(StoreError):
                kept = self._index.put(closed, versions)
                self._forget(group for name in kept for group in made[name])
            self._unkept += [row for row in former if row.set_name not in kept]
        if versions:
            with contextlib.suppress(StoreError):
                self._index.note_version()
        self._fix_ranges()
        self._renew_ranges()

    def ranges_anew(self, rows: Iterable[GroupRow]) -> list[SeriesRange]:
        """Return the ranges of some cases by their newest four sets, where these are others."""
        changed: list[SeriesRange] = []
        for line, its in ranges.newest(rows).items():
            over = ranges.fixed_by(self.groups(its))
            if over is not None and over != self._ranges.get(line):
                changed.append(series_range(its, over))
        return changed

    def replace_ranges(self, changed: Sequence[SeriesRange]) -> None:
        """Give some cases other ranges."""
        if changed:
            self._store.fix_ranges(changed, replaces=True)
            self._ranges |= {each.line: each.over for each in changed}
            self._renew_ranges()

    def _fix_ranges(self) -> None:
        """Fix the ranges of the series that have enough sets for one."""
        fixed: list[SeriesRange] = []
        for line, rows in ranges.due(self.rows, self._ranges).items():
            over = ranges.fixed_by(self.groups(rows))
            if over is not None:
                fixed.append(series_range(rows, over))
                self._ranges[line] = over
        if fixed:
            with contextlib.suppress(StoreError):
                self._store.fix_ranges(fixed)
                # Another process may have been faster.
                self._ranges |= {each.line: each.over for each in self._store.series_ranges()}

    def _renew_ranges(self) -> None:
        """Take the figures of groups over the ranges of their series, from their own profiles."""
        if not self._ranges:
            return
        outdated = {row.set_name for row in self.rows if _is_outdated(row, self._ranges)}
        by_set: dict[str, list[GroupRow]] = {name: [] for name in sorted(outdated)}
        for row in self.rows:
            if row.set_name in outdated:
                by_set[row.set_name].append(row)
        renewed = {
            name: [self._with_range(group) for group in self.groups(rows)]
            for name, rows in by_set.items()
        }
        former = self._use(renewed)
        kept: list[str] = []
        with contextlib.suppress(StoreError):
            # A set that has changed meanwhile, or in which something goes on, has another version.
            kept = self._index.put(renewed, dict.fromkeys(renewed, 0))
            self._forget(group for name in kept for group in renewed[name])
        self._unkept += [row for row in former if row.set_name not in kept]

    def _with_range(self, group: Group) -> Group:
        """Return a group with the range of its series, if it has one."""
        over = self._ranges.get(group.row.line)
        if over is None or not ranges.progress_of(group):
            return group
        return msgspec.structs.replace(group, range=over)

    def _overrule(self) -> None:
        """Make the groups anew that ``--accept`` changes."""
        sets = _overruled(self.rows, self._accept) if self._accept else ()
        if sets:
            self._unkept += self._use(self._make(sorted(sets), self._accept))

    def _use(self, made: Mapping[str, Sequence[Group]]) -> list[GroupRow]:
        """Take groups in place of those that the index has of their sets.

        Returns the rows of both.
        """
        groups = [group for some in made.values() for group in some]
        former = [row for row in self.rows if row.set_name in made]
        others = [row for row in self.rows if row.set_name not in made]
        rows = [group.row for group in groups]
        self.rows = [*others, *rows]
        self._groups |= {group.key.id: group for group in groups}
        return [*former, *rows]

    def _forget(self, kept: Iterable[Group]) -> None:
        """Leave out of memory what the index has."""
        for group in kept:
            self._groups.pop(group.key.id, None)

    def _make(self, sets: Sequence[str], accept: Collection[str] = ()) -> dict[str, list[Group]]:
        """Make the groups of some sets of their runs, and of those with the same logs."""
        runs = [run for name in sets for run in self.recorded(RunFilter(set_name=name))]
        digests = _digests(runs)
        every = {run.run_id: run for run in runs}
        for run_id in self._index.runs_with_logs(digests).keys() - every.keys():
            if (alike := self._store.read_run(run_id)) is not None:
                every[run_id] = alike
        made = grouping.groups(every.values(), accept=accept, singles=self._singles)
        made = [self._with_range(group) for group in made]
        by_set: dict[str, list[Group]] = {name: [] for name in sets}
        for group in made:
            if group.key.set_name in by_set:
                by_set[group.key.set_name].append(group)
        return by_set

    def _singles(self, made: Sequence[Group]) -> list[Group]:
        """Return the 1x1 cases of other sets, for groups whose own sets have none."""
        own = {_program(group) for group in made if group.facts.world_size == 1 and group.spread}
        lacking = [
            group for group in made if group.facts.world_size != 1 and _program(group) not in own
        ]
        sets = {group.key.set_name for group in made}
        found = singles(self, lacking) if lacking else []
        return [group for group in found if group.key.set_name not in sets]


def series_range(rows: Sequence[GroupRow], over: IterationRange) -> SeriesRange:
    """Return the range of a series as the store keeps it, with the sets that fix it."""
    row = rows[-1]
    return SeriesRange(
        case=f"{row.benchmark} {row.framework} {row.precision} {row.case}",
        line=row.line,
        over=over,
        sets=tuple(row.set_name for row in rows),
    )


def _is_outdated(row: GroupRow, known: Mapping[Line, IterationRange]) -> bool:
    """True if a row has the figure over another range than that of its series."""
    if row.reaches is None or (over := known.get(row.line)) is None:
        return False
    return row.range != over.text


class RunsById(Mapping[str, Run]):
    """Runs by id; each is read when it is asked for.

    A damaged run raises :class:`StoreError`, one that was removed meanwhile :class:`NotFound`.
    """

    def __init__(self, ids: Callable[[], Sequence[str]], read: Callable[[str], Run]) -> None:
        self._list_ids, self._read_run = ids, read
        self._read: dict[str, Run] = {}
        self._ids: Sequence[str] | None = None

    def __getitem__(self, run_id: str) -> Run:
        if run_id not in self._read:
            self._read[run_id] = self._read_run(run_id)
        return self._read[run_id]

    def __iter__(self) -> Iterator[str]:
        if self._ids is None:
            self._ids = self._list_ids()
        return iter(self._ids)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _program(group: Group) -> tuple[str, ...]:
    """Return what the 1x1 case of a speedup shares with its set's other cases."""
    key = group.key
    return key.set_name, key.benchmark, key.framework, key.precision


def _overruled(rows: Iterable[GroupRow], accept: Collection[str]) -> set[str]:
    """Return the sets whose groups may change where reasons are overruled.

    Where a 1x1 case counts then, the efficiencies that refer to it may be too high.
    """
    rows = list(rows)
    ids = {FORMER_IDS.get(name, name) for name in accept}
    changed = [row for row in rows if not ids.isdisjoint(row.rejects.split(","))]
    alone = {(row.benchmark, row.framework) for row in changed if row.gpus == 1}
    larger = (row for row in rows if row.gpus != 1 and (row.benchmark, row.framework) in alone)
    return {row.set_name for row in (*changed, *larger)}


def _digests(runs: Iterable[Run]) -> set[str]:
    found = (run.measurement.log_digest for run in runs if run.measurement is not None)
    return {digest for digest in found if digest is not None}

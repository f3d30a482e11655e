"""Comparison of two sides, case by case: ratio, interval, finding, regression.

The test is Student's on logarithms of throughputs, corrected for all cases
(:mod:`~k8sbench.results.groups.t_test`). Runs of one set say nothing about the spread between days:
where the spread between the case's earlier sets is known
(:mod:`~k8sbench.results.groups.series`), it decides, also for one run; elsewhere the spread of the
runs does, and a change smaller than the floor is none. A regression is a case found slower whose
ratio is beyond the limit. A case whose older side is a set that differed once is back, if no set
since then shows a change.
The same differences forbid a ratio as between frameworks, except those that cannot be known of one
and the same program.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from k8sbench.messages import Note, note
from k8sbench.model import titles
from k8sbench.model.compared import Compared, Comparison, Figures, RateChange
from k8sbench.model.facts import Facts
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.identity import NOT_STATED, GroupKey
from k8sbench.model.profile import IterationRange
from k8sbench.model.run import Baseline
from k8sbench.model.series import Expected, Judged, Line
from k8sbench.results.groups import distributions, nights, ranges, ratios, series, sides, t_test
from k8sbench.results.groups.group_figures import spread
from k8sbench.results.groups.known import KnownGroups
from k8sbench.results.groups.sides import Side, counterparts, differing
from k8sbench.results.groups.t_test import ALPHA, Estimate

FLOOR = 0.015
"""Smallest change of a case without enough earlier sets.

Equal sets of two days differ by 1 % now and then.
"""


class Earlier(Protocol):
    """The sets that a comparison is held against."""

    @property
    def rows(self) -> Sequence[GroupRow]:
        """A row of each set and case."""

    def judged(self, rows: Iterable[GroupRow]) -> Mapping[str, Judged]:
        """Return what the series of their cases say of some sets, by group id."""


def compare(
    a: Side,
    b: Side,
    *,
    limit: float | None = None,
    floor: float = FLOOR,
    earlier: Earlier | None = None,
) -> Comparison:
    """Compare two sides.

    ``limit`` is the share by which the second may be slower, ``floor`` the smallest change of a
    case without enough ``earlier`` sets.
    """
    cases = [_beside(mine, theirs) for mine, theirs in counterparts(a, b)]
    # A set of an earlier night may have runs that were added later.
    a_is_newer = (a.day, _ended(a)) >= (b.day, _ended(b))
    newer = a if a_is_newer else b
    lines = {group.row.line for group in (*a.groups, *b.groups)}
    judged = {} if earlier is None else _judged(newer, lines, earlier)
    odd = () if earlier is None else _odd_sets(b if a_is_newer else a, earlier)
    _decide(cases, judged, limit, floor, odd=odd, a_is_newer=a_is_newer)
    if earlier is not None:
        _find_back(cases, earlier, a_is_newer=a_is_newer)
    return Comparison(
        a=a.name,
        b=b.name,
        nights=tuple(side.day for side in (a, b) if side.day),
        limit=limit,
        floor=floor,
        a_is_newer=a_is_newer,
        cases=tuple(cases),
    )


def newest_nights(known: KnownGroups, rows: Iterable[GroupRow]) -> Comparison | None:
    """Compare the newest two nights of some rows; None without two."""
    found = sides.newest_nights(known, rows)
    return compare(*found, earlier=known) if len(found) == 2 else None


def _ended(side: Side) -> float:
    """Return when the newest set of a side began."""
    return max((group.began[1] for group in side.groups), default=-math.inf)


def _judged(newer: Side, lines: Collection[Line], earlier: Earlier) -> dict[Line, Judged]:
    """Return what the series of each case says of the newer side.

    Where it says nothing of that side, which may be no set, it is the newest set before.
    """
    own = {group.key.id for group in newer.groups}
    begin = min((group.began[0] for group in newer.groups), default=0.0)
    wanted = {line[0] for line in lines}
    newest: dict[Line, GroupRow] = {}
    first: dict[Line, GroupRow] = {}
    for row in earlier.rows:
        if row.series not in wanted or not nights.counts(row):
            continue
        line = row.line
        if line not in lines:
            continue
        if row.group_id in own:
            first[line] = min(row, first.get(line, row), key=_begin)
        elif row.began < begin and (line not in newest or newest[line].began <= row.began):
            newest[line] = row
    chosen = newest | first
    judged = earlier.judged(chosen.values())
    return {line: judged[row.group_id] for line, row in chosen.items()}


def _odd_sets(older: Side, earlier: Earlier) -> set[str]:
    """Return the ids of the groups of a side whose sets differ from their levels."""
    judged = earlier.judged(group.row for group in older.groups)
    return {
        group_id
        for group_id, of_set in judged.items()
        if of_set.mark is not None and of_set.mark.kind in ("once", "unconfirmed")
    }


def _begin(row: GroupRow) -> float:
    return row.began


def _decide(
    cases: list[Compared],
    judged: Mapping[Line, Judged],
    limit: float | None,
    floor: float,
    *,
    odd: Collection[str] = (),
    a_is_newer: bool = False,
) -> None:
    """Replace each case that has a ratio by its finding.

    ``odd`` are the ids of the older side's groups that differ from their levels.
    """
    known = [_judged_of(case, judged, a_is_newer=a_is_newer) for case in cases]
    expected_of = [one and one.expected for one in known]
    found = _tests(cases, expected_of, odd, a_is_newer=a_is_newer)
    # The night as a whole is one more test.
    of_night = [test.p_of_night for test in found.values() if test.p_of_night is not None]
    tests = len(found) + bool(of_night)
    decided = t_test.holm([test.p for test in found.values()], count=tests)
    for (place, test), (p_alone, level) in zip(found.items(), decided, strict=True):
        one = known[place]
        expected = one and one.expected
        least = half = test.half(level)
        if expected is None:
            least = half = max(half, math.log1p(floor))
        p_of_night = None if test.p_of_night is None else tests * test.p_of_night
        p = p_alone
        if p_of_night is not None and p_of_night <= ALPHA < p_alone:
            p, half = p_of_night, test.half_by_night(ALPHA / tests)
        finding: RateChange = "no-difference"
        if p <= ALPHA and abs(test.difference) >= half:
            finding = "slower" if test.difference < 0 else "faster"
        ratio = cases[place].ratio or 1.0
        cases[place] = msgspec.structs.replace(
            cases[place],
            low=math.expm1(test.difference - half),
            high=math.expm1(test.difference + half),
            least=-math.expm1(-least),
            p=test.p,
            p_adjusted=p,
            earlier_sets=expected and expected.sets,
            finding=finding,
            regression=finding == "slower" and limit is not None and ratio < 1 - limit,
        )
    for place, (case, one) in enumerate(zip(cases, known, strict=True)):
        if one is not None and one.open is not None:
            cases[place] = msgspec.structs.replace(case, open=one.open)
        if case.ratio is not None and place not in found:
            cases[place] = msgspec.structs.replace(cases[place], finding="undecided")


def _find_back(cases: list[Compared], earlier: Earlier, *, a_is_newer: bool) -> None:
    """Replace each case whose older side differed once, and whose newer one does not."""
    spans: dict[int, tuple[GroupRow, GroupRow]] = {}
    for place, case in enumerate(cases):
        older, newer = (case.b, case.a) if a_is_newer else (case.a, case.b)
        if case.ratio is not None and older is not None and newer is not None:
            first, last = older.groups[-1].row, newer.groups[-1].row
            is_case = not differing(older.groups[-1], newer.groups[-1])
            is_case &= first.line[1:] == last.line[1:]
            if len(older.groups) == 1 and is_case and first.began < last.began:
                spans[place] = first, last
    marks = earlier.judged(first for first, _ in spans.values())
    for place, (first, last) in spans.items():
        odd = marks[first.group_id].mark
        if odd is None or odd.kind != "once":
            continue
        line = last.line
        between = (row for row in earlier.rows if first.began < row.began < last.began)
        since = earlier.judged([*(row for row in between if row.line == line), last])
        if _is_of_level(last, since[last.group_id]) and not any(
            one.mark is not None and one.mark.is_change for one in since.values()
        ):
            cases[place] = msgspec.structs.replace(
                cases[place], finding="back", odd=odd, regression=False
            )


def _is_of_level(row: GroupRow, judged: Judged) -> bool:
    """True if a set was judged, and does not differ from its level."""
    if judged.expected is None or (judged.mark is not None and judged.mark.kind == "once"):
        return False
    return series.p_of_set(judged.expected, math.log(row.figure or math.nan)) > ALPHA


class _Test(NamedTuple):
    """A difference of logarithms, and its variance."""

    difference: float
    estimate: Estimate
    p_of_night: float | None = None
    """p of the night as a whole, where the case moved with it."""

    @property
    def p(self) -> float:
        return self.estimate.p(self.difference)

    def half(self, level: float) -> float:
        """Return half the width of the interval."""
        return self.estimate.critical(level)

    def half_by_night(self, level: float) -> float:
        """Return that with the spread with which the case alone had the p of the night."""
        freedom = self.estimate.freedom
        quantiles = [
            distributions.student_quantile(p, freedom) for p in (level, self.p_of_night or 1.0)
        ]
        return abs(self.difference) * quantiles[0] / quantiles[1]


def _tests(
    cases: Sequence[Compared],
    every: Sequence[Expected | None],
    odd: Collection[str],
    *,
    a_is_newer: bool,
) -> dict[int, _Test]:
    """Return the tests of the cases that can be tested, by place."""
    found: dict[int, _Test] = {}
    within: dict[int, tuple[Figures, Figures, Estimate]] = {}
    for place, (case, expected) in enumerate(zip(cases, every, strict=True)):
        if case.ratio is None or case.a is None or case.b is None:
            continue
        if expected is not None:
            test = _against_level(case, expected, odd, a_is_newer=a_is_newer)
            found[place] = test or _between(case.a, case.b, math.log(case.ratio), expected)
        elif min(len(case.a.values), len(case.b.values)) > 1:
            estimate = t_test.pooled([_logs(case.a), _logs(case.b)])
            assert estimate is not None  # each side has two runs
            within[place] = (case.a, case.b, estimate)
    moderated = t_test.moderated([estimate for *_, estimate in within.values()])
    for (place, (a, b, _)), estimate in zip(within.items(), moderated, strict=True):
        factor = 1 / len(a.values) + 1 / len(b.values)
        difference = statistics.fmean(_logs(b)) - statistics.fmean(_logs(a))
        found[place] = _Test(difference, estimate.times(factor))
    return dict(sorted(found.items()))


def _between(a: Figures, b: Figures, difference: float, expected: Expected) -> _Test:
    """Return the test of two sides, by the spread between the case's sets."""
    sets = [sum(group.spread is not None for group in side.groups) for side in (a, b)]
    variance = expected.variance * sum(1 / count for count in sets)
    return _Test(difference, Estimate(variance, t_test.both(expected.freedom, expected.tail)))


def _against_level(
    case: Compared, expected: Expected, odd: Collection[str], *, a_is_newer: bool
) -> _Test | None:
    """Return the test of the newer side's set against its level; None unless the other is of it.

    A set of the level says less of it than all of its sets, but not if it is itself far from it.
    """
    older, newer = (case.b, case.a) if a_is_newer else (case.a, case.b)
    if older is None or newer is None or len(older.groups) + len(newer.groups) > 2:
        return None
    former, row = older.groups[0].row, newer.groups[0].row
    is_of_level = expected.level_began <= former.began < expected.level_until
    if former.line != row.line or not is_of_level or former.group_id in odd:
        return None
    if former.figure is None or row.figure is None:
        return None  # they are compared over another range than that of the level
    estimate = series.distance_of(expected)
    of_one_set = estimate.times(1 / expected.apart)
    if of_one_set.p(math.log(former.figure) - expected.level) <= ALPHA:
        return None
    difference = math.log(row.figure) - expected.level
    return _Test(-difference if a_is_newer else difference, estimate, expected.p_of_night)


def _judged_of(case: Compared, judged: Mapping[Line, Judged], *, a_is_newer: bool) -> Judged | None:
    """Return what the series of a case says, the newer side's first; None without one.

    Groups without a figure have none, as their GPU may not be known. A baseline of an earlier
    release is part of no series: its runs have no namespace.
    """
    sides = (case.a, case.b) if a_is_newer else (case.b, case.a)
    groups = (group for side in sides if side is not None for group in side.groups)
    lines = (group.row.line for group in groups if group.spread is not None)
    return next((judged[line] for line in lines if line in judged), None)


def _logs(side: Figures) -> list[float]:
    return [math.log(value) for value in side.values]


def _beside(mine: Sequence[Group], theirs: Sequence[Group]) -> Compared:
    """Pair the two sides of a case, with their ratio if they have one.

    Groups without a figure are left out of a side that has one, and so are those without a figure
    over the range.
    """
    every = mine, theirs
    mine, theirs = map(_with_figure, every)
    over = ranges.shared(mine, theirs)
    if over is not None:
        mine, theirs = (ranges.judged(groups, over) for groups in (mine, theirs))
    why = {} if over is None else ranges.obstacles((*mine, *theirs), over)
    one, two = (figures(groups, over) if groups else None for groups in (mine, theirs))
    if one is None or two is None:
        return Compared(a=one, b=two, finding="one-side")
    forbidden = (*unlike(mine[-1], theirs[-1]), *why)
    is_stated = any(group.facts.batch_size is not None for group in (mine[-1], theirs[-1]))
    if over is not None and not is_stated and ranges.consume_alike((*mine, *theirs), over):
        forbidden = tuple(name for name in forbidden if name != "batch")
    if one.spread is None or two.spread is None:
        forbidden = tuple(dict.fromkeys((*forbidden, "no-figure")))
        ratio = None
    else:
        ratio = two.spread.median / one.spread.median
    left_out = (
        note
        for name, groups, kept in zip("AB", every, (mine, theirs), strict=True)
        for note in _left_out(name, groups, kept, over)
    )
    return Compared(
        a=one,
        b=two,
        ratio=None if forbidden else ratio,
        finding="not-comparable",
        not_comparable=forbidden,
        over=over,
        notes=_notes(mine[-1], theirs[-1]),
        left_out=tuple(left_out),
    )


def _with_figure(groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups of a side that count; all of them if none does."""
    return [group for group in groups if group.spread is not None] or groups


def _left_out(
    name: str, groups: Sequence[Group], kept: Sequence[Group], over: IterationRange | None
) -> Iterable[str]:
    """Yield which groups of a side are not compared, and why."""
    ids = {group.key.id for group in kept}
    for group in groups:
        if group.key.id not in ids:
            why = (over and ranges.obstacle(group, over)) or group.state
            yield f"{name}: without {group.key.set_name} ({why.replace('-', ' ')})."


def fastest(groups: Sequence[Group], judged: Mapping[str, Judged]) -> Group | None:
    """Return the group that a comparison would call faster than each other one; None without it.

    All have a figure. ``judged`` is what the series of their cases say, by group id.
    """
    rates = {group.key.id: group.spread.median for group in groups if group.spread is not None}
    best = max(groups, key=lambda group: rates[group.key.id])
    others = [group for group in groups if group is not best]
    cases = [
        Compared(
            a=figures([other]),
            b=figures([best]),
            ratio=rates[best.key.id] / rates[other.key.id],
            finding="not-comparable",
        )
        for other in others
    ]
    known = {other.row.line: judged[other.key.id] for other in others if other.key.id in judged}
    _decide(cases, known, None, FLOOR)
    return best if all(case.finding == "faster" for case in cases) else None


def figures(groups: Sequence[Group], over: IterationRange | None = None) -> Figures:
    """Take a case's figures of its counted runs, of their own windows or over a range.

    If no group has a figure over the range, they are those of the own windows.
    """
    own = [member.rate for group in groups for member in group.members if member.rate is not None]
    in_range = [] if over is None else [rate for group in groups for rate in group.rates_over(over)]
    values = in_range or own
    return Figures(
        groups=tuple(groups),
        values=tuple(values),
        unit=groups[-1].unit,
        estimator=groups[-1].estimator,
        spread=spread(values) if values else None,
        runs=sum(len(group.members) for group in groups),
    )


def unlike(one: Group, two: Group) -> tuple[str, ...]:
    """Ids of what forbids a ratio of two groups; ``docs/results.md`` explains them."""
    fields = differing(one, two)
    named: tuple[str, ...] = ("benchmark", "case", "precision")
    ids = [name for name in named if name in fields]
    # An observed job is the same each night, whatever it leaves unsaid.
    facts = [group.facts for group in (one, two) if group.facts.job is None]
    undecided = {name for each in facts for name in each.undecided}
    if not fields:
        # A program computes in the precision in which it did the night before, stated or not.
        undecided.discard("precision")
    ids += [ratios.IDS.get(name, name) for name in sorted(undecided)]
    # Of one program, planned alike, what neither side states is taken as equal.
    return tuple(dict.fromkeys((*ids, *ratios.unlike_in_parity(one, two, is_alike=not fields))))


def _notes(one: Group, two: Group) -> tuple[Note, ...]:
    """Return the allowed differences of the plans."""
    named = {"benchmark", "case", "replicas", "processes_per_replica", "precision", "preset"}
    shown = [name for name in differing(one, two) if name not in named]
    return tuple(
        note(
            "differs-in-a-b",
            field=titles.of_field(name),
            a=str(getattr(one.key, name)),
            b=str(getattr(two.key, name)),
        )
        for name in shown
    )


# -- the newest sets against a baseline -----------------------------------------------------------


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A case of the newest set, held against a baseline."""

    ratio: float
    is_separated: bool
    """True if the difference is statistically significant."""


def labels(facts: Facts, key: GroupKey) -> tuple[str, ...]:
    """Return the user-chosen names that make throughputs comparable over time.

    The last is the namespace. What nothing states is empty.
    """
    return (
        *(facts.benchmark, facts.variant, facts.framework or "", facts.precision or ""),
        *(facts.case or "", facts.preset, facts.pool.name),
        "" if key.namespace == NOT_STATED else key.namespace,
    )


def against(kept: Baseline, known: KnownGroups) -> dict[tuple[str, ...], Held]:
    """Compare the newest set of each case with a baseline, by :func:`labels`.

    Sets with active runs are left out, and the baseline's own: they are no news.
    """
    ours = sides.of_baseline(kept)
    own = {run.set_name for run in ours.runs.values()}
    by_line: dict[Line, GroupRow] = {}
    for row in sorted(known.rows, key=lambda row: row.ended):
        if row.figure is not None and not row.in_progress and row.set_name not in own:
            by_line[row.line] = row
    newest: dict[tuple[str, str], Group] = {}
    for group in sorted(known.groups(by_line.values()), key=lambda group: group.began[1]):
        if any(not differing(one, group) and not unlike(one, group) for one in ours.groups):
            newest[group.row.series, group.key.gpu_model] = group
    side = Side(name="", groups=tuple(newest.values()), runs={})
    held: dict[tuple[str, ...], Held] = {}
    for case in compare(ours, side, earlier=known).cases:
        if case.ratio is not None:
            is_separated = case.finding in ("faster", "slower")
            held[labels(case.group.facts, case.group.key)] = Held(
                ratio=case.ratio, is_separated=is_separated
            )
    return held

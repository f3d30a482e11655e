"""The series of a case: its sets over time, and which of them changed.

Of each case the logarithms of its sets' figures are played in the order of their nights. A *night*
is all sets of the store that began on one day (UTC). A *level* is the sets of a case since its last
change, of which the newest :data:`LEVEL` count. An odd set leaves no level. Each night:

1. **Spread.** The variance of a set is that of successive differences within levels, without
   tonight's, moderated towards what is usual among the cases and a built-in value
   (:mod:`.t_test`). A night on which all cases moved is no part of it.
2. **Correlation** of neighbouring nights, around the lines of the levels of all cases, without the
   newest three nights: a change that begins must not look like it. Correlated nights make the
   spread wider and a level less sure.
3. **One set** is unconfirmed if it is too far from its level for a store with nights as odd as this
   store's, and odder than nearly all of them. If most cases move together, their median is tested
   in the same way. If the next set is nearer to the level, the set differed *once*; else one more
   night decides.
4. **Two sets or more**: the level is cut at each place. The cut with the least p, divided by its
   share, is a *change* if chance explains it in few nights. Sets that agree have mild tails.
5. **Form**: a change is a *step*, or a *drift* where a slope leaves clearly less. It begins with
   the first changed set of the form. A step begins its level there, a drift with its last sets.
6. **Drift**: the slope of a level is tested as well, since small steps of each night are none.
7. **All together**: so is the slope of the median over the cases. Every case that moves the same
   way is marked.
8. **Recovery**: a change downwards stays *open* until the level is no lower than before it, or over
   half has come back and it is not shown to be lower, or a person accepts the level. A change that
   becomes too small is closed for good. While the level is still lower, small drops add up; the
   largest one is named.

A case that flips *alternates*: that is said once, and nothing of it is open.
:mod:`~k8sbench.results.groups.comparison` is sentence 9.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from k8sbench.model.group import GroupRow
from k8sbench.model.series import (
    Acceptance,
    Alternation,
    Expected,
    Judged,
    Line,
    Mark,
    Open,
)
from k8sbench.results.groups import alternation, cuts, drifts, levels, recovery, t_test
from k8sbench.results.groups.alternation import NEWEST, UNDOING
from k8sbench.results.groups.case_state import (
    FEWEST,
    FEWEST_LATER,
    KEPT,
    LEVEL,
    MEMORY,
    RELEVANT,
    CaseState,
    Member,
    Reference,
    State,
    Waiting,
)
from k8sbench.results.groups.distributions import normal_score, student_p
from k8sbench.results.groups.levels import Apart, Correlated, Form
from k8sbench.results.groups.night_values import FEWEST_TOGETHER, JudgedSet, Night
from k8sbench.results.groups.recovery import SETTLED
from k8sbench.results.groups.t_test import Estimate, both

UNSETTLED = 3
"""Newest nights that say nothing of the correlation."""
CORRELATION = Correlated(0.2 * 10, 10)
"""Correlation of nights before it is known, worth ten sets: between independent and 0.5."""
MOST_ODD = 16.0
"""Most that a difference of a set that differed once counts, in variances of a set."""
FAR = 3.0
"""Scores beyond it are tails: chance puts 0.3 % there, t with four degrees of freedom 4 %."""
FAR_AT_FIRST = 1.6
"""Scores beyond :data:`FAR` of :data:`MEMORY` before any is known: t with four degrees."""
TAIL_LEAST, TAIL_MOST = 3.0, 8.0
"""Degrees of freedom of the tails: of the oddest store (public runs have 2 to 4), of the quietest.
"""
ODD = 0.02
"""Share of nights in which chance may mark single sets, over all cases."""
CHANGED = 0.01
"""Share of nights in which chance may mark a change of a case."""
CHANGED_ALL = 0.02
"""Share of nights in which chance may mark a change of any case."""
NIGHT = 1 / 3
"""Variance of a night's median score before it is known: of three independent cases."""
NIGHT_WEIGHT = 10
"""Nights that it is worth."""
DRIFT_TAIL = 3
"""Sets that begin the level after a drift."""


class _Joint(NamedTuple):
    """The median score of all cases of a night."""

    median: float
    p: float
    is_odd: bool

    def shares(self, score: float) -> bool:
        """True if a case moved with the others, at least half as far."""
        return score * math.copysign(1.0, self.median) >= abs(self.median) / 2


class Judge:
    """Judges nights, one after the other."""

    def __init__(
        self, state: State | None = None, accepted: Mapping[Line, Acceptance] | None = None
    ) -> None:
        state = state or State()
        self._round_number = state.round
        self.cases: dict[Line, CaseState] = dict(state.cases)
        self._accepted = accepted or {}
        """The newest acceptance of each case."""
        self.judged: dict[str, Judged] = {}
        """The judged sets, by group id."""
        self.revised: dict[str, Mark | None] = {
            member.group_id: member.mark for case in self.cases.values() for member in case.members
        }
        """Marks of sets that are not among those, and may have changed, by group id."""

    def state(self) -> State:
        """Return the series as later nights need them."""
        return State(self._round_number, list(self.cases.items()))

    def night(self, rows: Sequence[GroupRow]) -> None:
        """Judge the sets of a night, which have a figure, in the order of their begin."""
        rounds: list[list[GroupRow]] = []
        seen: dict[Line, int] = {}
        for row in rows:
            at = seen.get(row.line, 0)
            seen[row.line] = at + 1
            if at == len(rounds):
                rounds.append([])
            rounds[at].append(row)
        for some in rounds:
            self._judge_round(some, others=len(rows) - len(some), cases=len(seen))

    def _judge_round(self, rows: Sequence[GroupRow], *, others: int, cases: int) -> None:
        """Judge one set of each case; ``others`` is the number of the night's other sets."""
        self._round_number += 1
        sets = [self._set_of(row) for row in rows]
        night = self._night_of(sets, others, cases)
        for each in sets:
            self._accept(each)
            _expect(each, night)
        joint = _joint([each for each in sets if each.expected is not None], night)
        for each in sets:
            _join(each, night, counts=joint is None or not joint.is_odd)
        changed = {id(each) for each in sets if self._cut(each, night)}
        others_of_night = [each for each in sets if id(each) not in changed]
        for each in others_of_night:
            self._judge_one(each, night, joint)
        for each in others_of_night:
            if self._find_drift(each, night):
                changed.add(id(each))
        self._find_shared_drift([each for each in sets if id(each) not in changed], night)
        for each in sets:
            self._alternate(each)
            self._recover(each, night)
            self._accept(each)
            _remember_correlation(each.state, each.expected)
            self.judged[each.row.group_id] = Judged(
                mark=each.state.members[-1].mark,
                open=each.state.visible,
                expected=None if each.expected is None else _with_joint(each, joint),
                closed=each.closed,
                alternating=each.state.alternation,
            )

    def _set_of(self, row: GroupRow) -> JudgedSet:
        state = self.cases.setdefault(row.line, CaseState())
        value = math.log(row.figure or math.nan)
        back = self._decide(state, value)
        return JudgedSet(row, state, value, state.spread(), back=back)

    # -- 1 to 3: what is expected of a night, and one set ----------------------------------------

    def _night_of(self, sets: Sequence[JudgedSet], others: int, cases: int) -> Night:
        """Return what the earlier nights tell of this one."""
        by_round = self._record()
        scores = [score for some in by_round.values() for score in some]
        far = sum(abs(score) > FAR for score in scores)
        tail = _tail_of((FAR_AT_FIRST + far) / (MEMORY + len(scores)))
        oddest = max(map(abs, scores), default=0.0)
        parts = [part for state in self.cases.values() for part in (state.earlier, state.present)]
        total = Correlated(sum(part.total for part in parts), sum(part.sets for part in parts))
        correlation = total.plus(CORRELATION).value()
        judged = sum(_can_be_judged(each) for each in sets)
        return Night(
            number=self._round_number,
            tests=max(judged + others, 1),
            cases=cases,
            usual=t_test.usual([each.spread for each in sets if each.spread is not None]),
            correlation=correlation,
            correlation_of_drift=total.plus(drifts.CORRELATION_OF_DRIFT).value(),
            apart=Apart(correlation),
            tail=tail,
            least_p=student_p(oddest, tail) * _share_of_memory(len(by_round)),
            medians=[
                statistics.median(some)
                for some in by_round.values()
                if len(some) >= FEWEST_TOGETHER
            ],
        )

    def _record(self) -> dict[int, list[float]]:
        """Return the scores of the newest nights, all cases, by round."""
        oldest = self._round_number - MEMORY + 1
        by_round: defaultdict[int, list[float]] = defaultdict(list)
        for state in self.cases.values():
            for member in reversed(state.members):
                if member.round < oldest:
                    break
                if member.score is not None:
                    by_round[member.round].append(member.score)
        return by_round

    def _judge_one(self, each: JudgedSet, night: Night, joint: _Joint | None) -> None:
        """Mark a set of a case if it is odd."""
        expected = each.expected
        if expected is None:
            return
        newest = each.state.members[-1]
        shares = joint is not None and joint.is_odd and joint.shares(each.score)
        p = p_of_set(expected, each.value)
        tests = night.tests + (joint is not None)
        is_odd = p * tests <= ODD and student_p(each.score, night.tail) <= night.least_p
        if not is_odd and not shares:
            return
        p_of_night = joint.p if shares and joint is not None else 1.0
        newest.mark = Mark(
            "unconfirmed",
            math.expm1(each.value - expected.level),
            min(1.0, min(p, p_of_night) * tests),
            newest.set_name,
        )
        each.state.waiting.append(Waiting(each.state.sets - 1, expected.level, expected.variance))

    def _decide(self, state: CaseState, value: float) -> Waiting | None:
        """Return the odd set that a new one is back from: it is nearer to the level than to that.

        One of the next two sets decides. What neither decides has no mark, unless a cut confirms
        it.
        """
        back: Waiting | None = None
        left: list[Waiting] = []
        for waiting in state.waiting:
            odd = state.member(waiting.place)
            if odd is None:
                continue
            waiting.nights += 1
            if abs(value - waiting.level) < abs(value - odd.value):
                self._end_as_once(odd)
                odd.most = MOST_ODD * waiting.variance
                back = waiting
            elif waiting.nights < 2:
                left.append(waiting)
            elif odd.mark is not None and odd.mark.kind == "unconfirmed":
                odd.mark = None
                self._revise(odd)
        state.waiting = left
        return back

    def _end_as_once(self, odd: Member | None) -> None:
        """Note that an unconfirmed set differed once; one that began a change has another mark."""
        if odd is not None and odd.mark is not None and odd.mark.kind == "unconfirmed":
            odd.mark = odd.mark._replace(kind="once")
            self._revise(odd)

    # -- 4 and 5: a level that is cut -------------------------------------------------------------

    def _cut(self, each: JudgedSet, night: Night) -> bool:
        """Begin a level where the present one is most unlike, if chance does not explain it."""
        if each.expected is None:
            return False
        state = each.state
        level = state.level(LEVEL + 1)
        cut = cuts.most_unlike(each, level, night)
        if cut is None or cut.p > CHANGED:
            return False
        p = cut.p * night.tests
        if p > CHANGED_ALL:
            return False
        change = cut.after - cut.before
        newest = len(level) - cut.place
        first = state.members[-newest]
        view = state.agreeing(drifts.DRIFT, changed=first.round)
        place = view.index(first)
        form = Form("step", place, change, cut.before, night.apart.independent(cut.place))
        if len(view) >= SETTLED + 2:
            values = [member.value for member in view]
            best = levels.form_of(values, each.expected.variance)
            if best.change * change > 0 and (best.kind == "drift" or best.place != place):
                form = best._replace(weight=night.apart.independent(best.weight))
        self._change(each, form, view, p, night)
        # Against the level before: what the change adds to the spread is no part of it.
        each.expected = each.expected._replace(
            level=cut.before,
            level_sets=cut.place,
            level_until=first.began,
            variance=cut.estimate.variance,
            freedom=cut.estimate.freedom,
            apart=night.apart(1, cut.place),
        )
        return True

    def _change(
        self,
        each: JudgedSet,
        form: Form,
        view: Sequence[Member],
        p: float,
        night: Night,
        together: int = 0,
    ) -> None:
        """Mark a change, and begin its level; ``view`` are the sets of the form."""
        state = each.state
        since = view[form.place]
        mark = Mark(form.kind, math.expm1(form.change), min(1.0, p), since.set_name, together)
        is_step = form.kind == "step"
        changed = sum(member.round >= since.round for member in state.members)
        count = changed if is_step else min(DRIFT_TAIL, state.in_level - 1)
        begun = state.members[-count:]
        for member in state.members[-changed:]:
            if member.mark is not None and member.mark.kind in ("unconfirmed", "once", "back"):
                member.mark = None
                self._revise(member)
        marked = since if is_step else state.members[-1]
        replaced = marked.mark
        marked.mark = mark
        self._revise(marked)
        # The set before, too: it may have begun the change.
        for member in state.members[-count - 1 :]:
            member.score = None
        begun[0].counts = False
        former = state.level(KEPT)[:-count]
        state.earlier = state.earlier.plus(levels.correlated(former[-MEMORY:], each.deviation))
        ended = len(former)
        if ended >= SETTLED:
            state.settled = statistics.fmean(former[-LEVEL:]), min(ended, LEVEL)
        state.in_level = count
        for waiting in state.waiting:
            self._end_as_once(state.member(waiting.place))
        state.waiting = []
        if is_step:
            state.steps = [*state.steps[1 - UNDOING :], (state.sets - count, form.change)]
        reference = Reference(form.base, form.weight, since.began)
        recovery.follow(each, mark, reference, ended, night)
        fallen = state.fallen
        if replaced is not None and fallen is not None and fallen.since == replaced.since:
            state.fallen = fallen._replace(kind=mark.kind, since=mark.since)
            state.drops = [mark if drop.since == replaced.since else drop for drop in state.drops]
        # A change beyond the two levels ends the alternation.
        state.alternation = None

    # -- 6 and 7: drifts --------------------------------------------------------------------------

    def _find_drift(self, each: JudgedSet, night: Night) -> bool:
        """Mark a drift of a level."""
        drift = drifts.of_level(each, night)
        if drift is None:
            return False
        self._change(each, drift.form, drift.members, drift.p, night)
        return True

    def _find_shared_drift(self, sets: Sequence[JudgedSet], night: Night) -> None:
        """Mark the drift that all cases share."""
        shared = drifts.of_all(sets, night)
        for each, drift in shared:
            self._change(each, drift.form, drift.members, drift.p, night, together=len(shared))

    # -- 8: what is open --------------------------------------------------------------------------

    def _recover(self, each: JudgedSet, night: Night) -> None:
        """Close what is open if the case has recovered, or has come so near that it is none."""
        state = each.state
        newest = state.members[-1].mark
        is_odd = newest is not None and newest.kind == "unconfirmed"
        if state.reference is None or is_odd or each.expected is None:
            return
        if state.in_level < SETTLED:
            return
        apart, is_lower = recovery.lower(each, state.reference, night)
        if recovery.is_back(state, apart, is_lower=is_lower):
            recovery.close(each)
        elif state.fallen is not None:
            state.fallen = state.fallen._replace(change=math.expm1(apart))
            if state.fallen.change > -RELEVANT:
                recovery.end(each, "recovery", each.row.began)

    def _accept(self, each: JudgedSet) -> None:
        """Close the change of a case whose level was accepted before a set."""
        state = each.state
        accepted = self._accepted.get(each.row.line)
        if state.reference is None or accepted is None:
            return
        if state.reference.began <= accepted.began < each.row.began:
            recovery.close(each, by_person_at=accepted.at)

    # -- a case that alternates -------------------------------------------------------------------

    def _alternate(self, each: JudgedSet) -> None:
        """Begin or end the alternation of a case between two levels."""
        state = each.state
        newest = state.members[-NEWEST:]
        if len(newest) < NEWEST:
            return
        values = [member.value for member in newest]
        if state.alternation is not None:
            self._end_alternation(each, newest)
            return
        two = alternation.two_levels(values)
        if two is None:
            return
        if two.flips < alternation.FLIPS and not alternation.undo_each_other(state):
            return
        low, high = two.low, two.high
        state.alternation = Alternation(low, high)
        state.in_level = NEWEST
        state.waiting = []
        reference = state.reference
        if reference is not None and math.expm1(high - reference.level) > -RELEVANT:
            state.reference = None
            state.fallen = None

    def _end_alternation(self, each: JudgedSet, newest: Sequence[Member]) -> None:
        """End the alternation of a case whose newest sets lie near each other.

        If that is at the lower level, it has fallen.
        """
        state = each.state
        two = state.alternation
        assert two is not None
        values = [member.value for member in newest]
        near = alternation.NEAR * (two.high - two.low)
        between = sum(two.low + near < value < two.high - near for value in values)
        if between >= UNDOING:
            # There are no two levels.
            state.alternation = None
            return
        middle = statistics.median(values)
        half = (two.high - two.low) / 2
        if any(abs(value - middle) >= half / 2 for value in values):
            return
        state.alternation = None
        apart = statistics.fmean(values) - two.high
        if -apart < half or math.expm1(apart) > -RELEVANT or state.reference is not None:
            return
        since = newest[0]
        p = alternation.spread_of_both(values).times(1 / NEWEST + 1 / UNDOING).p(apart)
        since.mark = Mark("step", math.expm1(apart), p, since.set_name)
        self._revise(since)
        state.reference = Reference(two.high, float(UNDOING), since.began)
        state.fallen = Open("step", math.expm1(apart), since.set_name, since.began)
        state.opened = apart

    def _revise(self, member: Member) -> None:
        """Give a set another mark than it had."""
        judged = self.judged.get(member.group_id)
        if judged is None:
            self.revised[member.group_id] = member.mark
        else:
            self.judged[member.group_id] = judged._replace(mark=member.mark)


# -- sentences 1 to 3 -----------------------------------------------------------------------------


def _share_of_memory(nights: int) -> float:
    """Return the share of the oddest p that a new set must not exceed: few nights say little."""
    return min(0.5, (nights + 1) / MEMORY)


@functools.cache
def _tails() -> list[tuple[float, float]]:
    """Return the shares that t puts beyond :data:`FAR`, with their degrees of freedom."""
    steps = 200
    inverse = [
        1 / TAIL_LEAST + (1 / TAIL_MOST - 1 / TAIL_LEAST) * step / (steps - 1)
        for step in range(steps)
    ]
    return [(student_p(FAR, 1 / value), 1 / value) for value in inverse]


def _tail_of(share: float) -> float:
    """Return the degrees of freedom whose t puts a share beyond :data:`FAR`."""
    return min(_tails(), key=lambda tail: abs(tail[0] - share))[1]


def _can_be_judged(each: JudgedSet) -> bool:
    fewest = FEWEST if each.state.is_first else FEWEST_LATER
    return each.spread is not None and each.state.in_level >= fewest


def _expect(each: JudgedSet, night: Night) -> None:
    """Add what is expected of a set, and how far it is from that."""
    if each.spread is None or not _can_be_judged(each):
        return
    state = each.state
    estimate = night.moderated(each.spread)
    if state.alternation is not None:
        estimate = alternation.spread_of_both([member.value for member in state.members[-NEWEST:]])
    level = state.level(LEVEL)
    deviation = math.sqrt(estimate.variance)
    middle = levels.level_mean(level, deviation)
    each.expected = Expected(
        level=middle,
        level_sets=len(level),
        level_began=state.members[-min(state.in_level, KEPT)].began,
        level_until=each.row.began,
        variance=estimate.variance,
        freedom=estimate.freedom,
        apart=night.apart(1, len(level)),
        tail=night.tail,
        sets=state.sets,
    )
    each.t = (each.value - middle) / (deviation * math.sqrt(each.expected.apart))
    each.score = normal_score(each.t, estimate.freedom)


def distance_of(expected: Expected) -> Estimate:
    """Return the variance of a set's distance from its level, with the tails of the store."""
    freedom = both(expected.freedom, expected.tail)
    return Estimate(expected.variance * expected.apart, freedom)


def p_of_set(expected: Expected, value: float) -> float:
    """Return the p of a set's distance from its level, or 1 where it is above 5 % anyway."""
    return distance_of(expected).p_if_small(value - expected.level)


def _joint(sets: Sequence[JudgedSet], night: Night) -> _Joint | None:
    """Test the median score of all cases of a night; None for few cases."""
    if len(sets) < FEWEST_TOGETHER:
        return None
    median = statistics.median([each.score for each in sets])
    nights = len(night.medians)
    squares = math.fsum(value**2 for value in night.medians)
    deviation = math.sqrt((NIGHT_WEIGHT * NIGHT + squares) / (NIGHT_WEIGHT + nights))
    freedom = float(NIGHT_WEIGHT + nights)
    p = student_p(median / deviation, freedom)
    oddest = max(map(abs, night.medians), default=0.0)
    least_p = student_p(oddest / deviation, freedom) * _share_of_memory(nights)
    return _Joint(median, p, p * (night.tests + 1) <= ODD and p <= least_p)


def _with_joint(each: JudgedSet, joint: _Joint | None) -> Expected | None:
    """Add the p of the night as a whole to what was expected of a case that moved with it."""
    if each.expected is None or joint is None:
        return each.expected
    p = joint.p if joint.shares(each.score) else None
    return each.expected._replace(p_of_night=p)


def _join(each: JudgedSet, night: Night, *, counts: bool) -> None:
    """Add a set to its case."""
    state = each.state
    row = each.row
    member = Member(
        group_id=row.group_id,
        set_name=row.set_name,
        began=row.began,
        round=night.number,
        value=each.value,
        counts=counts and bool(state.members),
        score=None if each.expected is None else each.score,
    )
    if each.back is not None:
        member.most = MOST_ODD * each.back.variance
        odd = state.member(each.back.place)
        if odd is not None and odd.mark is not None:
            member.mark = odd.mark._replace(kind="back")
    state.members = [*state.members[1 - KEPT :], member]
    state.sets += 1
    state.in_level += 1


def _remember_correlation(state: CaseState, expected: Expected | None) -> None:
    """Keep what the level tells of the correlation, without the newest nights."""
    count = min(state.in_level, MEMORY + UNSETTLED)
    values = [member.value for member in state.members[-count:]][:-UNSETTLED]
    deviation = math.inf if expected is None else math.sqrt(expected.variance)
    state.present = levels.correlated(values, deviation)


# -- sentence 4 -----------------------------------------------------------------------------------

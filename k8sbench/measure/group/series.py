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
:mod:`~k8sbench.measure.group.comparison` is sentence 9.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from k8sbench.measure.group import levels, t_test
from k8sbench.measure.group.case_state import (
    KEPT,
    LEVEL,
    MEMORY,
    RELEVANT,
    CaseState,
    Member,
    Reference,
    State,
    Waiting,
    squares_of,
)
from k8sbench.measure.group.distributions import normal_score, student_p
from k8sbench.measure.group.levels import Apart, Correlated, Form
from k8sbench.measure.group.t_test import RESOLUTION, Estimate
from k8sbench.model.group import GroupRow
from k8sbench.model.series import (
    Acceptance,
    Alternation,
    Closed,
    Expected,
    Judged,
    Line,
    Mark,
    Open,
)

FEWEST = 4
"""Sets of a first level from which a further set is judged."""
FEWEST_LATER = 2
"""Sets of a later level from which a further set is judged."""
UNSETTLED = 3
"""Newest nights that say nothing of the correlation."""
CORRELATION = Correlated(0.2 * 10, 10)
"""Correlation of nights before it is known, worth ten sets: between independent and 0.5."""
CORRELATION_OF_DRIFT = Correlated(0.4 * 20, 20)
"""The same for a drift, which is the stronger claim: worth twenty sets."""
LIMIT_OF_LEVEL = 2.0
"""Standard deviations from the median of a level that a set counts at most."""
LIMIT_OF_CUT = 1.5
"""The same on both sides of a cut."""
LIMIT_OF_FEW = 1.0
"""The same for two or three sets after a cut."""
FEW_BEFORE = 4
"""Sets before a cut of which an odd one is no level: the first set of a change is often odd."""
MOST_ODD = 16.0
"""Most that a difference of a set that differed once counts, in variances of a set."""
FAR = 3.0
"""Scores beyond it are tails: chance puts 0.3 % there, t with four degrees of freedom 4 %."""
FAR_AT_FIRST = 1.6
"""Scores beyond :data:`FAR` of :data:`MEMORY` before any is known: t with four degrees."""
TAIL_LEAST, TAIL_MOST = 3.0, 8.0
"""Degrees of freedom of the tails: of the oddest store (public runs have 2 to 4), of the quietest.
"""
TAIL_OF_SEVERAL = 20.0
"""Degrees of freedom of the tails of two sets or more that agree."""
ODD = 0.02
"""Share of nights in which chance may mark single sets, over all cases."""
CHANGED = 0.01
"""Share of nights in which chance may mark a change of a case."""
CHANGED_ALL = 0.02
"""Share of nights in which chance may mark a change of any case."""
SHARES = {2: 0.3, 3: 0.5}
"""Shares of :data:`CHANGED` for a change of the newest two and three sets."""
SHARE_OF_OTHERS = 0.2
"""Share for all other places together."""
FEWEST_TOGETHER = 3
"""Cases from which a night is tested as a whole."""
NIGHT = 1 / 3
"""Variance of a night's median score before it is known: of three independent cases."""
NIGHT_WEIGHT = 10
"""Nights that it is worth."""
NOT_SMALL = 2.5
"""A t below it has a p above 1 % for any number of degrees of freedom."""
DRIFT = 30
"""Newest sets of a level in which a drift is looked for: a month."""
FEWEST_OF_DRIFT = 7
"""Fewest of them: five differences after the mean and the line."""
DRIFTED = 0.01
"""p of a drift over the cases of a night, and once more for all cases together."""
DRIFT_TAIL = 3
"""Sets that begin the level after a drift."""
SETTLED = 4
"""Sets of a level that closes a drop, or that a case falls from."""
RECOVERED = 0.05
"""p above which a level is not shown to be lower."""
HALF = 0.5
"""Share of a drop that must have come back."""
NEWEST = 10
"""Newest sets that show whether a case alternates."""
FLIPS = 5
"""Flips among them of a case that alternates: three visits to a level."""
UNDOING = 3
"""Steps that undo each other of such a case."""
FEWEST_OF_LEVEL = 3
"""Sets of each of the two levels."""
GAP = 6.0
"""Standard deviations within the two levels that lie between them at least.

Ten sets of one level show six in 0.07 %, and four in 0.5 %. By chance none leaves the pager.
"""
NEAR = 0.25
"""Share of the distance of the two levels within which a set is at one of them."""
UNDONE = 0.25
"""Share of a step by which one that undoes it may differ."""


class _Night(NamedTuple):
    """Values that the sets of a round share."""

    number: int
    """Number of the round."""
    tests: int
    """Number of sets of the night that are tested, at least 1."""
    cases: int
    """Number of cases of the night."""
    usual: Estimate | None
    """Usual spread between sets; None for few cases."""
    correlation: float
    correlation_of_drift: float
    """Correlation that is taken for a drift."""
    apart: Apart
    tail: float
    """Degrees of freedom of the tails of this store's nights."""
    least_p: float
    """p by these tails up to which a score is odder than nearly all on record."""
    medians: Sequence[float]
    """Median scores of the nights on record with enough cases."""

    def moderated(self, spread: Estimate) -> Estimate:
        """Return the variance of a set of a case; nights are correlated."""
        return t_test.with_usual(spread, self.usual).times(1 / (1 - self.correlation))


class _Joint(NamedTuple):
    """The median score of all cases of a night."""

    median: float
    p: float
    is_odd: bool

    def shares(self, score: float) -> bool:
        """True if a case moved with the others, at least half as far."""
        return score * math.copysign(1.0, self.median) >= abs(self.median) / 2


class _Set(msgspec.Struct):
    """A set that is added to its case."""

    row: GroupRow
    state: CaseState
    value: float
    """Logarithm of its figure."""
    spread: Estimate | None
    """Spread of the case without this set; None with too few differences."""
    expected: Expected | None = None
    """Its level and spread before it; None with too few sets."""
    t: float = 0.0
    """Distance from its level, in standard deviations."""
    score: float = 0.0
    closed: Closed | None = None
    """The change that was closed with it."""
    back: Waiting | None = None
    """The odd set that it is back from."""


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

    def _set_of(self, row: GroupRow) -> _Set:
        state = self.cases.setdefault(row.line, CaseState())
        value = math.log(row.figure or math.nan)
        back = self._decide(state, value)
        return _Set(row, state, value, state.spread(), back=back)

    # -- 1 to 3: what is expected of a night, and one set ----------------------------------------

    def _night_of(self, sets: Sequence[_Set], others: int, cases: int) -> _Night:
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
        return _Night(
            number=self._round_number,
            tests=max(judged + others, 1),
            cases=cases,
            usual=t_test.usual([each.spread for each in sets if each.spread is not None]),
            correlation=correlation,
            correlation_of_drift=total.plus(CORRELATION_OF_DRIFT).value(),
            apart=Apart(correlation),
            tail=tail,
            least_p=student_p(oddest, tail) * _share_of_memory(len(by_round)),
            medians=[
                levels.median(some) for some in by_round.values() if len(some) >= FEWEST_TOGETHER
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

    def _judge_one(self, each: _Set, night: _Night, joint: _Joint | None) -> None:
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

    def _cut(self, each: _Set, night: _Night) -> bool:
        """Begin a level where the present one is most unlike, if chance does not explain it."""
        if each.expected is None:
            return False
        state = each.state
        level = state.level(LEVEL + 1)
        cut = _most_unlike(each, level, night)
        if cut is None or cut.p > CHANGED:
            return False
        p = cut.p * night.tests
        if p > CHANGED_ALL:
            return False
        change = cut.after - cut.before
        newest = len(level) - cut.place
        first = state.members[-newest]
        view = state.agreeing(DRIFT, changed=first.round)
        place = view.index(first)
        form = Form("step", place, change, cut.before, night.apart.independent(cut.place))
        if len(view) >= SETTLED + 2:
            values = [member.value for member in view]
            best = levels.form_of(values, each.expected.variance)
            if best.change * change > 0 and (best.kind == "drift" or best.place != place):
                form = best._replace(weight=_independent(best.weight, night))
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
        each: _Set,
        form: Form,
        view: Sequence[Member],
        p: float,
        night: _Night,
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
        state.earlier = state.earlier.plus(levels.correlated(former[-MEMORY:], _deviation(each)))
        ended = len(former)
        if ended >= SETTLED:
            state.settled = levels.mean(former[-LEVEL:]), min(ended, LEVEL)
        state.in_level = count
        for waiting in state.waiting:
            self._end_as_once(state.member(waiting.place))
        state.waiting = []
        if is_step:
            state.steps = [*state.steps[1 - UNDOING :], (state.sets - count, form.change)]
        reference = Reference(form.base, form.weight, since.began)
        _follow(each, mark, reference, ended, night)
        fallen = state.fallen
        if replaced is not None and fallen is not None and fallen.since == replaced.since:
            state.fallen = fallen._replace(kind=mark.kind, since=mark.since)
            state.drops = [mark if drop.since == replaced.since else drop for drop in state.drops]
        # A change beyond the two levels ends the alternation.
        state.alternation = None

    # -- 6 and 7: drifts --------------------------------------------------------------------------

    def _find_drift(self, each: _Set, night: _Night) -> bool:
        """Mark a drift of a level."""
        state = each.state
        if state.waiting or state.alternation is not None or each.expected is None:
            return False
        members = state.agreeing(DRIFT)
        if len(members) < FEWEST_OF_DRIFT:
            return False
        level = [member.value for member in members]
        p = _p_of_slope(level, night.usual, night.correlation_of_drift) * night.cases
        if p > DRIFTED:
            return False
        form = levels.form_of(level, each.expected.variance)
        if abs(form.change) < RELEVANT:
            return False
        form = form._replace(weight=_independent(form.weight, night))
        self._change(each, form, members, p, night)
        return True

    def _find_shared_drift(self, sets: Sequence[_Set], night: _Night) -> None:
        """Mark the drift that all cases share."""
        drifting = [each for each in sets if not each.state.waiting and not each.state.alternation]
        if len(drifting) < FEWEST_TOGETHER:
            return
        begins = [each.state.members[-min(each.state.in_level, KEPT)].round for each in drifting]
        middle = sorted(begins)[len(begins) // 2]
        begin = max(middle, night.number - DRIFT + 1)
        drifting = [each for each, at in zip(drifting, begins, strict=True) if at <= begin]
        if len(drifting) < FEWEST_TOGETHER:
            return
        by_round: defaultdict[int, list[float]] = defaultdict(list)
        for each in drifting:
            members = _since(each.state, begin)
            own_mean = levels.mean([member.value for member in members])
            for member in members:
                by_round[member.round].append(member.value - own_mean)
        rounds = sorted(by_round)
        common = [levels.median(by_round[at]) for at in rounds]
        if len(common) < FEWEST_OF_DRIFT:
            return
        spread = levels.spread_around_slope(common)
        correlation = levels.correlated(common).plus(CORRELATION_OF_DRIFT).value()
        p = _p_of_slope(common, None, correlation)
        shared = levels.form_of(common, spread.variance / (1 - correlation))
        if p > DRIFTED or abs(shared.change) < RELEVANT:
            return
        self._mark_shared(drifting, begin, rounds[shared.place], shared, p, night)

    def _mark_shared(
        self,
        drifting: Sequence[_Set],
        begin: int,
        first: int,
        shared: Form,
        p: float,
        night: _Night,
    ) -> None:
        """Mark each case that moves as all do; ``first`` is the round of the first changed sets."""
        forms: list[tuple[_Set, Form, Sequence[Member]]] = []
        for each in drifting:
            members = _since(each.state, begin)
            count = len(members)
            place = sum(member.round < first for member in members)
            if each.expected is None or count < FEWEST_OF_DRIFT or not 1 <= place <= count - 2:
                continue
            form = levels.form_at(shared.kind, [member.value for member in members], place)
            if form.change * shared.change > 0:
                weight = _independent(form.weight, night)
                forms.append((each, form._replace(weight=weight), members))
        for each, form, view in forms:
            self._change(each, form, view, p, night, together=len(forms))

    # -- 8: what is open --------------------------------------------------------------------------

    def _recover(self, each: _Set, night: _Night) -> None:
        """Close what is open if the case has recovered, or has come so near that it is none."""
        state = each.state
        newest = state.members[-1].mark
        is_odd = newest is not None and newest.kind == "unconfirmed"
        if state.reference is None or is_odd or each.expected is None:
            return
        if state.in_level < SETTLED:
            return
        apart, is_lower = _lower(each, state.reference, night)
        if _is_back(state, apart, is_lower=is_lower):
            _close(each)
        elif state.fallen is not None:
            state.fallen = state.fallen._replace(change=math.expm1(apart))
            if state.fallen.change > -RELEVANT:
                _end(each, "recovery", each.row.began)

    def _accept(self, each: _Set) -> None:
        """Close the change of a case whose level was accepted before a set."""
        state = each.state
        accepted = self._accepted.get(each.row.line)
        if state.reference is None or accepted is None:
            return
        if state.reference.began <= accepted.began < each.row.began:
            _close(each, by_person_at=accepted.at)

    # -- a case that alternates -------------------------------------------------------------------

    def _alternate(self, each: _Set) -> None:
        """Begin or end the alternation of a case between two levels."""
        state = each.state
        newest = state.members[-NEWEST:]
        if len(newest) < NEWEST:
            return
        values = [member.value for member in newest]
        if state.alternation is not None:
            self._end_alternation(each, newest)
            return
        two = _two_levels(values)
        if two is None or not (two.flips >= FLIPS or _undo_each_other(state)):
            return
        low, high = two.low, two.high
        state.alternation = Alternation(low, high)
        state.in_level = NEWEST
        state.waiting = []
        reference = state.reference
        if reference is not None and math.expm1(high - reference.level) > -RELEVANT:
            state.reference = None
            state.fallen = None

    def _end_alternation(self, each: _Set, newest: Sequence[Member]) -> None:
        """End the alternation of a case whose newest sets lie near each other.

        If that is at the lower level, it has fallen.
        """
        state = each.state
        alternation = state.alternation
        assert alternation is not None
        values = [member.value for member in newest]
        near = NEAR * (alternation.high - alternation.low)
        between = sum(alternation.low + near < value < alternation.high - near for value in values)
        if between >= UNDOING:
            # There are no two levels.
            state.alternation = None
            return
        middle = levels.median(values)
        half = (alternation.high - alternation.low) / 2
        if any(abs(value - middle) >= half / 2 for value in values):
            return
        state.alternation = None
        apart = levels.mean(values) - alternation.high
        if -apart < half or math.expm1(apart) > -RELEVANT or state.reference is not None:
            return
        since = newest[0]
        p = _spread_of_both(values).times(1 / NEWEST + 1 / UNDOING).p(apart)
        since.mark = Mark("step", math.expm1(apart), p, since.set_name)
        self._revise(since)
        state.reference = Reference(alternation.high, float(UNDOING), since.began)
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


def _can_be_judged(each: _Set) -> bool:
    fewest = FEWEST if each.state.is_first else FEWEST_LATER
    return each.spread is not None and each.state.in_level >= fewest


def _expect(each: _Set, night: _Night) -> None:
    """Add what is expected of a set, and how far it is from that."""
    if each.spread is None or not _can_be_judged(each):
        return
    state = each.state
    estimate = night.moderated(each.spread)
    if state.alternation is not None:
        estimate = _spread_of_both([member.value for member in state.members[-NEWEST:]])
    level = state.level(LEVEL)
    deviation = math.sqrt(estimate.variance)
    middle = levels.limited_mean(level, levels.median(level), LIMIT_OF_LEVEL * deviation)
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


def p_of_set(expected: Expected, value: float) -> float:
    """Return the p of a set's distance from its level, or 1 where it is above 5 % anyway."""
    t = (value - expected.level) / math.sqrt(expected.variance * expected.apart)
    if abs(t) < t_test.SMALL:
        return 1.0
    return student_p(t, both(expected.freedom, expected.tail))


def _joint(sets: Sequence[_Set], night: _Night) -> _Joint | None:
    """Test the median score of all cases of a night; None for few cases."""
    if len(sets) < FEWEST_TOGETHER:
        return None
    median = levels.median([each.score for each in sets])
    nights = len(night.medians)
    squares = math.fsum(value**2 for value in night.medians)
    deviation = math.sqrt((NIGHT_WEIGHT * NIGHT + squares) / (NIGHT_WEIGHT + nights))
    freedom = float(NIGHT_WEIGHT + nights)
    p = student_p(median / deviation, freedom)
    oddest = max(map(abs, night.medians), default=0.0)
    least_p = student_p(oddest / deviation, freedom) * _share_of_memory(nights)
    return _Joint(median, p, p * (night.tests + 1) <= ODD and p <= least_p)


def _with_joint(each: _Set, joint: _Joint | None) -> Expected | None:
    """Add the p of the night as a whole to what was expected of a case that moved with it."""
    if each.expected is None or joint is None:
        return each.expected
    p = joint.p if joint.shares(each.score) else None
    return each.expected._replace(p_of_night=p)


def _join(each: _Set, night: _Night, *, counts: bool) -> None:
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


def _deviation(each: _Set) -> float:
    return math.inf if each.expected is None else math.sqrt(each.expected.variance)


def _remember_correlation(state: CaseState, expected: Expected | None) -> None:
    """Keep what the level tells of the correlation, without the newest nights."""
    count = min(state.in_level, MEMORY + UNSETTLED)
    values = [member.value for member in state.members[-count:]][:-UNSETTLED]
    deviation = math.inf if expected is None else math.sqrt(expected.variance)
    state.present = levels.correlated(values, deviation)


# -- sentence 4 -----------------------------------------------------------------------------------


class _Cut(NamedTuple):
    """The most unlike place of a level."""

    p: float
    """p of the difference, divided by the share of the place."""
    place: int
    """Number of sets before it."""
    before: float
    after: float
    estimate: Estimate
    """Variance of a set."""


def _most_unlike(each: _Set, level: Sequence[float], night: _Night) -> _Cut | None:
    """Return the cut with the least p; None where chance explains each."""
    state = each.state
    is_whole = len(level) == state.in_level
    fewest = FEWEST if state.is_first or not is_whole else FEWEST_LATER
    members = state.members[-MEMORY:]
    squares, count = squares_of(members)
    # Tonight's difference counts, also if all cases moved.
    if not members[-1].counts and len(members) > 1:
        squares += (members[-1].value - members[-2].value) ** 2
        count += 1
    best: _Cut | None = None
    for newest in range(2, len(level) - fewest + 1):
        place = len(level) - newest
        is_counted = newest < len(members) and members[-newest].counts
        square = min((level[place] - level[place - 1]) ** 2, members[-newest].most)
        square = square if is_counted else 0.0
        estimate = night.moderated(levels.spread(squares - square, count - is_counted))
        if state.alternation is not None:
            estimate = _spread_of_both(level[:place][-NEWEST:])
        cut = _cut_at(level, place, estimate, night)
        if cut is not None and (best is None or cut.p < best.p):
            best = cut
    return best


def _cut_at(level: Sequence[float], place: int, estimate: Estimate, night: _Night) -> _Cut | None:
    """Return the p of a cut; None where it is above :data:`CHANGED`."""
    former, later = level[:place], sorted(level[place:])
    newest = len(later)
    deviation = math.sqrt(estimate.variance)
    middle = levels.median(former)
    limit_before = LIMIT_OF_CUT
    is_few = len(former) < FEW_BEFORE
    if is_few:
        middle = _nearer_middle(former, levels.median(later))
        limit_before = LIMIT_OF_FEW
    before = levels.limited_mean(former, middle, limit_before * deviation)
    centre = _nearer_middle(later, middle)
    limit = LIMIT_OF_FEW if newest < 4 else LIMIT_OF_CUT
    after = levels.limited_mean(later, centre, limit * deviation)
    t = (after - before) / (deviation * math.sqrt(night.apart(newest, place)))
    begins_otherwise = is_few and (level[place] - before) * t <= 0
    if abs(t) < NOT_SMALL or begins_otherwise:
        return None
    p = student_p(t, both(estimate.freedom, TAIL_OF_SEVERAL))
    share = SHARES.get(newest, SHARE_OF_OTHERS / max(1, len(level) - 5))
    return _Cut(p / share, place, before, after, estimate)


def _nearer_middle(values: Sequence[float], to: float) -> float:
    """Return the middle value, of two the one nearer to another value."""
    ordered = sorted(values)
    count = len(ordered)
    return min(ordered[count // 2], ordered[(count - 1) // 2], key=lambda value: abs(value - to))


def both(freedom: float, tail: float) -> float:
    """Return the degrees of freedom of a t whose spread is estimated and whose tails are heavy."""
    return 1 / (1 / freedom + 1 / tail)


# -- sentences 6 to 8 -----------------------------------------------------------------------------


def _p_of_slope(level: Sequence[float], of_cases: Estimate | None, correlation: float) -> float:
    """Return the p of the slope of a level: with its newest set and without it, the larger one.

    One odd set at the end is no drift.
    """
    parts = (level, level[:-1])
    return max(_p_of_line(part, of_cases, correlation) for part in parts)


def _p_of_line(level: Sequence[float], of_cases: Estimate | None, correlation: float) -> float:
    count = len(level)
    spread = t_test.with_usual(levels.spread_around_slope(level), of_cases)
    wider = (1 + correlation) / (1 - correlation) ** 2
    estimate = spread.times(wider * 12 / (count**3 - count))
    return estimate.p_if_small(levels.fit(level, range(count)).slope)


def _since(state: CaseState, begin: int) -> list[Member]:
    """Return the sets of a level since a round, less those that differed once."""
    return [member for member in state.agreeing(KEPT) if member.round >= begin]


def _independent(weight: float, night: _Night) -> float:
    few = (1 - night.correlation) / (1 + night.correlation)
    return max(1.0, weight * few)


def _lower(each: _Set, reference: Reference, night: _Night) -> tuple[float, bool]:
    """Return the level less its reference, and whether it is shown to be lower."""
    state = each.state
    assert each.expected is not None
    level = state.level(LEVEL)
    deviation = math.sqrt(each.expected.variance)
    present = levels.limited_mean(level, levels.median(level), LIMIT_OF_LEVEL * deviation)
    apart = present - reference.level
    weight = night.apart.independent(len(level))
    estimate = Estimate(each.expected.variance, each.expected.freedom)
    p = estimate.times(1 / weight + 1 / reference.weight).p_if_small(apart)
    return apart, apart < 0 and p <= RECOVERED


def _is_back(state: CaseState, apart: float, *, is_lower: bool) -> bool:
    """True if a drop is over."""
    has_come_back = apart > HALF * state.opened
    return apart >= 0 or (state.in_level >= SETTLED and has_come_back and not is_lower)


def _follow(each: _Set, mark: Mark, reference: Reference, ended: int, night: _Night) -> None:
    """Open a drop, continue it, or close it; ``ended`` is the number of sets before the change."""
    state = each.state
    if state.reference is None:
        if mark.change >= 0:
            return
        change = math.log1p(mark.change)
        if ended < SETTLED and state.settled is not None:
            # Few sets are no level to fall from.
            level, sets = state.settled
            reference = Reference(level, night.apart.independent(sets), reference.began)
            change, is_lower = _lower(each, reference, night)
            if not is_lower:
                return
        state.reference = reference
        state.fallen = Open(mark.kind, math.expm1(change), mark.since, reference.began)
        state.opened = change
        state.drops = [mark]
        return
    state.drops = _drops_left(state.drops, mark)
    apart, is_lower = _lower(each, state.reference, night)
    is_over = apart >= 0 or (mark.change > 0 and _is_back(state, apart, is_lower=is_lower))
    if is_over:
        _close(each)
    elif mark.change < 0 and (state.fallen is None or mark.change < state.fallen.change):
        began = state.reference.began
        state.fallen = Open(mark.kind, math.expm1(apart), mark.since, began)
        state.opened = apart
    elif state.fallen is not None:
        state.fallen = state.fallen._replace(change=math.expm1(apart))
        if state.drops and state.fallen.since not in {drop.since for drop in state.drops}:
            largest = min(state.drops, key=lambda drop: drop.change)
            state.fallen = state.fallen._replace(kind=largest.kind, since=largest.since)
        if state.fallen.change > -RELEVANT:
            _end(each, "recovery", each.row.began)


def _drops_left(drops: Sequence[Mark], mark: Mark) -> list[Mark]:
    """Return the drops after a further change: a rise takes back the newest ones."""
    if mark.change < 0:
        return [*drops, mark]
    left = list(drops)
    rise = math.log1p(mark.change)
    while left and rise >= (1 - UNDONE) * -math.log1p(left[-1].change):
        rise += math.log1p(left.pop().change)
    return left


def _close(each: _Set, by_person_at: float | None = None) -> None:
    """Close what is open: no later drop adds to it."""
    if by_person_at is None:
        _end(each, "recovery", each.row.began)
    else:
        _end(each, "person", by_person_at)
    each.state.reference = None
    each.state.drops = []


def _end(each: _Set, by: Literal["recovery", "person"], at: float) -> None:
    """End the open change, and note by whom if it was large enough to be open."""
    fallen = each.state.fallen
    if fallen is not None and math.expm1(each.state.opened) <= -RELEVANT:
        each.closed = Closed(fallen.since, fallen.began, by, at)
    each.state.fallen = None


# -- alternation ----------------------------------------------------------------------------------


def _undo_each_other(state: CaseState) -> bool:
    """True if each of the newest steps takes back the one before."""
    steps = state.steps
    if len(steps) < UNDOING or steps[0][0] < state.sets - LEVEL:
        return False
    return all(
        abs(later + former) <= UNDONE * abs(former)
        for (_, former), (_, later) in itertools.pairwise(steps)
    )


class _TwoLevels(NamedTuple):
    """Sets that lie at two levels."""

    low: float
    high: float
    flips: int
    """Number of times that a set lies at the other level than the one before."""


def _two_levels(values: Sequence[float]) -> _TwoLevels | None:
    """Divide sets where they are farthest apart; None unless both parts are levels.

    Each has some sets, and the gap is far wider than the spread within them.
    """
    ordered = sorted(values)
    places = range(FEWEST_OF_LEVEL, len(ordered) - FEWEST_OF_LEVEL + 1)
    place = max(places, key=lambda at: ordered[at] - ordered[at - 1])
    gap = ordered[place] - ordered[place - 1]
    parts = ordered[:place], ordered[place:]
    within = math.fsum(t_test.squares(part) for part in parts) / (len(ordered) - 2)
    low, high = map(levels.mean, parts)
    if gap < GAP * max(math.sqrt(within), RESOLUTION) or math.expm1(high - low) < RELEVANT:
        return None
    sides = [value >= ordered[place] for value in values]
    return _TwoLevels(low, high, sum(a != b for a, b in itertools.pairwise(sides)))


def _spread_of_both(values: Sequence[float]) -> Estimate:
    """Estimate the variance of the sets of two levels."""
    count = len(values) - 1
    return Estimate(max(t_test.squares(values) / count, RESOLUTION**2), float(count))

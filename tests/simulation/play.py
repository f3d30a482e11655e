"""Playing the schedule of a seed."""

from __future__ import annotations

import random

from k8sbench.lifecycle import decide
from tests.simulation.invariants import Violation
from tests.simulation.schedule import DECIDE, Schedule
from tests.simulation.with_operator import WithOperator
from tests.simulation.without_operator import WithoutOperator

OPERATED = 0.6
"""Share of the schedules whose namespace has an operator."""


def schedule_of(seed: int) -> Schedule:
    """Make the schedule of a seed."""
    has_operator = random.Random(f"operator {seed}").random() < OPERATED
    return WithOperator(seed) if has_operator else WithoutOperator(seed)


def play(seed: int) -> Schedule:
    """Play the schedule of a seed.

    A violation names the seed and shows the trace.
    """
    schedule = schedule_of(seed)
    decide.decide = schedule.watched
    try:
        schedule.run()
    except Violation as violation:
        tail = "\n".join(schedule.world.trace[-60:])
        details = f"seed {seed}: {violation.details}\n{tail}"
        raise Violation(violation.invariant, details) from violation
    finally:
        decide.decide = DECIDE
    return schedule

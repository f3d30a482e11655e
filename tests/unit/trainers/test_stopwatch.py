"""Time since a training began, whatever clocks are set."""

import json
import math

import pytest

from k8sbench.trainers.parts.training import Stopwatch, boot_id


class Machine:
    """Clocks of a machine: ``up`` since its start, ``wall`` as somebody sets it."""

    def __init__(self, boot: str | None, up: float, wall: float) -> None:
        self.boot, self.up, self.wall = boot, up, wall

    def passes(self, seconds: float) -> None:
        self.up, self.wall = self.up + seconds, self.wall + seconds

    def attempt(self, before: Stopwatch | None = None) -> Stopwatch:
        """Return a new process' stopwatch, resumed from that of one before."""
        watch = Stopwatch(lambda: self.up, lambda: self.wall, lambda: self.boot)
        if before is not None:
            watch.resume(json.loads(json.dumps(before.state())))
        return watch


def test_a_pause_on_one_machine_counts_whatever_the_wall_clock_says() -> None:
    machine = Machine("a", 1000.0, 5e8)
    watch = machine.attempt()
    machine.passes(10.0)
    machine.wall -= 1800.0
    again = machine.attempt(watch)
    machine.passes(5.0)
    assert again.seconds() == 15.0
    state = watch.state()
    machine.passes(100.0)
    again.resume(state)  # what was done after a checkpoint, and the pause
    assert again.seconds() == 115.0


def test_a_pause_between_two_machines_is_by_their_wall_clocks() -> None:
    first, second = Machine("a", 1000.0, 5e8), Machine("b", 7.0, 5e8 + 100.0)
    watch = first.attempt()
    first.passes(40.0)
    again = second.attempt(watch)
    assert again.seconds() == 100.0
    second.passes(3.0)
    third = second.attempt(again)  # from here on by the second one's own clock
    second.wall += 3600.0
    assert third.seconds() == 103.0


@pytest.mark.parametrize("boot", ["b", None])
def test_where_only_a_clock_that_was_set_tells_the_time_it_is_unknown(boot: str | None) -> None:
    def pair() -> tuple[Machine, Machine, Stopwatch]:
        first, second = Machine("a" if boot else None, 1000.0, 5e8), Machine(boot, 7.0, 5e8 + 60.0)
        watch = first.attempt()
        first.passes(40.0)
        return first, second, watch

    first, second, watch = pair()
    assert second.attempt(watch).seconds() == 60.0
    first.wall -= 3600.0  # in the first attempt
    assert math.isnan(second.attempt(watch).seconds())
    first, second, watch = pair()
    second.wall -= 3600.0  # between the two
    assert math.isnan(second.attempt(watch).seconds())
    first, second, watch = pair()
    again = second.attempt(watch)
    second.wall += 3600.0  # in the second
    assert math.isnan(again.seconds())
    assert math.isnan(second.attempt(again).seconds())


def test_this_machine_has_one_start() -> None:
    assert boot_id() == boot_id()

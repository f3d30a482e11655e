"""Virtual time, one seed, and processes that end at any effect.

Whatever runs here is a greenlet: it gives up control where it waits, and where it asks something of
a cluster or a store. Which of them goes on next, and what goes wrong, is drawn from one generator
of random numbers, so that a seed replays a schedule step by step.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec
from greenlet import getcurrent, greenlet

from k8sbench.threads import Threads
from tests.simulation.invariants import Invariant, Violation

T = TypeVar("T")

BEGIN = 1_000_000.0
"""Unix seconds at which every schedule begins."""
JUMPS = (0.0, 5.0, -5.0, 90.0, -90.0, 3600.0, -3600.0)
"""Seconds by which a clock is wrong after it was set."""
MOST_STEPS = 20_000
"""Maximum steps of a schedule; beyond, it counts as endless."""


class Killed(BaseException):
    """The process has ended; nothing after this is done by it."""


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Probability of each fault, per step or per job."""

    kill: float = 0.004
    """The process is killed at an effect."""
    lost_answer: float = 0.15
    """The request was carried out, or not, and nobody says which."""
    away: float = 0.01
    """The API server does not answer for a while."""
    throttled: float = 0.01
    """One request is not carried out: 429, 500 or 503."""
    denied: float = 0.02
    """The place refuses all jobs for a while: a policy, a webhook, a permission."""
    refused: float = 0.04
    """A request is refused for good."""
    no_room: float = 0.08
    """A quota has no room for a job."""
    stale: float = 0.02
    """A read returns data that is some seconds old."""
    silent: float = 0.01
    """A watch says nothing for a while."""
    late_pods: float = 0.02
    """The watch of pods says nothing for a while; that of jobs works."""
    doubled: float = 0.05
    """An event comes twice."""
    reordered: float = 0.05
    """An earlier state is reported once more."""
    hasty: float = 0.5
    """A user retries a failed object at once."""
    late_objects: float = 0.01
    """The watch of Benchmark objects says nothing for a while."""
    unreadable_object: float = 0.05
    """A process cannot read one of the objects."""
    held: float = 0.5
    """A finalizer holds a deleted object for a while."""
    unreadable: float = 0.006
    """Logs cannot be read for a while."""
    lost_lines: float = 0.1
    """Lines are gone with their node."""
    cascade: float = 0.4
    """One failed pod deletes the others and their logs (TrainJob)."""
    remade: float = 0.1
    """Running pods are re-created and lose their last lines (TrainJob)."""
    retried: float = 0.25
    """The attempt fails in a way that may be better next time."""
    preempted: float = 0.15
    """The job is queued again while it runs."""
    expires: float = 0.1
    """The job goes by itself soon after its end."""
    copied: float = 0.05
    """Somebody re-creates a deleted job with all its annotations."""
    asleep: float = 0.002
    """A laptop is closed for a while."""
    full: float = 0.002
    """The disk is full for a while."""
    jump: float = 0.001
    """The clock of the process's machine is set."""
    cluster_jump: float = 0.001
    """The clock of the cluster is set."""


class World:
    """The clock, the dice, and who waits for which time."""

    def __init__(self, seed: int) -> None:
        self.faults: Faults | None = Faults()
        """None: nothing goes wrong any more."""
        self.dice = random.Random(seed)
        self.now = BEGIN
        self.steps = 0
        self.met: Counter[str] = Counter()
        """Occurrences of each fault."""
        self.trace: list[str] = []
        self.set_at = -math.inf
        """Time at which some clock was set last."""
        self._ahead = [(-math.inf, 0.0)]
        """Times at which the cluster's clock was set, and its lead from then on."""
        self._queue: list[tuple[float, int, greenlet]] = []
        self._number = 0
        self._hub = getcurrent()

    def happens(self, fault: str) -> bool:
        """Draw whether a fault happens now."""
        likely: float = getattr(self.faults, fault, 0.0)
        has_happened = likely > 0.0 and self.dice.random() < likely
        self.met[fault] += has_happened
        return has_happened

    def stamp(self, at: float) -> float:
        """Return what the cluster's clock said at a time that has come."""
        for since, ahead in reversed(self._ahead):
            if since <= at:
                return at + ahead
        raise ValueError(f"{at} was before all time.")

    def set_cluster_clock(self) -> None:
        """Set the clock of the cluster."""
        self.set_at = self.now
        self._ahead.append((self.now, self.dice.choice(JUMPS)))
        self.note(f"the cluster's clock is ahead by {self._ahead[-1][1]:.0f} s")

    def note(self, text: str) -> None:
        """Keep what happens, for a schedule that fails."""
        self.trace.append(f"{self.now - BEGIN:9.2f} {text}")

    def spawn(self, call: Callable[[], Any], after: float = 0.0) -> None:
        """Have a call made as a greenlet of its own."""
        self._wake(greenlet(call, parent=self._hub), after)

    def sleep(self, seconds: float) -> None:
        """Let others go on for so long."""
        self._wake(getcurrent(), seconds)
        self._hub.switch()

    def _wake(self, sleeper: greenlet, after: float) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now + max(0.0, after), self._number, sleeper))

    def run(self, is_over: Callable[[], bool]) -> None:
        """Go on until nobody waits any more, or that is enough."""
        while self._queue and not is_over():
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Violation(Invariant.ENDS, f"It does not end within {MOST_STEPS} steps.")
            at, _, sleeper = heapq.heappop(self._queue)
            self.now = max(self.now, at)
            if not sleeper.dead:
                sleeper.switch()


class Process:
    """Process of a machine; kills and clock jumps can hit it."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.is_dead = False
        self.began_at = 0.0
        self.ahead = 0.0
        """Lead of its clock over the cluster's, seconds."""
        self.at_end: list[Callable[[], None]] = []
        """Is called when the process has ended, however it did."""

    def clock(self) -> float:
        """Return what the process takes for the cluster's time, Unix seconds."""
        world = self.world
        if world.happens("jump"):
            world.set_at = world.now
            self.ahead = world.dice.choice(JUMPS)
            world.note(f"{self.name}: its clock is ahead by {self.ahead:.0f} s")
        return world.stamp(world.now) + self.ahead

    def effect(self, what: str) -> None:
        """Come to an effect: others may go on, and the process may end here."""
        if self.is_dead:
            raise Killed(self.name)
        self.world.steps += 1
        if self.world.happens("kill"):
            self.end(f"killed at {what}")
            raise Killed(self.name)
        if self.world.dice.random() < 0.15:
            self.world.sleep(self.world.dice.random() * 2.0)
            if self.is_dead:
                raise Killed(self.name)

    def end(self, how: str) -> None:
        """End the process: what it held is given back by the system."""
        if not self.is_dead:
            self.world.note(f"{self.name}: {how}")
            self.is_dead = True
            if self.ahead:  # the next one's clock is right
                self.world.set_at = self.world.now
            for call in self.at_end:
                call()

    def run(self, main: Callable[[], None], after: float = 0.0) -> None:
        """Run its program as soon as that time has passed."""

        def body() -> None:
            self.began_at = self.world.now
            self.world.note(f"{self.name}: begins")
            try:
                main()
            except Killed:
                return
            self.end("ends")

        self.world.spawn(body, after)


class Answer(Future[T]):
    """The answer to a call, without the locks of a future: all of it is one thread's."""

    def __init__(self) -> None:
        self._is_done = False
        self._error: BaseException | None = None
        self._result: Any = None

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: T) -> None:
        self._is_done, self._result = True, result

    def set_exception(self, error: BaseException | None) -> None:
        self._is_done, self._error = True, error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        assert self._is_done
        return self._error

    def result(self, timeout: float | None = None) -> T:
        assert self._is_done
        if self._error is not None:
            raise self._error
        found: T = self._result
        return found


class Calls(Threads):
    """Thread pool of a process: each call is a delayed greenlet."""

    def __init__(self, process: Process, longest: float = 3.0) -> None:
        self._process, self._longest = process, longest

    def start(self, call: Callable[[], T], name: str) -> Future[T]:
        """Have a call made."""
        future = Answer[T]()

        def body() -> None:
            try:
                self._process.effect(name)
                result = call()
            except Killed:
                return
            except Violation:
                raise
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._process.world.spawn(body, self._process.world.dice.random() * self._longest)
        return future

    def wait(self, seconds: float) -> None:
        """Wait so long."""
        self._process.world.sleep(seconds)
        if self._process.is_dead:
            raise Killed(self._process.name)

    def join(self, calls: Sequence[Future[Any]], seconds: float | None = None) -> None:
        """Wait until all of these calls are done, or so long."""
        until = self._process.world.now + (math.inf if seconds is None else seconds)
        while not all(call.done() for call in calls) and self._process.world.now < until:
            self.wait(1.0)

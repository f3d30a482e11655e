"""Watches the replicas of one job: their lines, their ends, and what those mean for the job.

No thread of its own: whoever calls :meth:`LocalJob.take` does the reading, so a slow reader slows
the replicas down through their pipes, and nothing is lost or piled up. Ending needs no reader: each
replica's warden does it by itself.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from k8sbench.adapters.local.replica import Replica, oom_kills
from k8sbench.diagnose.job import exits
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.ports import Clock, JobEvent, LogLine

LOOKS = 64
"""At all pipes once a replica failed: what its peers have written by then is evidence."""
SETTLE_SECONDS = 10.0
"""How long the others go on when the first failure only tells that a peer was lost: the peer is
dying, and its last words, by way of its launcher, say why the job failed. A launcher takes a second
to speak, and several where all cores are busy."""
DRAIN_SECONDS = 2.0
"""How long output may stay open when its warden is over: somebody else must hold it then."""


class LocalJob:
    """A running job and, in the end, its final transition. The leading replica comes first."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[Replica],
        *,
        clock: Clock,
        node: str,
        finish_grace: float,
        release: Callable[[], None],
    ) -> None:
        self.name = name
        self.replicas = tuple(replicas)
        self.final: Transition | None = None
        self.is_told = False
        """Whether the final transition has been taken."""
        self._clock = clock
        self._node = node
        self._finish_grace = finish_grace
        self._release = release
        """Gives back what the job holds of the machine."""
        self._events: deque[JobEvent] = deque()
        self._wish: tuple[str, str] | None = None
        """A wish to cancel: its cause and the cause's id."""
        self._is_cancelled = False
        self._failure: exits.Cause | None = None
        self._settle_by: float | None = None
        """Until when a replica that failed first waits for the one that made it fail."""
        self._finish_by: float | None = None
        """When those must be over that run on after the leading one has finished (monotonic)."""
        self._late: tuple[str, ...] = ()
        """Those that were not."""
        self._ending_since: float | None = None
        """When all that ran was asked to end (monotonic)."""
        self._drain_by: dict[Replica, float] = {}
        """Replicas whose warden is over, until their output is closed."""
        self._over: set[Replica] = set()
        self._started: set[Replica] = set()
        self._spoken: set[Replica] = set()
        self._oom_kills = oom_kills()
        self._reading = threading.Lock()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._bell_lock = threading.RLock()
        self._pipes = selectors.DefaultSelector()
        self._pipes.register(self._bell, selectors.EVENT_READ)
        for replica in self.replicas:
            assert replica.report is not None
            assert replica.output is not None
            self._pipes.register(replica.report, selectors.EVENT_READ, (replica, _REPORT))
            self._pipes.register(replica.output, selectors.EVENT_READ, (replica, _OUTPUT))
        self._move(Phase.STARTING, f"{_replicas(len(self.replicas))} on this machine.")

    # -- for everyone -----------------------------------------------------------------------

    def take(self, seconds: float | None) -> list[JobEvent]:
        """Return what has happened since the last call, waiting so long for the first of it.

        The final transition comes last; nothing follows it.
        """
        if not self._events and self.final is None:
            self._go_on(seconds)
        events: list[JobEvent] = []
        while self._events:
            events.append(self._events.popleft())
        self.is_told = self.is_told or (self.final is not None and not self._events)
        return events

    def cancel(self, cause: str, cause_id: str) -> None:
        """End the job. Returns at once; from any thread or signal handler; again is nothing."""
        if self._wish is None and self.final is None:
            self._wish = (cause, cause_id)
            for replica in self.replicas:
                replica.end()
            with self._bell_lock:
                if self._bell >= 0:
                    os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """End the job and return when nothing of it is left. Not from a signal handler.

        Where another thread takes the events they reach it; else what is still said is lost.
        """
        self.cancel("k8sbench let go of the job before its end.", "k8sbench-ended")
        while self.final is None:
            self._go_on()

    # -- reading ----------------------------------------------------------------------------

    def _go_on(self, seconds: float | None = None) -> None:
        """Wait so long for something to happen, and draw the conclusions."""
        with self._reading:
            if self.final is None:
                limits = [each for each in (self._patience(), seconds) if each is not None]
                self._read(min(limits) if limits else None)
                self._judge()

    def _patience(self) -> float | None:
        """Seconds until something must be done although nothing happens; None for ever."""
        if self._wish is not None and self._ending_since is None:
            return 0.0
        times = [*self._drain_by.values()]
        if self._ending_since is None:
            times += [by for by in (self._finish_by, self._settle_by) if by is not None]
        else:
            living = (r for r in self.replicas if r not in self._drain_by and r not in self._over)
            times += [self._ending_since + replica.longest_end for replica in living]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _read(self, patience: float | None) -> bool:
        """Take in what is there, waiting for it as long as that; whether there was anything."""
        ready = [key for key, _ in self._pipes.select(patience)]
        if any(key.data is None for key in ready):
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._bell)
        pipes = [key.data for key in ready if key.data is not None]
        # Reports first: a replica has started before it writes.
        for replica, kind in sorted(pipes, key=lambda pipe: pipe[1]):
            if kind == _OUTPUT:
                self._read_output(replica)
            else:
                self._read_report(replica)
        return bool(ready)

    def _read_output(self, replica: Replica) -> None:
        lines = replica.read_output()
        if lines is None:
            self._close_output(replica)
        else:
            self._tell_lines(replica, lines)

    def _close_output(self, replica: Replica) -> None:
        if replica.output is not None:
            self._pipes.unregister(replica.output)
            self._tell_lines(replica, replica.last_output())

    def _read_report(self, replica: Replica) -> None:
        assert replica.report is not None
        goes_on = replica.read_report()
        if replica.pid is not None and replica not in self._started:
            self._started.add(replica)
            self._tell_state(replica, Phase.STARTING, f"process {replica.pid}")
        if not goes_on:
            self._pipes.unregister(replica.report)
            if not replica.bury(replica.longest_end):
                replica.kill()
                replica.bury()
            self._drain_by[replica] = time.monotonic() + DRAIN_SECONDS

    # -- judging ----------------------------------------------------------------------------

    def _judge(self) -> None:
        """Draw the conclusions from what was read."""
        now = time.monotonic()
        if self._wish is not None and self._ending_since is None:
            # A wish that came when all was over by itself already changes nothing.
            self._is_cancelled = any(r.code is None or r.told for r in self.replicas)
            self._end_all(now)
        if self._failure is None and not self._is_cancelled:
            failed = [r for r in self.replicas if r.code and not (r.told and r.asked)]
            if failed:
                first = min(failed, key=lambda replica: replica.ended_at)
                if self._is_settled(first, now):
                    self._failure = self._cause(first)
        if self._failure is not None or self._is_cancelled:
            self._end_all(now)
        elif self.replicas[0].code == 0:
            # A cluster's job is over with its leading replica. Here the others may finish.
            self._finish_by = self._finish_by or now + self._finish_grace
            if now >= self._finish_by and not self._late:
                self._late = tuple(r.name for r in self.replicas if r.code is None)
                self._end_all(now)
        self._hurry(now)
        for replica in self.replicas:
            if replica in self._drain_by and replica.output is None:
                del self._drain_by[replica]
                self._over.add(replica)
                self._tell_end(replica)
        if len(self._over) == len(self.replicas):
            self._finish()

    def _end_all(self, now: float) -> None:
        if self._ending_since is None:
            self._ending_since = now
            for replica in self.replicas:
                if replica.code is None:
                    replica.end()

    def _hurry(self, now: float) -> None:
        """Bring to an end what takes longer than it can."""
        for replica in self.replicas:
            if replica in self._drain_by:
                if now >= self._drain_by[replica]:
                    self._close_output(replica)
            elif (
                self._ending_since is not None
                and replica not in self._over
                and now >= self._ending_since + replica.longest_end
            ):
                replica.kill()

    def _is_settled(self, first: Replica, now: float) -> bool:
        """Whether what is known of a failure will do to name its cause."""
        for _ in range(LOOKS):
            if not self._read(0.0):
                break
        others = [replica for replica in self.replicas if replica is not first]
        if not exits.lost_its_peer(first.last):
            return True
        if any(exits.failed_by_itself(other.last) for other in others):
            return True
        if all(other.code is not None for other in others):
            return True
        self._settle_by = self._settle_by or now + SETTLE_SECONDS
        return now >= self._settle_by

    def _cause(self, first: Replica) -> exits.Cause:
        """Say why the job failed of which ``first`` ended first."""
        problem = first.problem
        if problem is None and first.told:
            problem = "was ended from outside k8sbench, by a signal to its warden"
        if problem is not None:
            return exits.Cause(
                replica=first.name, sentence=f"{first.name} {problem}.", id="replica-failed"
            )
        kills = oom_kills()
        return exits.cause(
            _ended(first),
            [_ended(replica) for replica in self.replicas if replica is not first],
            kills=None if kills is None or self._oom_kills is None else kills - self._oom_kills,
        )

    def _finish(self) -> None:
        """Say how it ended, and let go of everything."""
        cause_id: str | None = None
        if self._is_cancelled and self._wish is not None:
            phase, (cause, cause_id) = Phase.CANCELLED, self._wish
        elif self._failure is not None:
            phase, cause, cause_id = Phase.FAILED, self._failure.sentence, self._failure.id
        else:
            phase, cause = Phase.SUCCEEDED, f"{_replicas(len(self.replicas))} ended with code 0."
        if self._late and phase is Phase.SUCCEEDED:
            cause = (
                f"{self.replicas[0].name} ended with code 0; {', '.join(self._late)} ran on for"
                f" {self._finish_grace:g} s and had to be ended."
            )
        for replica in self.replicas:
            if replica.left:
                pids = ", ".join(map(str, replica.left))
                cause += f" Of {replica.name} these processes could not be killed: {pids}."
        with self._bell_lock:
            bell, self._bell = self._bell, -1
        self._pipes.close()
        os.close(bell)
        for replica in self.replicas:
            replica.close()
        self._release()
        self.final = self._move(phase, cause, cause_id)

    # -- telling ----------------------------------------------------------------------------

    def _tell_lines(self, replica: Replica, lines: Sequence[str]) -> None:
        now = self._clock()
        if lines and replica not in self._spoken:
            self._spoken.add(replica)
            self._tell_state(replica, Phase.RUNNING, "")
            if replica is self.replicas[0]:
                self._move(Phase.RUNNING, f"{replica.name} has begun to write.")
        for text in lines:
            line = LogLine(replica=replica.name, at=now, text=text)
            self._events.append(JobEvent(run_id=self.name, line=line))

    def _tell_end(self, replica: Replica) -> None:
        if replica.code == 0:
            self._tell_state(replica, Phase.SUCCEEDED, "")
        elif replica.asked and replica.told:
            self._tell_state(replica, Phase.CANCELLED, "ended by k8sbench")
        else:
            self._tell_state(replica, Phase.FAILED, replica.problem or "")

    def _tell_state(self, replica: Replica, phase: Phase, detail: str) -> None:
        state = ReplicaState(
            replica=replica.name,
            phase=phase,
            node=self._node,
            exit_code=replica.code if phase.final else None,
            detail=detail,
        )
        self._events.append(JobEvent(run_id=self.name, replica=state))

    def _move(self, phase: Phase, cause: str, cause_id: str | None = None) -> Transition:
        transition = Transition(phase=phase, at=self._clock(), cause=cause, cause_id=cause_id)
        self._events.append(JobEvent(run_id=self.name, transition=transition))
        return transition


_REPORT, _OUTPUT = range(2)


def _ended(replica: Replica) -> exits.Ended:
    by_itself = None if replica.told else replica.code
    return exits.Ended(replica=replica.name, code=by_itself, last=tuple(replica.last))


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"

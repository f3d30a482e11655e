"""One local job: its replicas' lines and ends, and its final state.

There is no thread: the caller of :meth:`LocalJob.read` reads, so a slow reader slows the replicas
through their pipes, and no line is lost. Ending a job needs no reader, because each replica's
subreaper does it.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Sequence

from k8sbench.adapters import clock
from k8sbench.adapters.local.replica import Replica
from k8sbench.diagnose.job import exits
from k8sbench.model.counts import counted
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.ports import JobEvent, LogLine

ENDED = ("k8sbench ended before the job did.", "k8sbench-ended")
"""Cause of a job that goes with its k8sbench, and the cause's id."""
TICK = 0.5
"""Longest time between two looks at what is due, seconds."""
READS = 64
"""Maximum reads of all pipes after a failure, for the peers' evidence."""
SETTLE_SECONDS = 10.0
"""Wait for the cause if the first failure only lost a peer, seconds.

The peer's last lines, written by its launcher, name the cause. They take a second, and several on
busy cores.
"""
DRAIN_SECONDS = 2.0
"""Limit for output that stays open after its subreaper ended, seconds.

An unkillable process, or one that lost its subreaper, still holds it.
"""


class LocalJob:
    """A running job and its final transition; the leading replica is first."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[Replica],
        *,
        node: str,
        finish_grace: float,
        release: Callable[[], None],
    ) -> None:
        self.name = name
        self.replicas = tuple(replicas)
        self.final: Transition | None = None
        self.is_over = False
        """True once the final transition was read."""
        self._node = node
        self._finish_grace = finish_grace
        self._release = release
        """Closes the replicas and gives back what the job holds of the machine."""
        self._events: list[JobEvent] = []
        self._cancellation: tuple[str, str] | None = None
        """The cause and its id, once the end of the job was requested."""
        self._failure: exits.Failure | None = None
        self._settle_by: float | None = None
        """Deadline for the peer that caused the first failure, monotonic seconds."""
        self._finish_by: float | None = None
        """Deadline of the replicas after the leading one finished, monotonic seconds."""
        self._kill_by: float | None = None
        """Deadline of replicas that were told to end, monotonic seconds."""
        self._pipes = selectors.DefaultSelector()
        self._move(Phase.STARTING, f"{counted(len(self.replicas), 'replica')} on this machine.")
        for replica in self.replicas:
            assert replica.output is not None
            self._pipes.register(
                replica.control, selectors.EVENT_READ, (replica, self._read_control)
            )
            self._pipes.register(replica.output, selectors.EVENT_READ, (replica, self._read_output))
            self._report_state(replica, Phase.STARTING, f"process {replica.pid}")

    def read(self, seconds: float | None) -> list[JobEvent]:
        """Wait for the first event; return all since the last call.

        The final transition is the last event.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while not self._events and self.final is None:
            left = TICK if until is None else until - time.monotonic()
            self._go_on(max(0.0, min(left, TICK)))
            if left <= 0:
                break
        events, self._events = self._events, []
        self.is_over = self.final is not None
        return events

    def cancel(self, cause: str, cause_id: str) -> None:
        """Request the end of the job and return at once; idempotent.

        Safe in any thread and in signal handlers.
        """
        if self._cancellation is None and self._kill_by is None:
            self._cancellation = (cause, cause_id)
            for replica in self.replicas:
                replica.end()

    def close(self) -> None:
        """End the job and return when nothing of it is left."""
        self.cancel(*ENDED)
        while self.final is None:
            self._go_on(TICK)

    def _go_on(self, seconds: float) -> None:
        """Wait so long for something to happen, and act on it."""
        is_idle = not self._read_pipes(seconds)
        now = time.monotonic()
        failed = [r for r in self.replicas if r.code and not r.was_asked]
        if failed and self._failure is None:
            first = min(failed, key=lambda replica: replica.ended_at)
            if self._is_settled(first, now):
                self._failure = self._cause(first)
        if self._failure is not None or self._cancellation is not None:
            self._end_all(now)
        elif self.replicas[0].code == 0:
            # On a cluster the job ends with its leading replica; here the others may finish.
            self._finish_by = self._finish_by or now + self._finish_grace
            if now >= self._finish_by:
                self._end_all(now)
        for replica in self.replicas:
            is_late = self._kill_by is not None and now >= self._kill_by
            if is_late and not replica.is_over:
                replica.kill()
            is_drained = is_idle and now >= replica.ended_at + DRAIN_SECONDS
            if replica.is_over and replica.output is not None and (is_drained or is_late):
                self._close_output(replica)
            if replica.is_over and replica.output is None and not replica.phase.final:
                self._report_end(replica)
        if all(replica.phase.final for replica in self.replicas):
            self._finish()

    # -- reading ----------------------------------------------------------------------------

    def _read_pipes(self, seconds: float) -> bool:
        """Read what is there, waiting for it so long; returns whether there was anything."""
        ready = [key.data for key, _ in self._pipes.select(seconds)]
        for replica, read in ready:
            read(replica)
        return bool(ready)

    def _read_output(self, replica: Replica) -> None:
        lines = replica.read_output()
        if lines is None:
            self._close_output(replica)
        else:
            self._report_lines(replica, lines)

    def _close_output(self, replica: Replica) -> None:
        assert replica.output is not None
        self._pipes.unregister(replica.output)
        self._report_lines(replica, replica.close_output())

    def _read_control(self, replica: Replica) -> None:
        replica.read_control()
        if replica.is_over:
            self._pipes.unregister(replica.control)

    # -- acting -----------------------------------------------------------------------------

    def _end_all(self, now: float) -> None:
        if self._kill_by is None:
            self._kill_by = now + max(replica.longest_end for replica in self.replicas)
            for replica in self.replicas:
                replica.end()

    def _is_settled(self, first: Replica, now: float) -> bool:
        """Return True if the cause of a failure can be named."""
        for _ in range(READS):
            if not self._read_pipes(0.0):
                break
        others = [replica for replica in self.replicas if replica is not first]
        if (
            not exits.lost_its_peer(first.last)
            or any(exits.failed_by_itself(other.last) for other in others)
            or all(other.code is not None for other in others)
        ):
            return True
        self._settle_by = self._settle_by or now + SETTLE_SECONDS
        return now >= self._settle_by

    def _cause(self, first: Replica) -> exits.Failure:
        """Say why the job failed of which ``first`` ended first."""
        if first.problem is not None:
            sentence = f"{first.name} {first.problem}."
            return exits.Failure(replica=first.name, sentence=sentence, id="replica-failed")
        others = [self._ended(replica) for replica in self.replicas if replica is not first]
        return exits.cause(self._ended(first), others)

    def _ended(self, replica: Replica) -> exits.Ended:
        code = None if replica.was_asked else replica.code
        return exits.Ended(replica=replica.name, code=code, last=tuple(replica.last))

    def _finish(self) -> None:
        """Say how it ended, and give everything back."""
        cause_id: str | None = None
        asked = [replica.name for replica in self.replicas if replica.was_asked]
        if self._cancellation is not None and asked:
            phase, (cause, cause_id) = Phase.CANCELLED, self._cancellation
        elif self._failure is not None:
            phase, cause, cause_id = Phase.FAILED, self._failure.sentence, self._failure.id
        else:
            phase, cause = (
                Phase.SUCCEEDED,
                f"{counted(len(self.replicas), 'replica')} ended with code 0.",
            )
            if asked:
                cause = (
                    f"{self.replicas[0].name} ended with code 0; {', '.join(asked)} ran on for"
                    f" {self._finish_grace:g} s and had to be ended."
                )
        self._pipes.close()
        self._release()
        self.final = self._move(phase, cause, cause_id)

    # -- reporting --------------------------------------------------------------------------

    def _report_lines(self, replica: Replica, lines: Sequence[str]) -> None:
        # The same clock as the stamps in lines of programs, for comparison.
        now = time.time()
        if lines and replica.phase is Phase.STARTING:
            self._report_state(replica, Phase.RUNNING, "")
            if replica is self.replicas[0]:
                self._move(Phase.RUNNING, f"{replica.name} has started to print.")
        for text in lines:
            line = LogLine(replica=replica.name, at=now, text=text)
            self._events.append(JobEvent(run_id=self.name, line=line))

    def _report_end(self, replica: Replica) -> None:
        if replica.code == 0:
            self._report_state(replica, Phase.SUCCEEDED, "")
        elif replica.was_asked:
            self._report_state(replica, Phase.CANCELLED, "ended by k8sbench")
        else:
            self._report_state(replica, Phase.FAILED, replica.problem or "")

    def _report_state(self, replica: Replica, phase: Phase, detail: str) -> None:
        replica.phase = phase
        state = ReplicaState(
            replica=replica.name,
            phase=phase,
            node=self._node,
            exit_code=replica.code if phase.final else None,
            detail=detail,
        )
        self._events.append(JobEvent(run_id=self.name, replica=state))

    def _move(self, phase: Phase, cause: str, cause_id: str | None = None) -> Transition:
        transition = Transition(phase=phase, at=clock.steady(), cause=cause, cause_id=cause_id)
        self._events.append(JobEvent(run_id=self.name, transition=transition))
        return transition

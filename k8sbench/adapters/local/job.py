"""One local job: its replicas' lines and ends, and its final state.

There is no thread: the caller of :meth:`LocalJob.read` reads, so a slow reader slows the replicas
through their pipes, and no line is lost. Ending a job needs no reader, because each replica's
subreaper does it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence

from k8sbench import limits
from k8sbench.adapters import steady_clock
from k8sbench.adapters.local import subreaper
from k8sbench.adapters.local.launch import Launch
from k8sbench.diagnose.job import exits
from k8sbench.model.clock_note import ClockWatch
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.plain_text import counted
from k8sbench.model.replica_logs import LogLine
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.stamped_lines import LineSplitter

ENDED = ("k8sbench ended before the job did.", "k8sbench-ended")
"""Cause of a job that goes with its k8sbench, and the cause's id."""
TICK = 0.5
"""Longest time between two looks at what is due, seconds."""
DRAIN_SECONDS = 2.0
"""Limit for output that stays open after its subreaper ended, seconds.

An unkillable process, or one that lost its subreaper, still holds it.
"""
CHUNK = 64 * 1024
"""Most that is read from the output at once, bytes."""
LAST_LINES = 400
"""Lines kept for the diagnosis: torchrun's table and some tracebacks."""
LAST_LINES_LENGTH = 1000
"""Maximum characters of each kept line."""
EXTRA_SECONDS = 5.0
"""Seconds beyond a subreaper's limit until it is killed itself."""


class LocalReplica:
    """A started replica.

    One thread reads it; any thread or signal handler may end it.
    """

    def __init__(self, launch: Launch, grace: float) -> None:
        """Start it; ``grace`` is the time between SIGTERM and SIGKILL, seconds.

        Raises OSError if its folders or its process cannot be made.
        """
        self.name = launch.replica
        self.phase = Phase.STARTING
        """Phase that was last reported."""
        self.longest_end = grace + subreaper.KILL_SECONDS + EXTRA_SECONDS
        """Seconds after :meth:`end` by which even a stubborn replica is over."""
        self.code: int | None = None
        """Exit code of the main process; 128 + N after signal N."""
        self.ended_at = 0.0
        """End of the main process, monotonic seconds; comparable among replicas."""
        self.was_asked = False
        """True if it ended after a request."""
        self.is_over = False
        """True if its subreaper, and so all its processes, ended."""
        self.problem: str | None = None
        """Failure of its subreaper; None without one."""
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self.clock = ClockWatch()
        self._lines = LineSplitter()
        self.control, control = socket.socketpair()
        self.control.setblocking(False)
        output, writer = os.pipe()
        os.set_blocking(output, False)
        self.output: int | None = output
        try:
            for folder in launch.folders:
                os.mkdir(folder, 0o700)  # noqa: PTH102 - a string
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", subreaper.__file__),
                    *(str(grace), launch.scratch, *launch.command),
                ],
                stdin=control.fileno(),
                stdout=writer,
                stderr=writer,
                env=launch.environ,
                cwd=launch.cwd,
                # Signals of the terminal go to k8sbench, which then ends its replicas.
                start_new_session=True,
            )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            control.close()
            os.close(writer)

    @property
    def pid(self) -> int:
        """Process id of its subreaper."""
        return self._process.pid

    def read_output(self) -> list[str] | None:
        """Return available lines; None at the end of the output."""
        assert self.output is not None
        try:
            data = os.read(self.output, CHUNK)
        except BlockingIOError:
            return []
        return self._keep(self._lines.feed(data)) if data else None

    def close_output(self) -> list[str]:
        """Close the output; returns what stood there without a line end."""
        if self.output is not None:
            os.close(self.output)
            self.output = None
        return self._keep(self._lines.end())

    def _keep(self, lines: list[str]) -> list[str]:
        self.last.extend(line[:LAST_LINES_LENGTH] for line in lines)
        return lines

    def read_control(self) -> None:
        """Read the main process's end or the subreaper's; one is there."""
        report = b""
        with contextlib.suppress(OSError):
            report = self.control.recv(256)
        if report:
            code, ended_at, was_asked = report.split()
            self.code, self.ended_at = int(code), float(ended_at)
            self.was_asked = was_asked == b"1"
            return
        self.is_over = True
        status = self._process.wait()
        if self.code is None:
            how = f"by signal {-status}" if status < 0 else f"with code {status}"
            self.problem = f"lost its subreaper (process {self.pid}), which ended {how}"
            self.code = 128 - status if status < 0 else subreaper.NO_COMMAND
            self.ended_at = time.monotonic()

    def end(self) -> None:
        """Request the end: SIGTERM, SIGKILL after the grace; idempotent."""
        with contextlib.suppress(OSError):  # it is over, or closed
            self.control.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """Kill an unresponsive subreaper; the main process ends with it."""
        self._process.kill()

    def close(self) -> None:
        """End it if it runs, wait, and close the pipes."""
        self._close_pipes()
        try:
            self._process.wait(self.longest_end)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    def _close_pipes(self) -> None:
        self.control.close()
        self.close_output()


class LocalJob:
    """A running job and its final transition; the leading replica is first."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[LocalReplica],
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
        events = self._events
        self._events = []
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
        if self._cancellation is not None or (
            self._failed and self._is_settled(now, is_idle=is_idle)
        ):
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

    def _read_output(self, replica: LocalReplica) -> None:
        lines = replica.read_output()
        if lines is None:
            self._close_output(replica)
        else:
            self._report_lines(replica, lines)

    def _close_output(self, replica: LocalReplica) -> None:
        assert replica.output is not None
        self._pipes.unregister(replica.output)
        self._report_lines(replica, replica.close_output())

    def _read_control(self, replica: LocalReplica) -> None:
        replica.read_control()
        if replica.is_over:
            self._pipes.unregister(replica.control)

    # -- acting -----------------------------------------------------------------------------

    def _end_all(self, now: float) -> None:
        if self._kill_by is None:
            self._kill_by = now + max(replica.longest_end for replica in self.replicas)
            for replica in self.replicas:
                replica.end()

    @property
    def _failed(self) -> list[LocalReplica]:
        """The replicas that failed without a request to end, in order of their ends."""
        failed = [replica for replica in self.replicas if replica.code and not replica.was_asked]
        return sorted(failed, key=lambda replica: replica.ended_at)

    def _is_settled(self, now: float, *, is_idle: bool) -> bool:
        """Return True unless a peer of the failed replica may still name the cause."""
        first = self._failed[0]
        is_read = is_idle or first.output is None
        is_known = is_read and not exits.lost_its_peer(first.last)
        return is_known or now >= first.ended_at + limits.now.process_settle

    def _cause(self, first: LocalReplica) -> exits.Failure:
        """Say why the job failed of which ``first`` ended first."""
        if first.problem is not None:
            sentence = f"{first.name} {first.problem}."
            return exits.Failure(replica=first.name, sentence=sentence, id="replica-failed")
        ended, *others = (
            exits.Ended(
                replica=replica.name,
                code=None if replica.was_asked else replica.code,
                last=tuple(replica.last),
            )
            for replica in sorted(self.replicas, key=lambda replica: replica is not first)
        )
        return exits.cause(ended, others)

    def _finish(self) -> None:
        """Say how it ended, and give everything back."""
        phase, cause_id = Phase.SUCCEEDED, None
        cause = f"{counted(len(self.replicas), 'replica')} ended with code 0."
        asked = [replica.name for replica in self.replicas if replica.was_asked]
        if self._cancellation is not None and asked:
            phase, (cause, cause_id) = Phase.CANCELLED, self._cancellation
        elif self._failed:
            failure = self._cause(self._failed[0])
            phase, cause, cause_id = Phase.FAILED, failure.sentence, failure.id
        elif asked:
            cause = (
                f"{self.replicas[0].name} ended with code 0; {', '.join(asked)} ran on for"
                f" {self._finish_grace:g} s and had to be ended."
            )
        self._pipes.close()
        self._release()
        self.final = self._move(phase, cause, cause_id)

    # -- reporting --------------------------------------------------------------------------

    def _report_lines(self, replica: LocalReplica, lines: Sequence[str]) -> None:
        if not lines:
            return
        # The same clock as the stamps in lines of programs, for comparison.
        now = time.time()
        if replica.phase is Phase.STARTING:
            self._report_state(replica, Phase.RUNNING, "")
            if replica is self.replicas[0]:
                self._move(Phase.RUNNING, f"{replica.name} has started to print.")
        note = replica.clock.note(now, time.monotonic())
        for text in lines if note is None else [note, *lines]:
            line = LogLine(replica=replica.name, at=now, text=text)
            self._events.append(JobEvent(run_id=self.name, line=line))

    def _report_end(self, replica: LocalReplica) -> None:
        if replica.code == 0:
            self._report_state(replica, Phase.SUCCEEDED, "")
        elif replica.was_asked:
            self._report_state(replica, Phase.CANCELLED, "ended by k8sbench")
        else:
            self._report_state(replica, Phase.FAILED, replica.problem or "")

    def _report_state(self, replica: LocalReplica, phase: Phase, detail: str) -> None:
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
        transition = Transition(
            phase=phase, at=steady_clock.steady(), cause=cause, cause_id=cause_id
        )
        self._events.append(JobEvent(run_id=self.name, transition=transition))
        return transition

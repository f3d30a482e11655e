"""The ends that k8sbench gives to runs: by a wish, by a time limit, by a rule of its own."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping

import msgspec

from k8sbench.model import times
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run, Wish
from k8sbench.ports import RunFilter
from k8sbench.runs import wishes
from k8sbench.runs.context import RunContext
from k8sbench.runs.open_run import OpenRun, wished_end

CANCEL_SECONDS = 600.0
"""For a job of a cluster to end after it was cancelled. Its API server may be away; after so long
the job is left alone, for nothing waits without end."""
WISHES_SECONDS = 15.0
"""Between two looks at what other processes of the store wish for the runs that are followed."""


class Ends:
    """Which of the ``runs`` that are followed k8sbench ends, and when; with ``keep`` none in time.

    ``end`` is called with a run that is over and how it ended, ``on_refusal`` where the cluster
    does not cancel a job that is to be cancelled, and which goes on.
    """

    def __init__(
        self,
        context: RunContext,
        runs: Mapping[str, OpenRun],
        end: Callable[[OpenRun, Transition], None],
        on_refusal: Callable[[Run, BenchError], None],
        *,
        keep: bool,
    ) -> None:
        self._context, self._runs, self._keep = context, runs, keep
        self._end, self._on_refusal = end, on_refusal
        self._going_on: dict[str, OpenRun] = {}
        """Those that are to be cancelled, or have been."""
        self._due_at = math.inf
        """No time limit of any run is up before, Unix seconds."""
        self._wishes_at = -math.inf
        """When to look at other processes' wishes, Unix seconds."""

    def forget(self, run_id: str) -> None:
        """Leave a run alone that is followed no more."""
        self._going_on.pop(run_id, None)

    def _read_wishes(self) -> None:
        """Take in which runs other processes of the store wish to cancel.

        They ask the cluster themselves, and may not have reached it.
        """
        now = self._context.clock()
        if now < self._wishes_at or not (self._runs and self._context.cluster.jobs_outlive_us):
            return
        self._wishes_at = now + WISHES_SECONDS
        with contextlib.suppress(StoreError):  # a database may be away for a while
            for run in self._context.store.runs(RunFilter(wished=True)):
                one = self._runs.get(run.run_id)
                if one is not None and one.ends is None:
                    self.will_end(one, wished_end(run))

    def will_end(self, one: OpenRun, ends: Transition | None) -> None:
        """Take in how k8sbench is to end a run; None: not at all."""
        one.ends = ends
        if ends is not None:
            self._going_on[one.run_id] = one
        else:
            self._going_on.pop(one.run_id, None)
            self.note_limit(one)

    def note_limit(self, one: OpenRun) -> None:
        """Take in when a run's time may be up."""
        due = one.due()
        if due is not None:
            self._due_at = min(self._due_at, due)

    def step(self) -> None:
        """Ask for the ends that are due."""
        self._read_wishes()
        for one in list(self._going_on.values()):
            self._go_on(one)
        now = self._context.clock()
        if now < self._due_at:
            return
        self._due_at = math.inf
        for one in list(self._runs.values()):
            due = one.due()
            if due is not None and now >= due:
                self._end_in_time(one)
            else:
                self.note_limit(one)

    def _go_on(self, one: OpenRun) -> None:
        """Ask for the end of a run when that is due, or leave it alone."""
        assert one.ends is not None
        now = self._context.clock()
        if one.cancelled_at < math.inf:
            if now - one.cancelled_at >= CANCEL_SECONDS and self._context.cluster.jobs_outlive_us:
                minutes = times.duration(CANCEL_SECONDS)
                cause = f"{one.ends.cause} For {minutes} its job could not be cancelled;"
                self._leave_on_cluster(one, f"{cause} it may go on.", one.ends.cause_id)
        elif one.waits_for_room:
            final = msgspec.structs.replace(one.ends, at=now)
            self._end(one, final)
        elif one.create is None and (one.has_read() or now >= one.read_by):
            self._ask_to_cancel(one, one.ends)

    def _end_in_time(self, one: OpenRun) -> None:
        """End a run that has taken as long as it may."""
        limit, latest = one.run.plan.timeout_s, one.run.history[-1]
        cause = f"The run took longer than its --timeout of {times.duration(limit)}"
        if latest.cause_id is not None:
            cause += f", {latest.phase} ({latest.cause_id}): {latest.cause.rstrip('.')}"
        if self._keep and self._context.cluster.jobs_outlive_us and one.create is None:
            self._leave_on_cluster(one, f"{cause}; its pods go on (--keep).", "timeout")
        else:
            self.cancel(one, f"{cause}.", "timeout")

    def _leave_on_cluster(self, one: OpenRun, cause: str, cause_id: str | None) -> None:
        """End a run whose job goes on, or cannot be cancelled."""
        self._context.cluster.release(one.run_id)
        one.ends = None
        final = Transition(
            phase=Phase.FAILED,
            at=self._context.clock(),
            cause=cause,
            cause_id=cause_id,
            action=f"End it with: k8sbench delete {one.run_id}",
        )
        self._end(one, final)

    def cancel(self, one: OpenRun, cause: str, cause_id: str) -> None:
        """End a run by a rule of k8sbench; the cluster is asked until it does."""
        wish = Wish(kind="cancel", at=self._context.clock(), cause=cause, cause_id=cause_id)
        if self._context.cluster.jobs_outlive_us:
            # Where it cannot be recorded the job is to end all the more.
            with contextlib.suppress(StoreError):
                self._context.store.wish(one.run_id, wish)
        self.will_end(one, one.run.ended_by(wish))
        if one.is_restarted and one.create is not None:
            return  # it has no job, or not yet: that is cancelled when it has
        one.cancelled_at = wish.at
        self._context.cluster.cancel(one.run_id, cause, cause_id)

    def _ask_to_cancel(self, one: OpenRun, ends: Transition) -> None:
        """Ask for what is on record; where the cluster refuses it, the job goes on."""
        one.cancelled_at, run_id = self._context.clock(), one.run_id
        try:
            self._context.cluster.cancel(
                run_id, ends.cause, ends.cause_id or "cannot-start", wait=True
            )
        except BenchError as wrong:
            one.cancelled_at = math.inf
            self.will_end(one, None)
            if wishes.is_refused(wrong):
                with contextlib.suppress(StoreError):
                    self._context.store.fulfilled(run_id, "cancel")
            self._on_refusal(one.run, wrong)

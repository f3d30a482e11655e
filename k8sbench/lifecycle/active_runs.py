"""The runs that one process brings to their ends, and what is under way for them.

Who decides and acts on them (:mod:`.executor`), who takes what the cluster reports
(:mod:`.job_events`), and who takes the answers to requests (:mod:`.job_requests`) share these.
"""

from __future__ import annotations

import contextlib
import enum
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec

from k8sbench.lifecycle import requests
from k8sbench.lifecycle.context import Reporter, RunContext
from k8sbench.lifecycle.followed import FollowedRun, Request
from k8sbench.lifecycle.gathering import Gathering
from k8sbench.lifecycle.views import Busy, Idle, Record
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.phase import Transition
from k8sbench.model.run import Run, Wish
from k8sbench.ports import JobEvent


class Until(enum.Enum):
    """How far runs are brought."""

    OVER = "over"
    """They are over, measured, and what is left of their jobs is deleted."""
    CREATED = "created"
    """Their jobs exist."""
    LOOKED_AT = "looked at"
    """Over, for those whose jobs are over; a job that may still come, and another attempt, are not
    waited for."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """By which rules runs are brought to their ends."""

    keep: bool = False
    """Whether jobs and pods stay on the cluster when they are over, or their time is."""
    wait: bool = False
    """Whether even what cannot recover by itself is waited for."""
    until: Until = Until.OVER
    parallel: float = math.inf
    """Runs that may go on at a time."""
    on_failure: Callable[[Run, StoreError], None] | None = None
    """Takes a run whose files cannot be read or written, which is left alone: it must not stop the
    others; None: that is an error."""
    on_refusal: Callable[[Run, BenchError], None] | None = None
    """Takes a run whose job the cluster does not cancel, and which goes on; None: that is noted."""


class ActiveRuns:
    """The runs of one executor; run ids are the keys."""

    def __init__(
        self, context: RunContext, reporter: Reporter, rules: Rules, gathering: Gathering
    ) -> None:
        self.context, self.reporter, self.rules = context, reporter, rules
        self.gathering = gathering
        self.survives = context.cluster.jobs_outlive_us
        self.runs: dict[str, FollowedRun] = {}
        """Not over."""
        self.over: deque[FollowedRun] = deque()
        """Final or left alone, and still to be measured and deleted."""
        self.changed: dict[str, None] = {}
        """Those of which something was seen since they were decided on."""
        self.asked: dict[str, FollowedRun] = {}
        """Those with a request whose answer has not come."""
        self.to_create: dict[str, FollowedRun] = {}
        self.lacking: dict[str, FollowedRun] = {}
        """Those whose jobs could not be created yet, or may still come."""
        self.to_delete: dict[str, FollowedRun] = {}
        self.closed: list[Run] = []
        """Those with which nothing is left to be done, or that were to be created alone."""
        self.refused: list[tuple[Run, BaseException]] = []
        """Those whose jobs were not created, or not for certain, and why."""
        self.left: list[Run] = []
        """Those that go on and were to be brought no further."""

    def record(self, run: Run, wish: Wish | None = None) -> Record:
        """Return the record of a run that is taken up."""
        keep, wait = self.rules.keep, self.rules.wait
        return Record(run=run, wish=wish, keep=keep, wait=wait, survives=self.survives)

    # -- which ----------------------------------------------------------------------------------

    def places(self) -> int:
        """Count the runs that take a place: those not over, or not closed where one has it alone.

        Measuring one run must not take time from the next on the same machine.
        """
        if self.rules.parallel > 1:
            return len(self.runs)
        return len(self.held())

    def held(self) -> set[str]:
        """Return the ids of those that are followed, or over and still to be closed."""
        over = (followed.run_id for followed in self.over)
        return {*self.runs, *self.to_delete, *self.asked, *over}

    def is_empty(self) -> bool:
        """Whether nothing is left to be done."""
        return not (self.runs or self.over or self.to_delete or self.asked)

    def unfollowed(self) -> int:
        """Count the runs that the cluster does not follow: their jobs are waited for."""
        begun = sum(followed.is_restarted for followed in self.asked.values())
        return len(self.lacking) + len(self.to_create) + begun

    def ready(self) -> FollowedRun | None:
        """Return a run that is over and can be closed.

        Where the answer to its creation was lost its job may be over before the request is sent
        again, which must find it: were it deleted by then, it would be created a second time.
        """
        return next((followed for followed in self.over if followed.request is None), None)

    # -- what is recorded and asked -------------------------------------------------------------

    def move(self, followed: FollowedRun, transition: Transition) -> None:
        """Record a transition of a run."""
        followed.note(run=self.context.store.move(followed.run_id, transition))

    def report(self, followed: FollowedRun, transition: Transition) -> None:
        """Tell the user of a transition that is on record."""
        event = JobEvent(run_id=followed.run_id, transition=transition)
        self.reporter.on_event(followed.run, event)

    def ask(
        self,
        followed: FollowedRun,
        kind: str,
        call: Callable[[], Any],
        take: Callable[[ActiveRuns, FollowedRun, Future[Any]], None],
    ) -> None:
        """Have a request sent by another thread, and its answer taken by this one.

        What a job has printed is read beside whatever else is done.
        """
        if kind != "printed":
            followed.see(effect=Busy())
        answer = self.context.pool.start(call, kind)
        followed.request = Request(kind=kind, answer=answer, take=partial(take, self, followed))
        self.asked[followed.run_id] = followed
        if answer.done():
            self.take_answers([followed])

    def take_answers(self, of: Iterable[FollowedRun] | None = None) -> None:
        """Take the answers that have come."""
        for followed in list(self.asked.values() if of is None else of):
            request = followed.request
            if request is not None and request.answer.done():
                del self.asked[followed.run_id]
                followed.request = None
                followed.see(effect=Idle())
                with self.guarded(followed):
                    request.take(request.answer)
                self.changed[followed.run_id] = None

    def join(self, kind: str, seconds: float | None = None) -> None:
        """Wait for the answers to all requests of a kind, or so long."""
        sent = [followed.request for followed in self.asked.values() if followed.request]
        self.context.pool.join([one.answer for one in sent if one.kind == kind], seconds)

    def record_end(self, followed: FollowedRun, end: Transition) -> None:
        """Record the end of a run, or that it is left; it is still to be closed."""
        # What was read is on disk before the run is called final.
        assert followed.archive is not None
        followed.archive.close()
        # A process that is killed from here on leaves a run that is known to have a job.
        deletes = followed.view.deletes and self.survives
        owes = requests.left_over(end.at) if deletes else None
        image = next(iter(followed.images)) if len(followed.images) == 1 else None
        run = self.context.store.move(followed.run_id, end, owes=owes, image=image)
        followed.note(run=run)
        self.forget(followed.run_id)
        self.over.append(followed)
        self.report(followed, end)

    def finish(self, followed: FollowedRun) -> None:
        """Take a run for closed: nothing is left to be done with it."""
        self.context.store.claims.release(followed.run_id)
        self.closed.append(followed.run)

    def leave(self, followed: FollowedRun) -> None:
        """Follow a run no more; another process may."""
        self.forget(followed.run_id)
        self.asked.pop(followed.run_id, None)
        if followed.archive is not None:
            followed.archive.close()
        self.context.store.claims.release(followed.run_id)

    def forget(self, run_id: str) -> None:
        """Follow the job of a run no more."""
        followed = self.runs.pop(run_id)
        if followed.request is not None and followed.request.kind == "printed":
            followed.request = None  # nobody needs the answer any more
            del self.asked[run_id]
        self.to_create.pop(run_id, None)
        self.lacking.pop(run_id, None)

    @contextlib.contextmanager
    def guarded(self, followed: FollowedRun) -> Iterator[None]:
        """Leave a run alone whose files cannot be read or written, if that is what is wanted."""
        try:
            yield
        except StoreError as error:
            if self.rules.on_failure is None:
                raise
            run_id = followed.run_id
            self.context.cluster.release(run_id)
            if self.runs.get(run_id) is followed:
                with contextlib.suppress(StoreError):
                    self.leave(followed)
            with contextlib.suppress(ValueError):
                self.over.remove(followed)
            self.context.store.claims.release(run_id)
            self.rules.on_failure(followed.run, error)

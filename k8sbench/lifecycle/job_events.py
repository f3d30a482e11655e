"""What the cluster reports of jobs: to the store first, and to the user second."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import msgspec

from k8sbench.lifecycle import decide, job_requests
from k8sbench.lifecycle.active_runs import ActiveRuns, Until
from k8sbench.lifecycle.followed import FollowedRun
from k8sbench.lifecycle.views import (
    Ended,
    Gone,
    Later,
    Missing,
    NotAsked,
    Reported,
    Unreadable,
    is_final,
)
from k8sbench.model import creation, times
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.ownership import Ownership
from k8sbench.model.phase import RESTARTING, Phase, Transition
from k8sbench.model.sample import LogGap
from k8sbench.ports import JobEvent, RunFilter, Store

T = TypeVar("T")
GAPS = "log-gaps.json"
"""Artifact of a run whose logs the cluster did not have whole."""
NODES = "nodes.json"
"""Artifact of a run: what its nodes said of themselves, where that could be read."""
ABSENT_SECONDS = 5.0
"""Until a job is looked for again that may still come."""


def take(active: ActiveRuns, events: Sequence[JobEvent]) -> None:
    """Take in events in their order."""
    for (run_id, replica), some in itertools.groupby(events, _printed_by):
        if (followed := active.runs.get(run_id)) is not None and replica is not None:
            with active.guarded(followed):
                _take_lines(active, followed, replica, list(some))
            continue
        for event in some:
            followed = active.runs.get(run_id)
            if not run_id and event.note is not None:
                active.reporter.note(event.note)
            elif followed is not None:
                active.changed[run_id] = None
                with active.guarded(followed):
                    _take_event(active, followed, event)


def _take_lines(
    active: ActiveRuns, followed: FollowedRun, replica: str, events: Sequence[JobEvent]
) -> None:
    assert followed.archive is not None
    lines = [event.line for event in events if event.line is not None]
    gap = followed.archive.write(*lines)
    followed.read_until[replica] = lines[-1].at
    if not followed.view.is_read:
        followed.see_what_is_read()
        active.changed[followed.run_id] = None
    for event in events:
        active.reporter.on_event(followed.run, event)
    if gap is not None:
        begin = gap.replica, gap.after, gap.why
        followed.gaps = [one for one in followed.gaps if (one.replica, one.after, one.why) != begin]
        _take_event(active, followed, JobEvent(run_id=followed.run_id, gap=gap))


def _take_event(active: ActiveRuns, followed: FollowedRun, event: JobEvent) -> None:
    store, step = active.context.store, event.transition
    if event.replica is not None or step is not None:
        if followed.view.reported_at == math.inf:
            followed.see(reported_at=active.context.clock())
        # Replicas are reported of a job that is still to be created, too.
        if step is not None or not isinstance(followed.view.job, NotAsked):
            followed.see(job=Reported())
        followed.see_what_is_read()
    if event.replica is not None:
        active.gathering.seen(followed.run, event.replica)
        if event.replica.image is not None:
            followed.images = {*followed.images, event.replica.image}
    elif event.gap is not None:
        followed.gaps = [*followed.gaps, event.gap]
        store.keep(event.run_id, GAPS, msgspec.json.encode(followed.gaps).decode() + "\n")
        followed.see(has_gaps=True)
    elif event.nodes is not None:
        store.keep(event.run_id, NODES, msgspec.json.encode(event.nodes).decode() + "\n")
        return
    elif event.ownership is not None:
        _take_ownership(active, followed, event.ownership)
        return
    elif step is not None and is_final(step):
        _take_end(active, followed, step)
        return
    elif step is not None:
        active.move(followed, step)
        if step.cause_id == RESTARTING:  # by another store
            store.begin_attempt(event.run_id)
    active.reporter.on_event(followed.run, event)


def _take_ownership(active: ActiveRuns, followed: FollowedRun, whose: Ownership) -> None:
    """Take in whose the job is, and what another store asks of its owner."""
    if not whose.is_ours and followed.view.ownership.is_ours:
        active.reporter.note(f"{followed.run_id} is {whose.holder}'s now: it is left to that one.")
    followed.see(ownership=whose)
    wish, run_id = whose.wish, followed.run_id
    if wish is None or not whose.is_ours:
        return
    if wish.kind == "adopt":  # no: it is followed here
        active.ask(followed, "answer", partial(active.context.cluster.answer, run_id), _ignore)
        return
    active.context.store.wish(run_id, wish)
    if followed.record.wish is None:
        followed.note(wish=msgspec.structs.replace(wish, kind="cancel"))


def _ignore(_active: ActiveRuns, _followed: FollowedRun, answer: Future[None]) -> None:
    with contextlib.suppress(BenchError):
        answer.result()


def _take_end(active: ActiveRuns, followed: FollowedRun, end: Transition) -> None:
    """Take in that a job is over, is gone, or is left because its logs cannot be read."""
    run, now = followed.run, active.context.clock()
    if not end.phase.final:
        followed.see(job=Unreadable())
        active.record_end(followed, end)
        return
    if end.cause_id == creation.JOB_GONE and not creation.is_known_created(run):
        missing = creation.missing(run, now)
        if missing is None or not missing.phase.final:
            _look_again(active, followed, missing)
            return
    whose = followed.view.ownership
    if not whose.is_ours and whose.receipt is not None:
        receipt = whose.receipt
        end = job_requests.collected_by(end, receipt.sentence, receipt.action)
        followed.see(job=Ended(end))
        return
    if followed.record.wish is None and (
        end.phase is Phase.LOST or decide.is_restarted(followed.record, end, now)
    ):
        # Another process of the store may have ended it, or recorded that it is to end.
        followed.note(wish=active.context.store.run(run.run_id).wish("cancel"))
    is_gone = end.phase is Phase.LOST and followed.record.wish is None
    followed.see(job=Gone(end) if is_gone or not whose.is_ours else Ended(end))


def _look_again(active: ActiveRuns, followed: FollowedRun, missing: Transition | None) -> None:
    """Look for a job later that the cluster does not have and that may still come."""
    now, run_id = active.context.clock(), followed.run_id
    if missing is not None:
        active.move(followed, missing)
    left_s = creation.settles_in(followed.run, now)
    if active.rules.until is Until.LOOKED_AT:
        cause = followed.run.history[-1].cause
        active.reporter.note(f"{cause} Collect it again in {times.duration(left_s)}.")
        active.leave(followed)
        active.left.append(followed.run)
        return
    if followed.tries == 0:
        active.reporter.note(
            f"The cluster has no job {run_id}. It is looked for another"
            f" {times.duration(left_s)}: a request for it may still be on its way."
        )
    followed.tries += 1
    again = Later(now + min(left_s, ABSENT_SECONDS))
    followed.see(job=Missing(), effect=again, asked_to_end_at=math.inf, is_end_answered=False)
    active.lacking[run_id] = followed


def read_wishes(active: ActiveRuns) -> None:
    """Take in which runs other processes of the store wish to cancel.

    They ask the cluster themselves, and may not have reached it.
    """
    with contextlib.suppress(StoreError):  # a database may be away for a while
        for run in active.context.store.runs(RunFilter(wished=True)):
            followed, wish = active.runs.get(run.run_id), run.wish("cancel")
            if followed is not None and followed.record.wish is None and wish is not None:
                followed.note(wish=wish)
                active.changed[run.run_id] = None


def _printed_by(event: JobEvent) -> tuple[str, str | None]:
    """Name the run, and the replica if the event is a line of its log."""
    return event.run_id, None if event.line is None else event.line.replica


def kept_gaps(store: Store, run_id: str) -> list[LogGap]:
    """Read which gaps are on record for a run's logs, whoever found them; none where no file is."""
    return _kept(store, run_id, GAPS, list[LogGap]) or []


def kept_nodes(store: Store, run_id: str) -> dict[str, dict[str, str]]:
    """Read what is on record of a run's nodes, by node; empty where no file is."""
    return _kept(store, run_id, NODES, dict[str, dict[str, str]]) or {}


def _kept(store: Store, run_id: str, name: str, kind: type[T]) -> T | None:
    content = store.kept(run_id, name)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        path = store.folder(run_id) / name
        raise BenchError(f"{path} cannot be read: {error}.") from error

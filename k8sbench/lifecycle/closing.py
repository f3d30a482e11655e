"""The end of a run that is over: it is measured, and what is left of its job is deleted."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

from k8sbench.lifecycle import decide, requests
from k8sbench.lifecycle.active_runs import ActiveRuns
from k8sbench.lifecycle.followed import FollowedRun
from k8sbench.lifecycle.views import Idle
from k8sbench.model.errors import BenchError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run


def close(active: ActiveRuns, followed: FollowedRun) -> None:
    """Measure a run that is over, and have what is left of its job deleted."""
    action = decide.decide(followed.record, followed.view, active.context.clock())
    if isinstance(action, decide.Measure):
        measured = active.context.measure(followed.run, followed.gaps)
        measured = active.gathering.promised(followed.run, measured)
        followed.note(run=active.context.store.measured(followed.run_id, measured))
    is_deleted_first = followed.view.deletes and followed.view.is_unwanted
    if not is_deleted_first:
        if followed.archive is not None or isinstance(action, decide.Measure):
            active.reporter.ended(followed.run)
        active.gathering.add(followed.run)
        _note_kept(active, followed)
    active.over.remove(followed)
    if followed.view.deletes:
        if not active.to_delete:
            active.put_off_since = active.context.clock()
        active.to_delete[followed.run_id] = followed
    else:
        active.finish(followed)


def _note_kept(active: ActiveRuns, followed: FollowedRun) -> None:
    is_kept = followed.view.has_gaps and followed.run.phase is Phase.SUCCEEDED
    if is_kept and not (followed.view.is_unwanted or active.rules.keep):
        run_id = followed.run_id
        why = f"its logs are not whole. To delete it: k8sbench delete {run_id}"
        active.reporter.note(f"{run_id} stays on the cluster: {why}")


def send_deletion(active: ActiveRuns, followed: FollowedRun) -> None:
    """Delete what is left of the job of a run that is over."""
    call = partial(requests.delete, active.context, followed.run_id)
    active.ask(followed, "delete", call, _take_deleted)


def _take_deleted(
    active: ActiveRuns, followed: FollowedRun, answer: Future[tuple[Run, str | None]]
) -> None:
    run_id, error = followed.run_id, answer.exception()
    followed.see(deletes=False)
    if isinstance(error, BenchError):
        active.reporter.note(
            f"warning: what is left of {run_id} on the cluster stays there: {error}"
            f" Then: k8sbench delete {run_id}"
        )
    elif error is not None:
        raise error
    else:
        run, why = answer.result()
        followed.note(run=run)
        if why is not None:
            active.reporter.note(f"{run_id} stays on the cluster: {why}")
        _try_creations_now(active)
    if followed.view.is_unwanted:
        active.over.append(followed)
        followed.see(is_unwanted=False)
    else:
        active.finish(followed)


def _try_creations_now(active: ActiveRuns) -> None:
    """Try those again for which a quota had no room: there may be some."""
    for followed in active.lacking.values():
        if followed.lacks_room:
            followed.tries = 0
            followed.see(effect=Idle())
            active.changed[followed.run_id] = None

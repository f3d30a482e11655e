"""The status of a Benchmark object, from its runs, and its events. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8sbench.diagnose.job.causes import needs_change
from k8sbench.model import creation, times
from k8sbench.model.benchmark_object import COMPLETE, VALID, Benchmark, ObjectPhase, StatusEvent
from k8sbench.model.errors import BenchError, list_few
from k8sbench.model.group import Group, Member
from k8sbench.model.kube import conditions, is_true
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plain_text import counted
from k8sbench.model.run import Run, out_of_memory_ids

MOST = 100
"""Maximum runs, and rows, of a status, for the size of an object."""
LONGEST_CAUSE, LONGEST_MESSAGE = 1024, 4096
"""Characters that the schema allows."""
METRICS_SECONDS = 180.0
"""Longest wait for a run's GPU metrics, which may reject it."""


def status_of(
    benchmark: Benchmark,
    runs: Sequence[Run],
    *,
    planned: int | None,
    retried: int = 0,
    problem: BenchError | None = None,
    is_left: bool = False,
    refusal: str = "",
    ahead: Sequence[str] = (),
    now: float,
    groups: Sequence[Group],
) -> dict[str, Any]:
    """Return the status as a merge patch: None removes a field.

    ``runs`` are the object's, by number; ``planned`` is their number when all are recorded, None
    before they are planned. ``retried`` is the value of ``retry`` that this answers. With a
    ``problem`` they cannot be planned. If the object ``is_left``, nobody starts the planned runs
    that are not recorded. ``refusal`` is why they are not planned yet, or why their place creates
    no jobs; ``ahead`` are the runs that have the turns of the set. ``groups`` are the runs by
    case, for rows and verdicts.
    """
    ended = sum(_has_ended(run, now) for run in runs)
    is_cancelled = benchmark.spec.cancel and ended == len(runs)
    total = len(runs) if planned is None else planned
    not_started = total - len(runs) if is_left or benchmark.spec.cancel else 0
    is_planned_end = planned is not None and ended + not_started == planned
    is_complete = problem is not None or is_cancelled or is_planned_end
    rows = [_row(group, runs, now) for group in groups]
    phase = _phase(benchmark, runs, problem, is_complete=is_complete, not_started=not_started)
    without_memory = out_of_memory_ids(runs)
    judged = [
        group
        for group in groups
        if not without_memory.issuperset(member.run_id for member in group.members)
    ]
    progress = f"{ended} of {total} runs ended"
    if not_started:
        progress += f"; {not_started} {'was' if not_started == 1 else 'were'} not started"
    if planned is None and not is_cancelled:
        recorded = f" {ended} of {total} recorded ones ended." if runs else ""
        progress = f"Its runs are not planned yet{f': {refusal}' if refusal else '.'}{recorded}"
    elif not total:
        progress = "It was cancelled before it had a run."
    message = str(problem) if problem else progress
    reason = _reason(phase, problem, is_planned=planned is not None, not_started=not_started)
    if refusal and any(map(_lacks_job, runs)):
        message += f"; no job can be created for now: {refusal}"
        reason = "JobsRefused"
    elif stuck := [run for run in runs if _waits_for_change(run.history[-1])]:
        message += f"; {list_few([run.run_id for run in stuck])}: {stuck[0].history[-1].cause}"
        reason = "ChangeNeeded"
    only = rows[0] if len(rows) == 1 else {}
    members = {member.run_id: member for group in groups for member in group.members}
    return {
        "observedGeneration": benchmark.generation,
        "observedRetry": retried,
        "phase": phase,
        "summary": {
            "runs": f"{ended}/{total}" if total else None,
            "throughput": only.get("throughput"),
            "unit": only.get("unit"),
            "verdict": only.get("verdict") or (counted(len(rows), "row") if rows else None),
        },
        "conditions": [
            _condition(
                benchmark,
                now,
                COMPLETE,
                "True" if is_complete else "False",
                reason,
                message,
            ),
            _condition(benchmark, now, VALID, *_validity(judged, is_complete=is_complete)),
        ],
        "rows": rows[:MOST],
        "runs": [_run(run, members.get(run.run_id), ahead) for run in runs[-MOST:]],
    }


def planned_runs(status: Mapping[str, Any]) -> int:
    """Return the number of runs that a status tells of; 0 before they are planned."""
    told = (status.get("summary") or {}).get("runs") or ""
    return int(told.partition("/")[2] or 0)


def _waits_for_change(latest: Transition) -> bool:
    """Return True if a run waits until somebody changes its queue, its job or a rule."""
    return needs_change(latest) or latest.cause_id == creation.CREATION_WAITS


def _lacks_job(run: Run) -> bool:
    """Return True if a run has its turn, and no job that is known."""
    is_begun = not (run.phase.final or creation.waits_for_turn(run))
    return is_begun and not creation.is_known_created(run)


def _has_ended(run: Run, now: float) -> bool:
    """Return True if a run's figures do not change any more."""
    metrics_by = (run.ended_at or now) + METRICS_SECONDS
    return run.is_closed and (not run.owes_gpu_metrics or now >= metrics_by)


def _phase(
    benchmark: Benchmark,
    runs: Sequence[Run],
    problem: BenchError | None,
    *,
    is_complete: bool,
    not_started: int,
) -> ObjectPhase:
    without_memory = out_of_memory_ids(runs)
    phases = {run.phase for run in runs if run.run_id not in without_memory}
    if problem is not None:
        return "Failed"
    if not is_complete:
        is_begun = any(not creation.waits_for_turn(run) for run in runs)
        return "Running" if is_begun else "Pending"
    is_broken_off = benchmark.spec.cancel or Phase.CANCELLED in phases
    if not_started and not is_broken_off:
        return "Failed"
    if phases == {Phase.SUCCEEDED} and not not_started:
        return "Succeeded"
    return "Cancelled" if phases <= {Phase.SUCCEEDED, Phase.CANCELLED} else "Failed"


def _reason(
    phase: ObjectPhase, problem: BenchError | None, *, is_planned: bool, not_started: int
) -> str:
    """Return the reason of ``Complete``: one word."""
    if problem is not None:
        return "NotPlanned"
    if phase in {"Pending", "Running"}:
        return "RunsActive" if is_planned else "Planning"
    if phase == "Failed" and not_started:
        return "NotStarted"
    return {"Succeeded": "RunsSucceeded", "Failed": "RunsFailed"}.get(phase, "Cancelled")


def _validity(groups: Sequence[Group], *, is_complete: bool) -> tuple[str, str, str]:
    """Return status, reason and message of ``Valid``."""
    if not is_complete:
        return "Unknown", "RunsActive", "The runs have not ended."
    if not groups:
        return "False", "NothingMeasured", "No run was measured."
    bad = [group for group in groups if group.state != "valid"]
    if not bad:
        return "True", "RowsValid", f"{counted(len(groups), 'row')} valid."
    named = ", ".join(f"{group.facts.case} {group.facts.precision}: {group.state}" for group in bad)
    return "False", "RowsNotValid", f"{named[: LONGEST_MESSAGE - 1]}."


def _condition(
    benchmark: Benchmark, now: float, type_: str, state: str, reason: str, message: str
) -> dict[str, Any]:
    """Build a condition; its time is that of the last change of its status."""
    before = conditions({"status": benchmark.status}).get(type_)
    is_same = before is not None and before["status"] == state
    return {
        "type": type_,
        "status": state,
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "lastTransitionTime": before["lastTransitionTime"]
        if before and is_same
        else times.utc(now),
        "observedGeneration": benchmark.generation,
    }


def _row(group: Group, runs: Sequence[Run], now: float) -> dict[str, Any]:
    ids = {member.run_id for member in group.members}
    of_group = [run for run in runs if run.run_id in ids]
    facts, spread = group.facts, group.spread
    return _given(
        framework=facts.framework,
        variant=facts.variant,
        case=facts.case,
        precision=group.precision_effective or facts.precision,
        batchSize=facts.batch_size,
        runs=f"{sum(_has_ended(run, now) for run in of_group)}/{len(of_group)}",
        throughput=None if spread is None else round(spread.median, 6),
        unit=group.unit,
        spread=None if spread is None or spread.cv is None else round(spread.cv, 6),
        verdict=group.state,
    )


def _run(run: Run, member: Member | None, ahead: Sequence[str]) -> dict[str, Any]:
    latest = run.history[-1]
    rate = None if member is None else member.rate
    cause = latest.cause
    if ahead and creation.waits_for_turn(run):
        cause += f" Before it: {list_few(ahead)}."
    return _given(
        name=run.run_id,
        phase=str(run.phase),
        attempt=run.attempt,
        cause=cause[:LONGEST_CAUSE],
        throughput=None if rate is None else round(rate, 6),
        verdict=None if member is None else member.verdict,
    )


def _given(**fields: Any) -> dict[str, Any]:
    """Leave out what there is not: a list's items are replaced whole."""
    return {name: value for name, value in fields.items() if value is not None}


def differs(status: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Return True if a merge patch would change a status."""
    return any(_changes(value, known.get(name)) for name, value in status.items())


def _changes(new: Any, old: Any) -> bool:
    if new == old:
        return False
    return not (isinstance(new, Mapping) and isinstance(old, Mapping)) or differs(new, old)


def tells_the_same(status: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Return True if two statuses tell the same end of the same runs.

    How figures are told may differ: another version may have written one.
    """

    def told(one: Mapping[str, Any]) -> tuple[Any, ...]:
        ended = (one.get("summary") or {}).get("runs", "").partition("/")[0]
        runs = [(run.get("name"), run.get("phase")) for run in one.get("runs") or ()]
        return one.get("phase"), ended, runs

    return told(status) == told(known)


# -- events ----------------------------------------------------------------------------------------


def events(known: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[StatusEvent]:
    """Yield what changes from a known status: runs that begin or end, and completion."""
    before = {(run["name"], run.get("phase")) for run in known.get("runs") or ()}
    for run in status.get("runs") or ():
        phase = run["phase"]
        is_told = phase == Phase.RUNNING or Phase(phase).final
        if is_told and (run["name"], phase) not in before:
            yield StatusEvent(
                key=f"{run['name']}-{run['attempt']}-{phase}".lower(),
                reason=f"Run{phase}",
                message=f"Run {run['name']}: {run['cause']}",
                is_warning=phase in {Phase.FAILED, Phase.LOST},
            )
    complete = conditions({"status": status}).get(COMPLETE)
    if is_true(complete) and not is_true(conditions({"status": known}).get(COMPLETE)):
        assert complete is not None
        yield StatusEvent(
            key=f"complete-{status.get('observedRetry', 0)}",
            reason=complete["reason"],
            message=complete["message"],
            is_warning=status.get("phase") == "Failed",
        )

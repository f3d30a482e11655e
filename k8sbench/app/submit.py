"""``submit``: plan, create, watch, collect, measure, store and show each case."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import (
    cases,
    connections,
    objects,
    run_contexts,
    stored_benchmark,
    stored_objects,
    stores,
    targets,
)
from k8sbench.app.objects import Created
from k8sbench.app.submission import Submission
from k8sbench.app.targets import RunTarget
from k8sbench.catalog import spec_files
from k8sbench.catalog.planning import describe_plan
from k8sbench.lifecycle import collecting, set_runs, submitting
from k8sbench.lifecycle.context import Agree, Note, Reporter, RunContext
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.lost_runs import mark_lost_runs
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.stop import Stop
from k8sbench.lifecycle.submitting import SubmittedBenchmark
from k8sbench.model import creation, times
from k8sbench.model.errors import BenchError, Unreachable, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.names import check_set, checked_run_id, checked_set_name
from k8sbench.model.plan import RunPlan
from k8sbench.model.request import FollowOptions, SubmitRequest
from k8sbench.model.run import Run
from k8sbench.ports.cluster import Manifest
from k8sbench.store.interface import RunFilter

if TYPE_CHECKING:
    from k8sbench.app.results import RunRows
    from k8sbench.store.sql_store import SqlStore


def resumed(
    planned: Sequence[PlannedCase], context: RunContext, set_name: str, reporter: Reporter
) -> tuple[list[Run], list[PlannedCase]]:
    """Return a set's valid runs, and the cases to join or start.

    Counts at most ``repeats`` runs per case, and notes what exists.
    """
    mark_lost_runs(context.store, alive=context.alive, now=context.clock())
    runs = context.store.runs(RunFilter(set_name=set_name))
    has = set_runs.repeats(runs)
    # Runs of an operator that were brought into this store count, too.
    namespaces = {None, *(run.planned.namespace for run in runs if run.planned is not None)}
    finished: list[Run] = []
    to_do: list[PlannedCase] = []
    for case in planned:
        found = [has[case_key(case.in_namespace(name).draft)] for name in namespaces]
        done = [run for each in found for run in each.finished][: case.repeats]
        unfinished = [run for each in found for run in (*each.open, *each.broken_off)]
        open_runs = unfinished[: case.repeats - len(done)]
        missing = case.repeats - len(done) - len(open_runs)
        reporter.note(describe_plan(case.draft))
        exist = "exists" if len(done) == 1 else "exist"
        goes_on = f", {len(open_runs)} to be followed or continued" if open_runs else ""
        nothing = "" if missing or open_runs else ": nothing to do"
        reporter.note(f"  {len(done)} of {case.repeats} {exist} already{goes_on}{nothing}")
        finished += done
        to_do += [msgspec.structs.replace(case, run_id=run.run_id) for run in open_runs]
        to_do += [case] * missing
    return finished, to_do


DETACHED_SECONDS = 86_400.0
"""Seconds after a detached job's time limit until the cluster ends it.

This limits how long an unattended job holds GPUs.
"""


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """Manifests of a dry run; nothing was created."""

    manifests: tuple[Manifest, ...]


class Detached(msgspec.Struct, frozen=True, kw_only=True):
    """The runs whose jobs were created, or that exist already; no process follows them."""

    runs: tuple[Run, ...]
    failure: BenchError | None = None
    """Error if some jobs were not created; the created ones go on."""


def submit(
    request: SubmitRequest, reporter: Reporter, stop: Stop, agree: Agree | None = None
) -> RunRows | Detached | Created | DryRun:
    """Run the requested cases; return rows unless detached or dry run.

    ``agree`` asks the user for consent, if there is a terminal. Raises :class:`Interrupted` at a
    stop request before all runs are closed.
    """
    chosen = spec_files.load_specs(request.benchmark)
    check_names(request)
    target = targets.choose_target(request)
    # Every case is planned and rendered before the first one starts: a mistake in the last of
    # them must not show after hours.
    planned: Sequence[PlannedCase] = cases.plan_cases(chosen, request, target.site, reporter.note)
    rendered: list[tuple[RunPlan, tuple[Manifest, ...]]] = []
    if request.dry_run or len(planned) > 1:  # a single case is rendered before it is recorded
        plans = [case.plan(request.run_id or "draft", "draft") for case in planned]
        rendered = [(plan, case.manifests(plan)) for case, plan in zip(planned, plans, strict=True)]
    if request.dry_run:
        for plan, _ in rendered:
            reporter.plan(plan)
        cases.note_repeats(planned, reporter.note)
        reporter.note(target.why)
        if any(plan.backend == "local" for plan, _ in rendered):
            reporter.note(
                "These manifests are run as processes; k8sbench render writes those for a cluster."
            )
        return DryRun(manifests=tuple(one for _, of_case in rendered for one in of_case))
    planned = _drop_unfit(planned, request, target, reporter.note)
    if target.api is None:
        check_agreed(planned, request, agree)
    return run(resolve(planned, request, target), reporter, stop)


def _drop_unfit(
    planned: Sequence[PlannedCase], request: SubmitRequest, target: RunTarget, note: Note
) -> Sequence[PlannedCase]:
    """Drop the cases that the target cannot run, each with a note."""
    if target.api is None:
        from k8sbench.adapters.local import cluster

        return cases.drop_refused(planned, cluster.missing_framework, note)
    if request.all_cases and not request.wait:
        return cases.drop_too_large(planned, target.api, note)
    return planned


def resolve(
    planned: Sequence[PlannedCase],
    request: SubmitRequest,
    target: RunTarget,
    nodes: Sequence[str] = (),
) -> Submission:
    """Check a submit against its cluster and store, and find who runs it."""
    operator = name = None
    if target.api is not None:
        from k8sbench.adapters.kubernetes import preflight

        preflight.refuse(target.api, [case.draft for case in planned])
        operator = None if request.no_operator else objects.operator_of(target.api)
    if operator is None:
        if request.run_id is not None and sum(case.repeats for case in planned) > 1:
            raise UsageError("--run-id names one run.", "Ask for one case without repeats.")
        if request.detach:
            _check_detached(request, sum(case.repeats for case in planned))
        if request.resume is not None:
            _check_resumed(request, request.resume)
        if request.resume is None and request.set_name is None:
            # The set has the name of the run if that is named, else that of the object.
            name = None if request.run_id else objects.drawn_name(objects.benchmark_of(planned))
            set_name = checked_set_name(request.run_id or name or "")
            request = msgspec.structs.replace(request, set_name=set_name)
    return Submission(
        request=request, planned=planned, target=target, operator=operator, name=name, nodes=nodes
    )


def run(submission: Submission, reporter: Reporter, stop: Stop) -> RunRows | Detached | Created:
    """Run a submission's cases, in a set that is new or resumed.

    If an operator serves the namespace, it runs them.
    """
    request, planned, target = submission.request, submission.planned, submission.target
    if submission.operator is not None:
        assert target.api is not None
        with contextlib.closing(target.api):
            reporter.plan(planned[0].draft)
            reporter.note(target.why)
            return objects.submit(
                planned, request, target, submission.operator, reporter, stop, submission.nodes
            )
    return _run_without_operator(submission, reporter, stop)


def _run_without_operator(
    submission: Submission, reporter: Reporter, stop: Stop
) -> RunRows | Detached:
    request, planned, target = submission.request, submission.planned, submission.target
    with (
        stores.open_writable(request.store, note=reporter.note) as store,
        _opened(target, request, store, reporter.note) as context,
        submitting.held_set(store.claims, request.joined_set, resumes=request.resume is not None),
    ):
        if target.api and request.detach:
            limit = times.duration(DETACHED_SECONDS)
            who = "--no-operator" if request.no_operator else "No operator serves the namespace"
            reporter.note(
                f"{who}: collect the runs with k8sbench collect --all;"
                f" the cluster ends their jobs {limit} after their time limit."
            )
        finished: list[Run] = []
        cases_to_run = [case for case in planned for _ in range(case.repeats)]
        if request.resume:
            finished, cases_to_run = resumed(planned, context, request.resume, reporter)
        for case in cases_to_run[:1]:
            reporter.plan(case.draft)
        reporter.note(target.why)
        if left := collecting.left_jobs(context, request.joined_set):
            keeping = FollowOptions(keep=request.keep)
            with stop:
                collecting.collect(left, context, reporter, stop, keeping, follow=True)
        if not cases_to_run:
            return _complete(finished, request, store, reporter)
        gathering = GpuMetricsFetcher(context, reporter)
        with stored_benchmark.held(store, submission, context.clock) as (known, benchmark):
            before = store.ids() if request.resume else ()
            submitted = SubmittedBenchmark(
                benchmark,
                known,
                cases_to_run,
                context,
                reporter,
                stop,
                request,
                before,
                is_drawn=submission.asked is None and request.run_id is None,
                gathering=gathering,
            )
            if request.detach:
                return _detached(submitted, stop)
            reporter.expect(len(cases_to_run), len(finished), request.parallel or 1)
            with stop:
                outcomes = list(submitted.outcomes())
            refusals = _refusals(outcomes)
            if refusals and len(refusals) == len(outcomes):
                raise refusals[0]
            if submitted.failure is not None:
                if not outcomes:
                    raise submitted.failure
                reporter.note(f"error: {submitted.failure}")
                refusals.append(submitted.failure)
            runs = [_followed(one, store, request, reporter, stop) for one in outcomes]
            with stop:  # What was measured is shown, whenever somebody asks for the end.
                from k8sbench.app import results  # --detach does not need it

                runs = gathering.finish([*finished, *runs], stop)
                submitted.end()
                rows = results.rows(store, runs, reporter.note)
        return msgspec.structs.replace(rows, refusals=tuple(refusals))


def _complete(
    finished: Sequence[Run], request: SubmitRequest, store: SqlStore, reporter: Reporter
) -> RunRows | Detached:
    """Return what a resumption finds complete; it stores no Benchmark."""
    # Its process may have been killed before it wrote the last status.
    stored_objects.write_statuses(store, reporter.note, finished)
    if request.detach:
        return Detached(runs=())
    from k8sbench.app import results  # --detach does not need it

    return results.rows(store, finished, reporter.note)


def _detached(submitted: SubmittedBenchmark, stop: Stop) -> Detached:
    """Create the jobs; report those created before an error."""
    done: list[Outcome] = []
    failure: BenchError | None = None
    try:
        with stop:
            # One by one: before an error, too, the list holds what was created.
            for outcome in submitted.outcomes():
                done.append(outcome)  # noqa: PERF402
    except BenchError as wrong:
        failure = wrong
    runs = tuple(outcome.run for outcome in done if outcome.error is None)
    failure = failure or next(iter(_refusals(done)), submitted.failure)
    if failure is not None and not runs:
        raise failure
    return Detached(runs=runs, failure=failure)


def _refusals(outcomes: Sequence[Outcome]) -> list[BenchError]:
    """Return the errors of jobs that were not created.

    The first decides the exit code: that of a cluster that is not ready.
    """
    errors = [error for one in outcomes if isinstance(error := one.error, BenchError)]
    return sorted(errors, key=lambda error: not isinstance(error, Unreachable))


def _followed(
    outcome: Outcome, store: SqlStore, request: SubmitRequest, reporter: Reporter, stop: Stop
) -> Run:
    """Return the run; one of another process is watched to its end."""
    run = outcome.run
    if outcome.how is OutcomeKind.FOLLOWED_ELSEWHERE:
        from k8sbench.app import follow

        options = FollowOptions(keep=request.keep, wait=request.wait, prometheus=connections.NONE)
        return follow.Follower(store, request.access, reporter, stop, options).follow(run)
    if outcome.how is OutcomeKind.OVER_BEFORE:
        own_set = run.set_name
        of_set = "" if own_set == request.joined_set else f" of set {own_set}"
        reporter.note(f"Run {run.run_id}{of_set} was over before, and is not run again.")
    return run


def check_names(request: SubmitRequest) -> None:
    """Reject names that are mistyped, before any cluster is asked."""
    if request.run_id is not None:
        checked_run_id(request.run_id)
    if request.set_name is not None:
        checked_set_name(request.set_name)
    if request.resume is not None:
        checked_set_name(request.resume)


def _check_resumed(request: SubmitRequest, set_name: str) -> None:
    """Reject a set that the store does not have."""
    with stores.open_readonly(request.store, lambda _: None) as store:
        sets = [run.set_name for run in reversed(store.runs(RunFilter()))]
    check_set(set_name, sets)


def _check_detached(request: SubmitRequest, runs: int) -> None:
    """Reject what would come after the end of a command that detaches."""
    is_limited = (request.parallel or runs) < runs
    for option, is_given, way in (
        ("parallel", is_limited, "Without an operator all jobs are created at once."),
        ("keep", request.keep, "Give it to the command that ends the run: collect RUN --keep."),
    ):
        if is_given:
            message = f"--detach ends before the jobs do, so that --{option} has no effect."
            raise UsageError(message, way)


def check_agreed(
    planned: Sequence[PlannedCase], request: SubmitRequest, agree: Agree | None
) -> None:
    """Ask for consent to run local commands of a user's file."""
    own = [case.draft for case in planned if case.draft.impl == "user"]
    if not own or request.yes:
        return
    commands = dict.fromkeys(shlex.join(plan.command) for plan in own)
    text = "\n  ".join(
        (f"{own[0].spec_source} runs a program of its own on this machine, as you:", *commands)
    )
    if agree is None:
        raise UsageError(
            text,
            "Look at the command; to run it without a question, give --yes (in Python agree=True).",
        )
    if not agree(text):
        raise UsageError("The program was not started.", "Nothing was recorded.")


def _opened(
    target: RunTarget, request: SubmitRequest, store: SqlStore, note: Note
) -> contextlib.AbstractContextManager[RunContext]:
    """Open the place of the runs; the user has agreed to theirs."""
    if target.api is None:
        return run_contexts.on_machine(store, request.prometheus)
    options = FollowOptions(keep=request.keep, prometheus=request.prometheus)
    return run_contexts.on_cluster(
        store,
        target.api,
        note,
        options,
        create_s=None if request.detach else creation.TRY_SECONDS,
        deadline_s=DETACHED_SECONDS if request.detach else None,
    )

"""``submit``, and ``nodes``: plan, create, watch, collect, measure, store and show each case."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import benchmarks, cases, connections, objects, stores, targets
from k8sbench.app.connections import new_set_name
from k8sbench.app.objects import Created
from k8sbench.app.targets import RunTarget
from k8sbench.lifecycle import submitting
from k8sbench.lifecycle.context import (
    Agree,
    Note,
    Outcome,
    OutcomeKind,
    Reporter,
    RunContext,
    Stop,
    mark_lost_runs,
)
from k8sbench.lifecycle.requests import GpuMetricsFetcher
from k8sbench.lifecycle.submitting import PlannedCase
from k8sbench.model import creation, times
from k8sbench.model.errors import FEW, BenchError, NotFound, Unreachable, UsageError
from k8sbench.model.identity import case_key, check_set, checked_run_id, checked_set_name
from k8sbench.model.kube import name_of
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import describe
from k8sbench.model.request import FollowOptions, SubmitRequest
from k8sbench.model.run import Run
from k8sbench.ports import Manifest, RunFilter

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.app.results import RunRows
    from k8sbench.measure.group.node_check import JudgedNodes


def resumed(
    planned: Sequence[PlannedCase], context: RunContext, set_name: str, reporter: Reporter
) -> tuple[list[Run], list[PlannedCase]]:
    """Return a set's valid runs, and the cases to join or start.

    Counts at most ``repeats`` runs per case, and notes what exists.
    """
    mark_lost_runs(context.store, alive=context.alive, now=context.clock())
    has = submitting.repeats(context.store.runs(RunFilter(set_name=set_name)))
    finished: list[Run] = []
    to_do: list[PlannedCase] = []
    for case in planned:
        found = has[case_key(case.draft)]
        done = found.finished[: case.repeats]
        open_runs = (*found.open, *found.broken_off)[: case.repeats - len(done)]
        missing = case.repeats - len(done) - len(open_runs)
        reporter.note(describe(case.draft))
        exist = "exists" if len(done) == 1 else "exist"
        goes_on = f", {len(open_runs)} to be followed or continued" if open_runs else ""
        nothing = "" if missing or open_runs else ": nothing to do"
        reporter.note(f"  {len(done)} of {case.repeats} {exist} already{goes_on}{nothing}")
        finished += done
        to_do += [msgspec.structs.replace(case, joins=run.run_id) for run in open_runs]
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
    chosen = benchmarks.load(request.benchmark)
    check_names(request)
    target = targets.choose_target(request)
    # Every case is planned and rendered before the first one starts: a mistake in the last of
    # them must not show after hours.
    planned = cases.plan_cases(chosen, request, target.site, reporter.note)
    rendered: list[tuple[RunPlan, tuple[Manifest, ...]]] = []
    if request.dry_run or len(planned) > 1:  # a single case is rendered before it is recorded
        plans = [case.plan(request.run_id or "draft", "draft") for case in planned]
        rendered = [(plan, case.manifests(plan)) for case, plan in zip(planned, plans, strict=True)]
    if request.dry_run:
        for plan, _ in rendered:
            reporter.plan(plan)
        reporter.note(target.why)
        return DryRun(manifests=tuple(one for _, of_case in rendered for one in of_case))
    if target.api is None:
        from k8sbench.adapters.local import cluster

        planned = cases.drop_refused(planned, cluster.missing_framework, reporter.note)
        _check_agreed(planned, request, agree)
    if target.api is not None and request.all_cases and not request.wait:
        planned = cases.drop_too_large(planned, target.api, reporter.note)
    return run(planned, request, target, reporter, stop)


def run(
    planned: Sequence[PlannedCase],
    request: SubmitRequest,
    target: RunTarget,
    reporter: Reporter,
    stop: Stop,
    nodes: Sequence[str] = (),
) -> RunRows | Detached | Created:
    """Run cases that are planned, in a set that is new or resumed.

    Where an operator serves the namespace, it does. ``nodes`` are those that the cases are pinned
    to.
    """
    api = target.api
    if api is not None:
        from k8sbench.adapters.kubernetes import preflight

        preflight.refuse(api, [case.draft for case in planned])
        operator = None if request.no_operator else objects.operator_of(api)
        if operator is not None:
            with contextlib.closing(api):
                reporter.plan(planned[0].draft)
                reporter.note(target.why)
                return objects.submit(planned, request, target, operator, reporter, stop, nodes)
    if request.run_id is not None and sum(case.repeats for case in planned) > 1:
        raise UsageError("--run-id names one run.", "Ask for one case without repeats.")
    if request.detach:
        _check_detached(request)
    if request.resume is not None:
        _check_resumed(request, request.resume)
    if request.resume is None and request.set_name is None:
        # A run and its set have the same name where only the run was named.
        set_name = checked_set_name(request.run_id or new_set_name())
        request = msgspec.structs.replace(request, set_name=set_name)
    with (
        stores.open_writable(request.store, note=reporter.note) as store,
        _opened(target, request, store, reporter.note) as context,
        submitting.held_set(store.claims, request.joined_set, resumes=request.resume is not None),
    ):
        if api and request.detach:
            limit = times.duration(DETACHED_SECONDS)
            reporter.note(
                "No operator serves the namespace: collect the runs with k8sbench collect --all;"
                f" the cluster ends their jobs {limit} after their time limit."
            )
        finished: list[Run] = []
        cases_to_run = [case for case in planned for _ in range(case.repeats)]
        if request.resume:
            finished, cases_to_run = resumed(planned, context, request.resume, reporter)
        for case in cases_to_run[:1]:
            reporter.plan(case.draft)
        reporter.note(target.why)
        if request.detach:
            done = submitting.submit(cases_to_run, context, reporter, stop, request)
            return _detached(done, stop)
        reporter.expect(len(cases_to_run), len(finished), request.parallel)
        gathering = GpuMetricsFetcher(context, reporter)
        with stop:
            done = submitting.submit(cases_to_run, context, reporter, stop, request, gathering)
            outcomes = list(done)
        refusals = _refusals(outcomes)
        if refusals and len(refusals) == len(outcomes):
            raise refusals[0]
        runs = [_followed(one, store, request, reporter, stop) for one in outcomes]
        with stop:  # What was measured is shown, whenever somebody asks for the end.
            from k8sbench.app import results  # --detach does not need it

            runs = gathering.finish([*finished, *runs], stop)
            rows = results.rows(store, runs, reporter.note)
        return msgspec.structs.replace(rows, refusals=tuple(refusals))


def _detached(outcomes: Iterator[Outcome], stop: Stop) -> Detached:
    """Create the jobs; report those created before an error."""
    done: list[Outcome] = []
    failure: BenchError | None = None
    try:
        with stop:
            # One by one: before an error, too, the list holds what was created.
            for outcome in outcomes:
                done.append(outcome)  # noqa: PERF402
    except BenchError as wrong:
        failure = wrong
    runs = tuple(submitted.run for submitted in done if submitted.error is None)
    failure = failure or next(iter(_refusals(done)), None)
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
        own_set = run.plan.set_name
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
        sets = [run.plan.set_name for run in reversed(store.runs(RunFilter()))]
    check_set(set_name, sets)


def _check_detached(request: SubmitRequest) -> None:
    """Reject what would come after the end of a command that detaches."""
    for option, is_given, way in (
        ("parallel", request.parallel > 1, "Without an operator all jobs are created at once."),
        ("keep", request.keep, "Give it to the command that ends the run: collect RUN --keep."),
    ):
        if is_given:
            message = f"--detach ends before the jobs do, so that --{option} has no effect."
            raise UsageError(message, way)


def _check_agreed(
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
        raise UsageError(text, "Look at the command; to run it without a question, give --yes.")
    if not agree(text):
        raise UsageError("The program was not started.", "Nothing was recorded.")


def _opened(
    target: RunTarget, request: SubmitRequest, store: SqlStore, note: Note
) -> contextlib.AbstractContextManager[RunContext]:
    """Open the place of the runs; the user has agreed to theirs."""
    if target.api is None:
        return connections.on_machine(store, request.prometheus)
    options = FollowOptions(keep=request.keep, prometheus=request.prometheus)
    return connections.on_cluster(
        store,
        target.api,
        note,
        options,
        create_s=None if request.detach else creation.TRY_SECONDS,
        deadline_s=DETACHED_SECONDS if request.detach else None,
    )


# -- nodes: one case on each node of a pool --------------------------------------------------------


def nodes(
    request: SubmitRequest,
    reporter: Reporter,
    stop: Stop,
    *,
    selector: str = "",
) -> tuple[JudgedNodes, RunRows]:
    """Measure a case on each node; return verdicts and rows.

    ``selector`` is kubectl's ``-l``, in addition to the labels of the pool. Raises
    :class:`Interrupted` at a stop request before all runs are closed.
    """
    from k8sbench.app.results import RunRows
    from k8sbench.measure.group import grouping, node_check
    from k8sbench.report import group_words

    loaded = benchmarks.load_one(request.benchmark)
    check_names(request)
    target = targets.choose_target(request, may_be_local=False)
    if target.api is None:
        raise UsageError(
            f"nodes compares the nodes of a cluster, and there is none ({target.why}).",
            "Name one with --context or --kubeconfig.",
        )
    planned = cases.plan_cases([loaded], request, target.site, reporter.note)
    if len(planned) != 1:
        raise UsageError(
            "nodes runs one case on each node.", "Name one framework, and one batch size."
        )
    set_name = checked_set_name(request.resume or request.set_name or connections.new_set_name())
    chosen, left_out = _chosen(planned[0], target, selector)
    for node, why in left_out.items():
        reporter.note(f"left out: node {node}: {why}.")
    pinned = _pinned(planned[0], chosen)
    if request.resume is None:
        request = msgspec.structs.replace(request, set_name=set_name)
    rows = run(pinned, request, target, reporter, stop, chosen)
    assert isinstance(rows, RunRows), "nodes are never detached"

    def judged(rows: RunRows) -> JudgedNodes:
        groups = grouping.groups(rows.runs)
        return node_check.check(node_check.figures(chosen, groups, rows.runs))

    found = judged(rows)
    if found.to_confirm:
        reporter.note(f"Once more, as one run may be slow: {', '.join(found.to_confirm)}.")
        case = msgspec.structs.replace(planned[0], repeats=planned[0].repeats + 1)
        twice = _pinned(case, found.to_confirm)
        request = msgspec.structs.replace(request, resume=set_name, set_name=None)
        again = run(twice, request, target, reporter, stop, found.to_confirm)
        assert isinstance(again, RunRows), "nodes are never detached"
        known = {row.group.key: row for row in (*rows.report.results, *again.report.results)}
        rows = RunRows(
            runs=tuple({run.run_id: run for run in (*rows.runs, *again.runs)}.values()),
            report=msgspec.structs.replace(rows.report, results=tuple(known.values())),
            rejected=rows.rejected | again.rejected,
            refusals=(*rows.refusals, *again.refusals),
        )
        found = judged(rows)
    remarked = tuple(group_words.remarked(rows.report.results, found))
    report = msgspec.structs.replace(rows.report, results=remarked)
    return found, msgspec.structs.replace(rows, report=report)


def _pinned(case: PlannedCase, nodes: Sequence[str]) -> list[PlannedCase]:
    """Return the same case once for each node alone."""
    return [case.on_node(node) for node in nodes]


def _chosen(
    case: PlannedCase, target: RunTarget, selector: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the nodes to be measured, by name, and why others are not."""
    from k8sbench.adapters.kubernetes import listing
    from k8sbench.diagnose.preflight.nodes import refusal

    assert target.api is not None
    pool = case.draft.pool
    labelled = listing.nodes(target.api, pool.selector, selector)
    refusals = {name_of(node): refusal(node, case.draft) for node in labelled}
    left_out = {name: why for name, why in sorted(refusals.items()) if why is not None}
    fitting = sorted(refusals.keys() - left_out.keys())
    if not fitting:
        raise _none(pool.name, selector, left_out)
    return tuple(fitting), left_out


def _none(pool: str, selector: str, left_out: dict[str, str]) -> BenchError:
    also = f" that -l {selector} selects" if selector else ""
    few = "; ".join(f"{node}: {why}" for node, why in [*left_out.items()][:FEW])
    return NotFound(
        f"No node of pool {pool}{also} takes the case{f' ({few})' if few else ''}.",
        "Choose another --node-pool, or --gpus that a node has;"
        " 'kubectl get nodes --show-labels' shows them.",
    )

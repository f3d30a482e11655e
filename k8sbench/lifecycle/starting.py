"""Starting a run: record it and create its job, or join it.

An existing run is joined.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from k8sbench.lifecycle import collecting, lost_runs, owners
from k8sbench.lifecycle.context import (
    BENCHMARK,
    MANIFEST,
    How,
    Outcome,
    PlannedCase,
    RunContext,
)
from k8sbench.lifecycle.executor import Executor
from k8sbench.model import attempts, creation, times
from k8sbench.model.errors import BenchError, NotFound, RepeatTaken, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.plan import RunPlan
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import Run
from k8sbench.ports import Manifest, Store

REPEAT_TRIES = 100
"""Most tries to find a free repeat number.

Other submits into the set may take a number first; more collisions are a fault.
"""


class Starting:
    """Starts the runs of one submit."""

    def __init__(self, request: SubmitRequest, executor: Executor) -> None:
        self._request, self._executor = request, executor
        self._context, self._reporter = executor.context, executor.reporter
        self._survives = self._context.cluster.jobs_outlive_us

    def start(self, case: PlannedCase) -> Outcome:
        """Queue a new run's job for creation, or join a run."""
        run_id = case.joins or self._request.run_id
        existing = self._existing(case, run_id)
        if existing is None:
            try:
                run, manifests = self._record(case)
            except UsageError:
                # Another process may have recorded it meanwhile.
                existing = self._existing(case, run_id)
                if existing is None:
                    raise
            else:
                self._reporter.planned(run)
                self._create(run, case, manifests)
                return Outcome(run, How.CREATED)
        return self._join(existing, case)

    def _existing(self, case: PlannedCase, run_id: str | None) -> Run | None:
        """Find the run of a name, in the store or on the cluster."""
        context = self._context
        if run_id is None:
            return None
        try:
            lost_runs.reconcile(context.store, alive=context.alive, now=context.clock())
            run = context.store.run(run_id)
        except NotFound:
            if not self._survives or (job := owners.own_job(run_id, context)) is None:
                return None
            attempts.check_same_case(case.like(job.plan), job.plan)
            run = collecting.recorded(job, context)
        attempts.check_same_case(case.like(run.plan), run.plan)
        if not run.phase.final:
            collecting.check_place(run, context.cluster, context.location)
        return run

    def _create(self, run: Run, case: PlannedCase, manifests: Sequence[Manifest]) -> None:
        """Keep the run's manifests, and queue the creation of its job."""
        store = self._context.store
        try:
            keep_inputs(store, run.run_id, case, manifests)
        except BenchError as error:
            # An intent that cannot be recorded is not carried out.
            now, survives = self._context.clock(), self._survives
            final = creation.refusal(run.run_id, error, now, survives=survives)
            with contextlib.suppress(BenchError):  # the first error is the one to report
                store.move(run.run_id, final)
            store.claims.release(run.run_id)
            raise
        self._executor.create(run, manifests)

    def _join(self, existing: Run, case: PlannedCase) -> Outcome:
        """Join an existing run, unless over or followed by another process."""
        store, run_id = self._context.store, existing.run_id
        plan = case.like(existing.plan)
        if not existing.phase.final:
            limit = existing.plan.timeout_s
            self._reporter.note(
                f"run {run_id} exists and is joined as it is: set {existing.plan.set_name},"
                f" --timeout {'none' if limit is None else times.duration(limit)}"
            )
        elif existing.owes_measurement:
            is_ours = self._executor.take(existing)
            return Outcome(existing, How.CREATED if is_ours else How.FOLLOWED_ELSEWHERE)
        elif not _may_go_on(existing, plan):
            return Outcome(existing, How.OVER_BEFORE)
        goes_on = existing.phase.final or self._survives
        if not (goes_on and store.claims.claim(run_id)):
            return Outcome(existing, How.FOLLOWED_ELSEWHERE)
        # Another process may have gone on with it since it was read.
        existing = store.run(run_id)
        if _may_go_on(existing, plan):
            existing = self._reopened(existing, plan, case)
        elif existing.phase.final:
            store.claims.release(run_id)
            return Outcome(existing, How.OVER_BEFORE)
        elif creation.is_known_created(existing) or attempts.is_restarting(existing):
            self._executor.take(existing)
            return Outcome(existing, How.CREATED)
        # A job that exists is found, and not created again.
        self._reporter.planned(existing)
        store.ensure_folder(run_id)
        self._create(existing, case, case.manifests(existing.plan))
        return Outcome(existing, How.CREATED)

    def _reopened(self, run: Run, plan: RunPlan, case: PlannedCase) -> Run:
        """Reopen a finished run; a training continues as its next attempt."""
        had_job = not creation.may_be_submitted_again(run)
        try:
            run = reopened(run, plan, case, self._context)
        except RepeatTaken as taken:
            message = f"Run {run.run_id} cannot become longer: {taken.message}"
            raise UsageError(message, "Take another --run-id.") from taken
        what = "has never had a job, and is submitted again"
        if had_job:
            what = "is continued, from its newest checkpoint if any"
        self._reporter.note(f"run {run.run_id} {what}")
        return run

    def _record(self, case: PlannedCase) -> tuple[Run, tuple[Manifest, ...]]:
        context, request = self._context, self._request
        run_id = request.run_id or context.draw_run_id(case.draft.benchmark)
        key = case_key(case.draft)
        # Claimed before it is visible: no other process resumes it before its job exists.
        if not context.store.claims.claim(run_id):
            raise UsageError(
                f"Another k8sbench process is just submitting run {run_id}.",
                f"Follow it with: k8sbench watch {run_id}",
            )
        try:
            for _ in range(REPEAT_TRIES):
                repeat = context.store.next_repeat(request.joined_set, key)
                plan = case.plan(run_id, request.joined_set, repeat)
                # Rendered before it is recorded: what cannot be rendered leaves no trace.
                manifests = case.manifests(plan)
                with contextlib.suppress(RepeatTaken):
                    run = context.store.record(
                        plan, at=context.clock(), owner=context.owner, location=context.location
                    )
                    return run, manifests
            raise RepeatTaken(
                f"Set {request.joined_set} gave no free repeat number in {REPEAT_TRIES} tries.",
                "Too many submits write into it at once; try again.",
            )
        except BaseException:
            context.store.claims.release(run_id)
            raise


def reopened(run: Run, plan: RunPlan, case: PlannedCase, context: RunContext) -> Run:
    """Record that a finished run goes on by a plan.

    Raises :class:`RepeatTaken` if a longer plan is another case that the set has already.
    """
    store, had_job = context.store, not creation.may_be_submitted_again(run)
    if had_job:
        # Restarts that it had do not count against those that are allowed from here on.
        plan = msgspec.structs.replace(plan, max_restarts=plan.max_restarts + run.attempt)
        # Of this the job is made, also by a process that takes the run up after this one.
        store.keep(run.run_id, MANIFEST, case.text(case.manifests(plan)))
    run = store.reopen(plan, at=context.clock(), owner=context.owner, location=context.location)
    if had_job:
        store.begin_attempt(run.run_id)
    return run


def keep_inputs(
    store: Store, run_id: str, case: PlannedCase, manifests: Sequence[Manifest]
) -> None:
    """Keep a run's manifests, and the user's benchmark file, with its record."""
    store.keep(run_id, MANIFEST, case.text(manifests))
    if case.benchmark_file:
        store.keep(run_id, BENCHMARK, case.benchmark_file)


def _may_go_on(run: Run, plan: RunPlan) -> bool:
    """Return True if a plan resubmits or continues a finished run."""
    return creation.may_be_submitted_again(run) or attempts.may_be_continued(run, plan)

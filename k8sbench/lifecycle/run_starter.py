"""Beginning the runs of a submitting process: a new one is recorded, one that exists is joined."""

from __future__ import annotations

from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.executor import Executor
from k8sbench.lifecycle.lost_runs import mark_lost_runs
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.set_runs import keep_benchmark, may_go_on, record_new, reopened
from k8sbench.model import creation, times
from k8sbench.model.errors import NotFound, RepeatTaken, UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run


class RunStarter:
    """Begins runs of a set with an executor."""

    def __init__(self, executor: Executor, set_name: str) -> None:
        self._executor, self._set_name = executor, set_name
        self._context, self._reporter = executor.context, executor.reporter
        self._survives = executor.context.cluster.jobs_outlive_us

    def start(self, case: PlannedCase) -> Outcome:
        """Queue a new run's job for creation, or join a run.

        ``CREATED`` if the executor has it now. Raises :class:`UsageError` for a run of the name
        that is another case.
        """
        run_id = case.run_id
        assert run_id is not None
        existing = self._existing(run_id, case)
        if existing is None:
            try:
                run = self._record(run_id, case)
            except UsageError:
                # Another process may have recorded it meanwhile.
                existing = self._existing(run_id, case)
                if existing is None:
                    raise
            else:
                self._create(run, case)
                return Outcome(run, OutcomeKind.CREATED)
        return self._join(existing, case)

    def _existing(self, run_id: str, case: PlannedCase) -> Run | None:
        """Find the run of a name, in the store or on the cluster."""
        context = self._context
        if case.is_new:
            return None
        try:
            run = context.store.run(run_id)
            lost = mark_lost_runs(context.store, alive=context.alive, now=context.clock())
            run = lost.get(run_id, run)
        except NotFound:
            if not self._survives or (job := collecting.own_job(run_id, context)) is None:
                return None
            creation.check_same_case(case.like(job.plan), job.plan)
            run = collecting.recorded(job, context)
        creation.check_same_case(case.like(run.plan), run.plan)
        if not run.phase.final:
            collecting.check_place(run, context.cluster, context.location)
        return run

    def _create(self, run: Run, case: PlannedCase) -> None:
        """Queue the creation of a recorded run's job."""
        self._reporter.planned(run)
        keep_benchmark(self._context.store, run.run_id, case)
        self._executor.create(run)

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
            return Outcome(
                existing, OutcomeKind.CREATED if is_ours else OutcomeKind.FOLLOWED_ELSEWHERE
            )
        elif not may_go_on(existing, plan):
            return Outcome(existing, OutcomeKind.OVER_BEFORE)
        goes_on = existing.phase.final or self._survives
        if not (goes_on and store.claims.claim(run_id)):
            return Outcome(existing, OutcomeKind.FOLLOWED_ELSEWHERE)
        # Another process may have gone on with it since it was read.
        existing = store.run(run_id)
        if may_go_on(existing, plan):
            existing = self._reopened(existing, plan)
        elif existing.phase.final:
            store.claims.release(run_id)
            return Outcome(existing, OutcomeKind.OVER_BEFORE)
        elif creation.is_known_created(existing) or creation.is_restarting(existing):
            self._executor.take(existing)
            return Outcome(existing, OutcomeKind.CREATED)
        # A job that exists is found, and not created again.
        self._create(existing, case)
        return Outcome(existing, OutcomeKind.CREATED)

    def _reopened(self, run: Run, plan: RunPlan) -> Run:
        """Reopen a finished run; a training continues as its next attempt."""
        had_job = not creation.may_be_submitted_again(run)
        try:
            run = reopened(run, plan, self._context)
        except RepeatTaken as taken:
            message = f"Run {run.run_id} cannot become longer: {taken.message}"
            raise UsageError(message, "Take another --run-id.") from taken
        what = "has never had a job, and is submitted again"
        if had_job:
            what = "is continued, from its newest checkpoint if any"
        self._reporter.note(f"run {run.run_id} {what}")
        return run

    def _record(self, run_id: str, case: PlannedCase) -> Run:
        context = self._context
        # Claimed before it is visible: no other process resumes it before its job exists.
        if not context.store.claims.claim(run_id):
            raise UsageError(
                f"Another k8sbench process is just submitting run {run_id}.",
                f"Follow it with: k8sbench watch {run_id}",
            )
        try:
            return record_new(case, run_id, self._set_name, context)
        except BaseException:
            context.store.claims.release(run_id)
            raise

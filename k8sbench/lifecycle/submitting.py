"""Runs from their plans to their recorded measurements.

The run id is drawn and recorded before anything is created. Whatever happens then (the job fails,
the time is up, the user interrupts, the disk is full), what is known is on record and the logs are
kept. A local job ends with this process, and its run with a final state that says why; a job on a
cluster goes on, and is resumed (:mod:`k8sbench.lifecycle.collecting`).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.context import Reporter, Rules, RunContext, Until
from k8sbench.lifecycle.executor import Executor
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.lost_runs import mark_lost_runs
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.set_runs import keep_benchmark, may_go_on, reopened
from k8sbench.lifecycle.stop import INTERRUPTED, Stop
from k8sbench.model import creation, times
from k8sbench.model.errors import (
    BenchError,
    Interrupted,
    NotFound,
    RepeatTaken,
    UsageError,
    few,
    is_of_place,
)
from k8sbench.model.identity import case_key
from k8sbench.model.plan import RunPlan
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import Run, Wish
from k8sbench.ports import Claims, JobEvent, RunFilter

REPEAT_TRIES = 100
"""Most tries to find a free repeat number.

Other submits into the set may take a number first; more collisions are a fault.
"""


PLACES = 8
"""Most concurrent submits into a set."""


@contextlib.contextmanager
def held_set(claims: Claims, set_name: str, *, resumes: bool) -> Iterator[None]:
    """Hold one place of a set, or all places to resume it.

    What is missing is known only while nobody adds runs: a resumption beside a submit, or beside
    another resumption, would make more runs than were asked for.

    Raises :class:`UsageError` where another process holds what is needed.
    """
    needed = PLACES if resumes else 1
    mine = 0
    with contextlib.ExitStack() as places:
        for number in range(PLACES):
            place = f"set {set_name} {number}"
            if mine < needed and claims.claim(place):
                mine += 1
                places.callback(claims.release, place)
        if mine < needed:
            raise UsageError(
                f"Set {set_name} is being submitted by another k8sbench process.",
                "Wait for its end; 'k8sbench list --set' shows its runs.",
            )
        yield


def submit(
    cases: Sequence[PlannedCase],
    context: RunContext,
    reporter: Reporter,
    stop: Stop,
    request: SubmitRequest,
    gathering: GpuMetricsFetcher | None = None,
) -> Iterator[Outcome]:
    """Run cases; yields each run when closed, measured if it succeeded.

    With ``request.detach``, jobs are created and not followed; a run is yielded when its job
    exists. A run whose logs cannot be read is yielded without being final: it can be collected
    later. If a job cannot be created, other jobs are still followed, and later ones are tried
    unless they would meet the same error. A stop request raises :class:`Interrupted`: local jobs
    are ended, and jobs on a cluster go on.
    """
    until = Until.CREATED if request.detach else Until.OVER
    rules = Rules(keep=request.keep, wait=request.wait, parallel=request.parallel, until=until)
    executor = Executor(context, reporter, rules, gathering)
    submission = _Submission(cases, request, executor, stop)
    try:
        yield from submission.outcomes()
    except BaseException as error:
        submission.note_error(error)
        with contextlib.suppress(BenchError):  # the first error is the one to report
            executor.stop_creating()
        raise
    finally:
        executor.close()


class _Submission:
    """The runs of one command: begun in their order, each with its outcome."""

    def __init__(
        self, cases: Sequence[PlannedCase], request: SubmitRequest, executor: Executor, stop: Stop
    ) -> None:
        self._request, self._executor, self._stop = request, executor, stop
        self._context, self._reporter = executor.context, executor.reporter
        self._survives = self._context.cluster.jobs_outlive_us
        self._waiting = deque(cases)
        self._is_single = len(cases) == 1
        self._begun: list[Run] = []
        """Runs of a submit that detaches."""
        self._others: list[Outcome] = []
        """Runs that were refused, or not begun."""

    def outcomes(self) -> Iterator[Outcome]:
        """Yield the runs that were begun as they come, then the others."""
        executor, closed = self._executor, None
        for outcome in self._finished(executor.to_the_end(self._stop, self._start_next)):
            closed = outcome.run
            yield outcome
        yield from self._finished(executor.stop_creating())
        refused = [outcome.run for outcome in self._others if outcome.how is OutcomeKind.REFUSED]
        is_cut = closed is not None and closed.history[-1].cause_id == INTERRUPTED
        unclosed = executor.unclosed()
        if self._stop.cause is not None and (self._waiting or unclosed or refused or is_cut):
            runs = unclosed or refused or self._begun or ([closed] if closed else [])
            raise self._interrupted(runs)
        if self._survives and not self._is_single and refused:
            self._reporter.note(f"To create what is missing: {self._request.resuming()}")
        yield from self._others

    def _start_next(self) -> bool:
        if not self._waiting or not self._executor.has_room:
            return False
        outcome = self._start(self._waiting.popleft())
        if outcome.how is not OutcomeKind.CREATED:
            self._others.append(outcome)
        elif self._request.detach:
            self._begun.append(outcome.run)
        return True

    def _finished(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Yield the runs that were closed, created or left, and keep the refused ones.

        The end of a run that is left is not known here, as in a namespace that was deleted. Who
        detaches does not ask for it.
        """
        for outcome in outcomes:
            if outcome.how is OutcomeKind.REFUSED:
                self._take_refused(outcome)
            elif outcome.how is not OutcomeKind.LEFT or not self._request.detach:
                yield outcome

    def _take_refused(self, outcome: Outcome) -> None:
        """Report a refused job; raises an error that is no refusal."""
        run, error = outcome.run, outcome.error
        if not isinstance(error, BenchError):
            assert error is not None
            raise error
        if not self._is_single:  # of a single one the command's error says it
            event = JobEvent(run_id=run.run_id, transition=run.history[-1])
            self._reporter.on_event(run, event)
        self._reporter.ended(run)
        self._others.append(outcome)
        if self._waiting and is_of_place(error):
            self._reporter.note(f"{len(self._waiting)} more are not started: {error}")
            self._waiting.clear()

    # -- how a run is begun ---------------------------------------------------------------------

    def _start(self, case: PlannedCase) -> Outcome:
        """Queue a new run's job for creation, or join a run."""
        run_id = case.joins or self._request.run_id
        existing = self._existing(case, run_id)
        if existing is None:
            try:
                run = self._record(case)
            except UsageError:
                # Another process may have recorded it meanwhile.
                existing = self._existing(case, run_id)
                if existing is None:
                    raise
            else:
                self._create(run, case)
                return Outcome(run, OutcomeKind.CREATED)
        return self._join(existing, case)

    def _existing(self, case: PlannedCase, run_id: str | None) -> Run | None:
        """Find the run of a name, in the store or on the cluster."""
        context = self._context
        if run_id is None:
            return None
        try:
            mark_lost_runs(context.store, alive=context.alive, now=context.clock())
            run = context.store.run(run_id)
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

    def _record(self, case: PlannedCase) -> Run:
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
                case.manifests(plan)  # what cannot be rendered leaves no trace
                with contextlib.suppress(RepeatTaken):
                    return context.store.record(
                        plan, at=context.clock(), process=context.process, location=context.location
                    )
            raise RepeatTaken(
                f"Set {request.joined_set} gave no free repeat number in {REPEAT_TRIES} tries.",
                "Too many submits write into it at once; try again.",
            )
        except BaseException:
            context.store.claims.release(run_id)
            raise

    # -- how it is broken off -------------------------------------------------------------------

    def _interrupted(self, runs: Sequence[Run]) -> Interrupted:
        """Build the final error: states of the runs, and how to continue."""
        request = self._request
        cause = self._stop.cause
        not_started = len(self._waiting)
        resuming = f"Resume: {request.resuming()}"
        if not runs:
            is_begun = self._context.store.runs(RunFilter(set_name=request.joined_set))
            way = resuming if is_begun else "Run the same command again."
            return Interrupted(f"{cause}: nothing was started.", way)
        names = few([run.run_id for run in runs])
        first = runs[0]
        is_one = len(runs) == 1
        left = f" {not_started} more were not started." if not_started else ""
        if not self._survives:
            state = f"; it is {first.phase}" if is_one else ""
            message = f"{cause}: the local processes of {names} were ended{state}.{left}"
            return Interrupted(message, resuming)
        latest = first.history[-1]
        if is_one and latest.cause_id in {creation.NOT_CREATED, creation.CREATION_UNKNOWN}:
            return Interrupted(f"{cause}: {latest.cause}{left}", latest.action or resuming)
        jobs, follow, run_id = "their jobs go", "collect --all --follow", "RUN"
        if is_one:
            jobs = "its job goes"
            follow = f"watch {names}"
            run_id = names
        way = f"Come back with: k8sbench {follow}; end it with: k8sbench cancel {run_id}."
        way += f" {resuming}" if not_started else ""
        return Interrupted(f"{cause}: detached from {names}; {jobs} on.{left}", way)

    def note_error(self, error: BaseException) -> None:
        """Close the local runs, or say how to resume the others.

        Local runs end with this process. A second Ctrl-C, which does not wait for processes, counts
        as a cancellation, not as a failure.
        """
        runs = self._executor.unclosed()
        context = self._context
        stop = self._stop
        if self._survives:
            if runs and isinstance(error, BenchError) and stop.cause is None:
                which = runs[0].run_id if len(runs) == 1 else "--all"
                self._reporter.note(
                    "What was created stays on the cluster."
                    f" Resume it with: k8sbench collect {which} --follow"
                )
            return
        for run in runs:
            final = creation.refusal(run.run_id, error, context.clock(), survives=False)
            if isinstance(error, KeyboardInterrupt):
                why = stop.cause or "Interrupted (Ctrl-C)"
                cause = f"{why}; k8sbench did not wait for the end of the run."
                wish = Wish(kind="cancel", at=final.at, cause=cause, cause_id=INTERRUPTED)
                final = run.ended_by(wish)
            # The first error is the one to report.
            with contextlib.suppress(BenchError):
                context.store.move(run.run_id, final)
            context.store.claims.release(run.run_id)

"""A Benchmark of the process that submits it: reconciled, and how its end is told.

A run is recorded before its job is created. Whatever happens then (the job fails, the time is up,
the user interrupts, the disk is full), what is known is on record and the logs are kept. A local
job ends with this process, and its run with a final state that says why; a job on a cluster goes
on, and is resumed (:mod:`k8sbench.lifecycle.collecting`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from k8sbench.lifecycle.benchmark_reconciler import Benchmarks
from k8sbench.lifecycle.context import Reporter, Rules, RunContext, Until
from k8sbench.lifecycle.executor import LOOK_SECONDS, Executor
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.stop import INTERRUPTED, Stop
from k8sbench.model import creation
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.errors import (
    BenchError,
    Interrupted,
    UsageError,
    is_of_place,
    list_few,
)
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import Run, Wish
from k8sbench.ports.cluster import JobEvent
from k8sbench.ports.objects import Objects
from k8sbench.store.interface import Claims, RunFilter

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


class SubmittedBenchmark:
    """A Benchmark of this process: its outcomes, and what a user is told of its end."""

    def __init__(
        self,
        benchmark: Benchmark,
        objects: Objects,
        cases: Sequence[PlannedCase],
        context: RunContext,
        reporter: Reporter,
        stop: Stop,
        request: SubmitRequest,
        before: Iterable[str],
        *,
        is_drawn: bool = False,
        gathering: GpuMetricsFetcher | None = None,
    ) -> None:
        """Take a Benchmark whose ``cases`` are to run once each; it is one of ``objects``.

        New runs are named after it and those ``before``, as an operator does. Without those the
        same Benchmark means the same runs again. ``is_drawn``: no other store has its name.
        """
        spec = benchmark.spec
        until = Until.CREATED if request.detach else Until.OVER
        rules = Rules(keep=spec.keep, wait=spec.wait, until=until)
        self._request, self._stop = request, stop
        self._context, self._reporter = context, reporter
        self._executor = Executor(context, reporter, rules, gathering)
        self._survives = context.cluster.jobs_outlive_us
        self._is_single = len(cases) == 1
        self._name = benchmark.name
        numbers = itertools.count(benchmark.last_number(before) + 1)
        each = [
            msgspec.structs.replace(
                case,
                repeats=1,
                run_id=case.run_id or request.run_id or benchmark.run_id(next(numbers)),
                is_new=is_drawn and case.run_id is None,
            )
            for case in cases
        ]
        self._names = [case.run_id for case in each if case.run_id is not None]
        self._benchmarks = Benchmarks(objects, context, self._executor, reporter, lambda _: each)
        self._begun: list[Run] = []
        """Runs of a submit that detaches."""
        self._refused: list[Outcome] = []
        self.failure: BenchError | None = None
        """Reason why runs were not started that nobody refused; None if all were."""

    def outcomes(self) -> Iterator[Outcome]:
        """Run the cases; yields each run when closed, measured if it succeeded.

        With ``--detach``, jobs are created and not followed; a run is yielded when its job exists.
        A run whose logs cannot be read is yielded without being final: it can be collected later.
        If a job cannot be created, other jobs are still followed, and later ones are tried unless
        they would meet the same error. A stop request raises :class:`Interrupted`: local jobs are
        ended, and jobs on a cluster go on.
        """
        try:
            yield from self._outcomes()
        except BaseException as error:
            self._note_error(error)
            with contextlib.suppress(BenchError):  # the first error is the one to report
                self._executor.stop_creating()
            raise
        finally:
            self._executor.close()
            self.end()

    def end(self) -> None:
        """Write the status with the runs as they are at last.

        Failing that, whoever collects the runs writes it.
        """
        with contextlib.suppress(BenchError):
            self._benchmarks.settle()

    def _outcomes(self) -> Iterator[Outcome]:
        """Yield the runs that were begun as they come, then the others."""
        executor, closed = self._executor, None
        for outcome in self._finished(executor.to_the_end(self._stop, self._reconcile)):
            closed = outcome.run
            yield outcome
        yield from self._finished(executor.stop_creating())
        refused = [outcome.run for outcome in self._refused]
        unclosed = executor.unclosed()
        is_cut = closed is not None and closed.history[-1].cause_id == INTERRUPTED
        missing = [name for name in self._names if name not in self._benchmarks.begun]
        if self._stop.cause is not None and (missing or unclosed or refused or is_cut):
            runs = unclosed or refused or self._begun or ([closed] if closed and is_cut else [])
            raise self._interrupted(runs, missing)
        if missing and not refused:
            self.failure = self._not_started(missing)
        if self._survives and not self._is_single and refused:
            self._reporter.note(f"To create what is missing: {self._request.resume_command()}")
        yield from self._benchmarks.not_begun
        yield from self._refused

    def _reconcile(self) -> float | None:
        """Make a pass; returns the seconds until the next, None when every run has begun."""
        before = self._benchmarks.to_begin
        self._benchmarks.step()
        if self._benchmarks.is_begun:
            return None
        return LOOK_SECONDS if self._benchmarks.to_begin == before else 0.0

    def _finished(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Yield the runs that were closed, created or left, and keep the refused ones.

        The end of a run that is left is not known here, as in a namespace that was deleted. Who
        detaches does not ask for it.
        """
        for outcome in outcomes:
            self._benchmarks.take([outcome.run])
            if outcome.how is OutcomeKind.CREATED:
                self._begun.append(outcome.run)
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
        self._refused.append(outcome)
        to_begin = self._benchmarks.to_begin
        if to_begin and is_of_place(error):
            self._reporter.note(f"{to_begin} more are not started: {error}")
            self._benchmarks.begin_no_more()

    # -- how it is broken off -------------------------------------------------------------------

    def _not_started(self, missing: Sequence[str]) -> BenchError:
        """Build the error for runs that were not started although nobody stopped this process."""
        begun = [name for name in self._names if name not in missing]
        why = "was cancelled" if self._benchmarks.has_objects else "was removed from the store"
        ran = f" {list_few(begun)} ran before." if begun else ""
        return BenchError(
            f"Benchmark {self._name} {why}: {_were_not_started(missing)}.{ran}",
            f"Resume: {self._request.resume_command()}" if begun else "",
        )

    def _interrupted(self, runs: Sequence[Run], missing: Sequence[str]) -> Interrupted:
        """Build the final error: states of the runs, those not started, and how to continue."""
        request = self._request
        cause = self._stop.cause
        resuming = f"Resume: {request.resume_command()}"
        left = f" {_were_not_started(missing)}." if missing else ""
        if not runs:
            is_begun = self._context.store.runs(RunFilter(set_name=request.joined_set))
            way = resuming if is_begun else "Run the same command again."
            return Interrupted(f"{cause}.{left}", way)
        names = list_few([run.run_id for run in runs])
        first = runs[0]
        is_one = len(runs) == 1
        if not self._survives:
            state = f"; it is {first.phase}" if is_one else ""
            message = f"{cause}: the local processes of {names} were ended{state}.{left}"
            return Interrupted(message, resuming)
        latest = first.history[-1]
        if is_one and latest.cause_id in {*creation.WITHOUT_JOB, creation.CREATION_UNKNOWN}:
            return Interrupted(f"{cause}: {latest.cause}{left}", latest.action or resuming)
        jobs, follow, run_id = "their jobs go", "collect --all --follow", "RUN"
        if is_one:
            jobs = "its job goes"
            follow = f"watch {names}"
            run_id = names
        way = f"Come back with: k8sbench {follow}; end it with: k8sbench cancel {run_id}."
        way += f" {resuming}" if missing else ""
        return Interrupted(f"{cause}: detached from {names}; {jobs} on.{left}", way)

    def _note_error(self, error: BaseException) -> None:
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
            final = creation.first_creation_failed(
                run.run_id, error, context.clock(), survives=False
            )
            if isinstance(error, KeyboardInterrupt):
                why = stop.cause or "Interrupted (Ctrl-C)"
                cause = f"{why}; k8sbench did not wait for the end of the run."
                wish = Wish(kind="cancel", at=final.at, cause=cause, cause_id=INTERRUPTED)
                final = run.ended_by(wish)
            # The first error is the one to report.
            with contextlib.suppress(BenchError):
                context.store.move(run.run_id, final)
            context.store.claims.release(run.run_id)


def _were_not_started(run_ids: Sequence[str]) -> str:
    """Begin a sentence that names runs which were not started."""
    return f"{list_few(run_ids)} {'was' if len(run_ids) == 1 else 'were'} not started"

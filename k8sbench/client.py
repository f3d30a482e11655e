"""k8sbench from Python: the commands with values instead of text.

::

    from k8sbench import Client

    client = Client(namespace="team-a")
    run = client.submit("resnet50", replicas=2, amp=True)
    row = run.wait()

Nothing is printed: notes and progress go to the logger ``k8sbench``. Errors are those of
:mod:`k8sbench.model.errors`. ``docs/python.md`` has examples.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, get_type_hints

import msgspec

from k8sbench.app import (
    cases,
    comparisons,
    ending,
    follow,
    imports,
    observe,
    option_values,
    run_list,
    run_status,
    submit,
)
from k8sbench.app import results as rows_of
from k8sbench.app.answers import StoresRead
from k8sbench.app.follow import PrintedLine
from k8sbench.app.objects import Created
from k8sbench.app.option_types import CaseFilters, LogOptions, Place, RowFilters, SubmitOptions
from k8sbench.catalog.measure_options import LOG_FLAGS, MeasureOptions
from k8sbench.lifecycle.stop import Stop
from k8sbench.model import times
from k8sbench.model.errors import Interrupted, TimedOut, UsageError
from k8sbench.model.group_filter import GroupFilter
from k8sbench.model.plain_text import share
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.model.run import failure
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.report import document, explanation
from k8sbench.results.report.document import ListedRun, RunStatus
from k8sbench.store.interface import RunFilter
from k8sbench.threads import Threads

if TYPE_CHECKING:
    from k8sbench.model.compared import CaseHistory, Comparison
    from k8sbench.model.group import Result
    from k8sbench.model.measurement import Measurement
    from k8sbench.model.plan import RunPlan
    from k8sbench.model.run import Run as Recorded
    from k8sbench.ports.cluster import JobEvent, Manifest

__all__ = ["Client", "Row", "Run"]

LOG = logging.getLogger("k8sbench")
LOGS = option_values.options(MeasureOptions, LOG_FLAGS)
"""Options of ``measure`` and ``import``, by field."""


F = TypeVar("F", bound=Callable[..., Any])


def _offering(options: type) -> Callable[[F], F]:
    """Name the options in a method's signature, which notebooks show and complete."""

    def decorated(method: F) -> F:
        own = inspect.signature(method)
        named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in get_type_hints(options).items()
            if name not in own.parameters
        ]
        method.__signature__ = own.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        return method

    return decorated


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the results: the repeats of one case in one set."""

    group: str
    """Its id, for ``explain``."""
    set: str
    benchmark: str
    framework: str
    variant: str
    case: str
    """Nodes and GPUs of each: ``4x8``."""
    precision: str
    batch_size_per_gpu: int
    state: str
    """``valid``, ``rejected``, ``unsteady-runs``, …: the verdict of the row."""
    runs_valid: int
    runs_total: int
    throughput: float | None
    """Median of the valid runs, in ``unit``, of the whole job; None: see ``missing``."""
    unit: str | None
    """``samples/s``, ``images/s``, …; None without a throughput."""
    interval_low: float | None
    interval_high: float | None
    speedup: float | None
    """Against one GPU; None: see ``missing``."""
    efficiency: float | None
    """``speedup`` ÷ GPUs."""
    missing: dict[str, str] = {}
    """Field → why it has no value."""
    document: dict[str, Any] = {}
    """All fields, as ``results -o json`` has them (docs/results.md)."""

    def __repr__(self) -> str:
        figure = "no figure" if self.throughput is None else f"{self.throughput:.1f} {self.unit}"
        names = f"{self.benchmark} {self.framework} {self.case} {self.precision}"
        runs = f"{share(self.runs_valid, self.runs_total, 'run')} valid"
        return f"<Row {names}, set {self.set}: {figure}, {self.state}, {runs}>"


class Run:
    """A run that a client submitted or found by its id."""

    def __init__(
        self, client: Client, run_id: str, work: _Work | None = None, *, seen: str = "recorded"
    ) -> None:
        self._client, self._work = client, work
        self._seen = seen
        self.run_id = run_id

    def __repr__(self) -> str:
        """Name the run, and its state as it was last seen; nothing is asked."""
        state = "" if self._work is None else self._work.state
        return f"<Run {self.run_id}: {state or self._seen}>"

    def wait(self, timeout: float | None = None) -> Row:
        """Wait until the run is over and measured; returns its row.

        Raises :class:`JobFailed` for a run that failed or was cancelled, and :class:`TimedOut` for
        one that outlived its time limit, or goes on after ``timeout`` seconds here. A rejected run
        has a row that says so. A KeyboardInterrupt ends a local run; a job on a cluster goes on.
        """
        if self._work is None:
            self._work = _Work(self._client.follow, self.run_id)
        try:
            self._work.wait(timeout)
        except KeyboardInterrupt:
            self._work = None  # the next call follows the run anew
            raise
        except Interrupted:
            LOG.info("%s was cancelled", self.run_id)
        status = self.status
        if (error := failure(status.phase, status.cause_id)) is not None:
            action = status.action or f"Its lines: client.run({self.run_id!r}).logs()"
            raise error(f"Run {self.run_id} is {status.phase}. {status.cause}", action)
        return self.row

    def cancel(self) -> None:
        """End the run."""
        self._client.cancel(self.run_id)

    @property
    def status(self) -> RunStatus:
        """The run's current status."""
        status = self._client.status(self.run_id)
        self._seen = str(status.phase)
        return status

    @property
    def row(self) -> Row:
        """The row with this run; raises :class:`NotFound` if none exists yet."""
        return self._client.results(runs=(self.run_id,))[0]

    def explain(self) -> str:
        """Say where the run's figure comes from."""
        return self._client.explain(self.run_id)

    def logs(self, replica: str | None = None) -> list[str]:
        """Return the lines so far.

        Those of several replicas begin with their names.
        """
        return self._client.logs(self.run_id, replica)


class Client:
    """Submits, follows, measures and compares, on one namespace and one store.

    ``backend`` is ``auto``, ``kubernetes`` or ``local``; ``store`` a folder, or None for
    the default place. What is None is what the commands take without the option.
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: Place | None = None,
        store: Place | None = None,
        backend: Literal["auto", "kubernetes", "local"] = "auto",
    ) -> None:
        named = {"namespace": namespace, "context": context, "kubeconfig": kubeconfig}
        access = {name: option_values.ACCESS[name].read(value) for name, value in named.items()}
        self._access = ClusterAccess(**access)
        self._store: str | None = option_values.SUBMIT["store"].read(store)
        self._backend: str = option_values.SUBMIT["backend"].read(backend)

    @_offering(SubmitOptions)
    def submit(
        self, benchmark: Place, *, agree: bool = False, **options: Unpack[SubmitOptions]
    ) -> Run:
        """Submit one run, and follow it in a thread.

        Returns once the run is recorded; where an operator serves, once it has begun. ``options``
        are those of ``k8sbench submit`` with underscores (``batch_size=64``, ``timeout="2h"``,
        ``set="nightly"``); ``agree`` lets the program of a file of your own run on this machine.
        With ``detach=True`` nobody follows the run until :meth:`Run.wait` does. For several runs
        call it several times with one ``set``.
        """
        wanted = self._request(benchmark, options, agree=agree)
        several = max(wanted.repeats or 1, len(wanted.batch_sizes)) > 1
        if wanted.all_cases or wanted.resume or several or wanted.dry_run:
            raise UsageError("A client submits one run at a time.", "Submit each, with one set=.")
        work = _Work(submit.submit, wanted)
        return Run(self, work.recorded(), None if wanted.detach else work)

    def run(self, run_id: str) -> Run:
        """Return a run by its id, or a unique beginning of one."""
        status = self.status(run_id)
        return Run(self, status.run_id, seen=str(status.phase))

    @_offering(SubmitOptions)
    def render(self, benchmark: Place, **options: Unpack[SubmitOptions]) -> list[Manifest]:
        """Return the objects that :meth:`submit` would create."""
        wanted = self._request(benchmark, options)
        set_name = wanted.set_name or "example"
        return cases.render(wanted, _Progress(), run_id=wanted.run_id, set_name=set_name)

    @_offering(RowFilters)
    def results(
        self,
        *,
        set: str | None = None,  # noqa: A002 - as the option is called
        runs: str | Sequence[str] | None = None,
        every: bool = False,
        **filters: Unpack[RowFilters],
    ) -> list[Row]:
        """Return the rows, in the order of ``k8sbench results``.

        By default those of each case's latest set, with ``every`` those of all sets; with ``runs``
        those that have one of them, without any no row. ``filters`` are ``benchmark``,
        ``framework``, ``precision`` and ``case``.
        """
        named = () if runs is None else option_values.texts("runs", runs)
        wanted = Wanted(
            chosen=_filter(filters),
            set_name=_text("--set", set),
            every=every or bool(named),
            runs=named,
        )
        if runs is not None and not named:
            return []
        report = rows_of.results(wanted, self._scope(), _noted)
        return [_row(result) for result in report.results]

    @_offering(RowFilters)
    def compare(
        self, a: str | None = None, b: str | None = None, **filters: Unpack[RowFilters]
    ) -> Comparison:
        """Compare B, the new side, with A; without sides, the newest night with the one before.

        Each side is a set, a group, a run or a baseline. ``nights`` of the answer has the days of
        the nights; with one day the store has no night before.
        """
        sides = _text("a", a), _text("b", b)
        return comparisons.compare(*sides, self._scope(), _noted, chosen=_filter(filters))

    def runs(
        self,
        *,
        set: str | None = None,  # noqa: A002 - as the option is called
        benchmark: str | None = None,
        since: str | None = None,
    ) -> list[ListedRun]:
        """Return the runs, oldest first, as ``k8sbench list -o json`` has them.

        ``since`` is a length of time before now (``"3d"``), or a date.
        """
        wanted = RunFilter(
            set_name=_text("--set", set),
            benchmark=_text("--benchmark", benchmark),
            since=_moment(since),
        )
        return run_list.list_runs(
            wanted, self._scope(), _noted, lambda listing: list(listing.rows())
        )

    @_offering(CaseFilters)
    def history(
        self, benchmark: str, *, since: str | None = None, **filters: Unpack[CaseFilters]
    ) -> list[CaseHistory]:
        """Return the cases of a benchmark over their sets, with what changed.

        ``filters`` are ``framework``, ``precision`` and ``case``.
        """
        chosen = _filter({"benchmark": benchmark, **filters})
        return comparisons.history(chosen, self._scope(), _noted, since=_moment(since))

    def explain(self, what: str) -> str:
        """Explain a run, a group, or an id such as ``gpu-count``, in words."""
        named = option_values.text("what", what)
        return explanation.text(rows_of.explain(named, self._scope(), _noted))

    @_offering(LogOptions)
    def measure(
        self, logs: Place | Sequence[Place], **options: Unpack[LogOptions]
    ) -> list[Measurement]:
        """Measure existing logs, files or folders; nothing is recorded.

        Raises the error of the first log that cannot be measured.
        """
        measured, failures = imports.measure(
            option_values.texts("logs", logs), _of_logs("measure", options)
        )
        if failures:
            raise failures[0]
        return [log.measurement for log in measured]

    @_offering(LogOptions)
    def import_logs(
        self,
        logs: Place | Sequence[Place],
        *,
        set: str | None = None,  # noqa: A002 - as the option is called
        skip_unreadable: bool = False,
        from_names: bool = False,
        replace: bool = False,
        **options: Unpack[LogOptions],
    ) -> list[Row]:
        """Record existing logs as runs; returns their rows.

        All logs are recorded, or none: then it raises the error of the first. With
        ``skip_unreadable`` those that cannot be measured are left out, and logged.
        """
        done = imports.import_logs(
            option_values.texts("logs", logs),
            _of_logs("import", options),
            _noted,
            set_name=_text("--set", set),
            skip_unreadable=skip_unreadable,
            from_names=from_names,
            replace=replace,
            where=self._store,
        )
        if done.rows is None:
            raise done.failures[0]
        for error in done.failures:
            LOG.warning("left out: %s", error)
        return [_row(result) for result in done.rows.report.results]

    @_offering(LogOptions)
    def observe(
        self,
        job: str,
        *,
        set: str | None = None,  # noqa: A002 - as the option is called
        **options: Unpack[LogOptions],
    ) -> list[Row]:
        """Follow a job that somebody else created to its end; returns the rows of its run.

        ``job`` is ``KIND/NAME``, as kubectl takes it. Nothing is written to the cluster.
        """
        wanted = observe.ObserveOptions(
            job=option_values.text("job", job),
            measured=_of_logs("observe", options),
            access=self._access,
            set_name=_text("--set", set),
            store=self._store,
        )
        done = observe.observe(wanted, _Progress(), Stop())
        return [_row(result) for result in done.report.results]

    def cancel(self, run_id: str) -> None:
        """End a run, or all runs of a Benchmark object; returns when they have ended.

        Of an object its operator ends them later.
        """
        run_id = option_values.text("run_id", run_id)
        work = _FOLLOWED.get(run_id)
        if work is not None and work.ends_with_us:
            work.end("Cancelled by the client.")
            return
        where = (self._store, self._access)
        ending.end([run_id], "cancel", *where, _Progress(), Stop())

    def status(self, run_id: str) -> RunStatus:
        """Return a run's current status."""
        named = option_values.text("run_id", run_id)
        return run_status.status(named, self._scope(), LOG.info)

    def logs(self, run_id: str, replica: str | None = None) -> list[str]:
        """Return the lines of a run so far."""
        named = option_values.text("run_id", run_id)
        one = _text("replica", replica)
        lines = follow.logs(named, self._scope(), LOG.info, Stop(), replica=one)
        return [_shown(line) for line in lines if line is not None]

    def follow(self, run_id: str, reporter: _Progress, stop: Stop) -> object:
        """Follow a run to its end, and measure it."""
        return follow.watch(run_id, self._store, self._access, reporter, stop)

    def _scope(self) -> StoresRead:
        return StoresRead(where=self._store, access=self._access)

    def _request(
        self, benchmark: Place, options: Mapping[str, Any], *, agree: bool = False
    ) -> SubmitRequest:
        given = option_values.keywords("submit", option_values.SUBMIT, options)
        usual = {"backend": self._backend, "store": self._store}
        agreed = option_values.AGREE.read(agree)
        name = option_values.text("benchmark", benchmark)
        return SubmitRequest(benchmark=name, access=self._access, yes=agreed, **{**usual, **given})


def _noted(text: str) -> None:
    """Log a note; that the operator's rows are missing is a warning."""
    LOG.log(logging.WARNING if text.startswith("warning: ") else logging.INFO, "%s", text)


class _Progress:
    """A Reporter that logs, and remembers the run and its latest state."""

    def __init__(self, recorded: Callable[[Recorded], None] = lambda _: None) -> None:
        self._recorded = recorded
        self.state = ""

    def plan(self, plan: RunPlan) -> None:
        LOG.info("%s %s %s", plan.benchmark, plan.framework, plan.case)

    def planned(self, run: Recorded) -> None:
        self.state = str(run.phase)
        self._recorded(run)

    def on_event(self, run: Recorded, event: JobEvent) -> None:
        if event.transition is not None:
            self.state = str(event.transition.phase)
            LOG.info("%s %s: %s", run.run_id, event.transition.phase, event.transition.cause)

    def ended(self, run: Recorded) -> None:
        self.state = str(run.phase)
        LOG.info("%s is over: %s", run.run_id, run.phase)

    def note(self, text: str) -> None:
        LOG.info("%s", text)

    def expect(self, to_come: int, finished: int, parallel: int) -> None:
        """One run alone is submitted at a time."""


class _Work:
    """A thread that follows a run."""

    def __init__(self, work: Callable[[Any, _Progress, Stop], object], what: object) -> None:
        self._stop = Stop()
        self._run: Recorded | None = None
        self._told = threading.Event()
        self._progress = _Progress(self._record)
        # A job on a cluster goes on when the interpreter ends.
        call = partial(work, what, self._progress, self._stop)
        self._done = Threads().start(call, "client")
        self._done.add_done_callback(lambda _: self._told.set())

    @property
    def state(self) -> str:
        """The run's latest state; empty before the first."""
        return self._progress.state

    @property
    def ends_with_us(self) -> bool:
        """True for a run of this process that goes on."""
        process = None if self._run is None else self._run.process
        return process is not None and process.pid == os.getpid() and not self._done.done()

    def recorded(self) -> str:
        """Wait until the run is recorded; returns its id.

        Raises the error that prevented the recording.
        """
        self._told.wait()
        if self._run is None:
            done = self._done.result()
            assert isinstance(done, Created)
            return f"{done.name}-1"
        return self._run.run_id

    def wait(self, timeout: float | None) -> None:
        """Wait for the end of the thread; raises its error."""
        try:
            self._done.result(timeout)
        except KeyboardInterrupt:
            self.end("Interrupted")
            raise
        except TimeoutError:
            raise TimedOut(f"It has not ended in {timeout:g} s.", "Wait for it again.") from None

    def end(self, cause: str) -> None:
        """Stop following; a local run ends then."""
        self._stop(cause)
        futures.wait([self._done])

    def _record(self, run: Recorded) -> None:
        if self._run is None:
            self._run = run
            _FOLLOWED[run.run_id] = self
        self._told.set()


_FOLLOWED: weakref.WeakValueDictionary[str, _Work] = weakref.WeakValueDictionary()
"""Run id → the thread of this process that follows the run."""


def _moment(since: str | None) -> float | None:
    text = _text("--since", since)
    return None if text is None else times.parse_since(text, now=time.time())


def _text(name: str, given: str | None) -> str | None:
    return None if given is None else option_values.text(name, given)


def _of_logs(command: str, options: Mapping[str, Any]) -> MeasureOptions:
    return MeasureOptions(**option_values.keywords(command, LOGS, options))


def _shown(line: PrintedLine) -> str:
    text = line.text.decode(errors="replace")
    return f"[{line.replica}] {text}" if line.replica else text


def _filter(filters: Mapping[str, Any]) -> GroupFilter:
    return GroupFilter(**option_values.keywords("This", option_values.FILTERS, filters))


def _row(result: Result) -> Row:
    fields = document.row(result)
    return msgspec.convert({**fields, "document": fields}, Row)

"""k8sbench from Python: the commands with values instead of text.

::

    from k8sbench import Client

    client = Client(namespace="team-a")
    run = client.submit("resnet50", replicas=2, amp=True)
    row = run.wait()

Nothing is printed: notes and progress go to the logger ``k8sbench``. Errors are those of
:mod:`k8sbench.model.errors`. ``docs/reference.md`` has examples.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

import msgspec

from k8sbench.app import cases, comparisons, follow, option_values, run_status, submit
from k8sbench.app import results as rows_of
from k8sbench.app.follow import PrintedLine
from k8sbench.app.objects import Created
from k8sbench.app.option_types import Place, RowFilters, SubmitOptions
from k8sbench.app.stores import StoresRead
from k8sbench.lifecycle.stop import Stop
from k8sbench.measure.group.selection import Wanted
from k8sbench.model.errors import TimedOut, UsageError
from k8sbench.model.group import GroupFilter
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.report import document
from k8sbench.report.document import RunStatus
from k8sbench.threads import Threads

if TYPE_CHECKING:
    from k8sbench.model.compared import Comparison
    from k8sbench.model.group import Result
    from k8sbench.model.plan import RunPlan
    from k8sbench.model.run import Run as Recorded
    from k8sbench.ports import JobEvent, Manifest

__all__ = ["Client", "Row", "Run"]

LOG = logging.getLogger("k8sbench")


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
    """``valid``, ``rejected``, ``unsteady``, …: the verdict of the row."""
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


class Run:
    """A run that a client submitted or found by its id."""

    def __init__(self, client: Client, run_id: str, work: _Work | None = None) -> None:
        self._client, self._work = client, work
        self.run_id = run_id

    def wait(self, timeout: float | None = None) -> Row:
        """Wait until the run is over and measured; returns its row.

        Raises what ``k8sbench submit`` would exit with, and :class:`TimedOut` after ``timeout``
        seconds, when the run goes on. A KeyboardInterrupt ends a local run; a job on a cluster
        goes on.
        """
        if self._work is None:
            self._work = _Work(self._client.follow, self.run_id)
        self._work.wait(timeout)
        return self.row

    @property
    def status(self) -> RunStatus:
        """The run's current status."""
        return self._client.status(self.run_id)

    @property
    def row(self) -> Row:
        """The row with this run; raises :class:`NotFound` if none exists yet."""
        return self._client.results(runs=(self.run_id,))[0]

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
        return Run(self, self.status(run_id).run_id)

    def render(self, benchmark: Place, **options: Unpack[SubmitOptions]) -> list[Manifest]:
        """Return the objects that :meth:`submit` would create."""
        wanted = self._request(benchmark, options)
        set_name = wanted.set_name or "example"
        return cases.render(wanted, _Progress(), run_id=wanted.run_id, set_name=set_name)

    def results(
        self,
        *,
        set: str | None = None,  # noqa: A002 - as the option is called
        runs: str | Sequence[str] = (),
        every: bool = False,
        **filters: Unpack[RowFilters],
    ) -> list[Row]:
        """Return the rows, in the order of ``k8sbench results``.

        By default those of each case's latest set, with ``every`` those of all sets. ``filters``
        are ``benchmark``, ``framework``, ``precision`` and ``case``.
        """
        named = (runs,) if isinstance(runs, str) else tuple(runs)
        wanted = Wanted(
            chosen=_filter(filters), set_name=set, every=every or bool(named), runs=named
        )
        report = rows_of.results(wanted, self._scope(), _noted)
        return [_row(result) for result in report.results]

    def compare(self, a: str, b: str, **filters: Unpack[RowFilters]) -> Comparison:
        """Compare B, the new side, with A.

        Each side is a set, a group, a run or a baseline.
        """
        return comparisons.compare(a, b, self._scope(), _noted, chosen=_filter(filters))

    def status(self, run_id: str) -> RunStatus:
        """Return a run's current status."""
        return run_status.status(run_id, self._store, self._access, LOG.info)

    def logs(self, run_id: str, replica: str | None = None) -> list[str]:
        """Return the lines of a run so far."""
        lines = follow.logs(run_id, self._store, self._access, LOG.info, Stop(), replica=replica)
        return [_shown(line) for line in lines if line is not None]

    def follow(self, run_id: str, reporter: _Progress, stop: Stop) -> object:
        """Follow a run to its end, and measure it."""
        from k8sbench.app.follow import watch

        return watch(run_id, self._store, self._access, reporter, stop)

    def _scope(self) -> StoresRead:
        return StoresRead(where=self._store, access=self._access)

    def _request(
        self, benchmark: Place, options: Mapping[str, Any], *, agree: bool = False
    ) -> SubmitRequest:
        given = option_values.keywords("submit", option_values.SUBMIT, options)
        usual = {"backend": self._backend, "store": self._store}
        name = os.fspath(benchmark)
        return SubmitRequest(benchmark=name, access=self._access, yes=agree, **{**usual, **given})


def _noted(text: str) -> None:
    """Log a note; that the operator's rows are missing is a warning."""
    LOG.log(logging.WARNING if text.startswith("warning: ") else logging.INFO, "%s", text)


class _Progress:
    """A Reporter that logs, and remembers which run was recorded."""

    def __init__(self, recorded: Callable[[str], None] = lambda _: None) -> None:
        self._recorded = recorded

    def plan(self, plan: RunPlan) -> None:
        LOG.info("%s %s %s", plan.benchmark, plan.framework, plan.case)

    def planned(self, run: Recorded) -> None:
        self._recorded(run.run_id)

    def on_event(self, run: Recorded, event: JobEvent) -> None:
        if event.transition is not None:
            LOG.info("%s %s: %s", run.run_id, event.transition.phase, event.transition.cause)

    def ended(self, run: Recorded) -> None:
        LOG.info("%s is over: %s", run.run_id, run.phase)

    def note(self, text: str) -> None:
        LOG.info("%s", text)

    def expect(self, to_come: int, finished: int, parallel: int) -> None:
        """One run alone is submitted at a time."""


class _Work:
    """A thread that follows a run."""

    def __init__(self, work: Callable[[Any, _Progress, Stop], object], what: object) -> None:
        self._stop = Stop()
        self._run_ids = list[str]()
        self._told = threading.Event()
        # A job on a cluster goes on when the interpreter ends.
        call = partial(work, what, _Progress(self._record), self._stop)
        self._done = Threads().start(call, "client")
        self._done.add_done_callback(lambda _: self._told.set())

    def recorded(self) -> str:
        """Wait until the run is recorded; returns its id.

        Raises the error that prevented the recording.
        """
        self._told.wait()
        if not self._run_ids:
            done = self._done.result()
            assert isinstance(done, Created)
            return f"{done.name}-1"
        return self._run_ids[0]

    def wait(self, timeout: float | None) -> None:
        """Wait for the end of the thread; raises its error."""
        try:
            self._done.result(timeout)
        except KeyboardInterrupt:
            self._stop("Interrupted")
            futures.wait([self._done])
            raise
        except TimeoutError:
            raise TimedOut(f"It has not ended in {timeout:g} s.", "Wait for it again.") from None

    def _record(self, run_id: str) -> None:
        self._run_ids.append(run_id)
        self._told.set()


def _shown(line: PrintedLine) -> str:
    text = line.text.decode(errors="replace")
    return f"[{line.replica}] {text}" if line.replica else text


def _filter(filters: Mapping[str, Any]) -> GroupFilter:
    return GroupFilter(**option_values.keywords("This", option_values.FILTERS, filters))


def _row(result: Result) -> Row:
    fields = document.row(result)
    return msgspec.convert({**fields, "document": fields}, Row)

"""``collect``: close finished runs that no process follows, and make rows.

``collect --all --follow`` and the collector serve: every run of some namespaces is collected, until
a stop. That ends with an error where the store cannot be used; the collector begins again then.
"""

from __future__ import annotations

import contextlib
import platform
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from k8sbench.app import collectors, connections, lookup, results, stores
from k8sbench.app.context import on_cluster
from k8sbench.app.results import Rows
from k8sbench.lifecycle import collecting, owners, serving
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import Agree, Reporter, RunContext, Stop
from k8sbench.lifecycle.gathering import Gathering
from k8sbench.lifecycle.serving import Serving
from k8sbench.model.errors import BenchError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Location, Run
from k8sbench.model.times import SERVER_SECONDS
from k8sbench.ports import Store

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.collectors import Lease

MOST_NOTES = 1000
"""Notes that are remembered, so as not to be repeated."""


class CollectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Runs to collect, and options of collecting."""

    runs: tuple[str, ...] = ()
    """Ids, or unique beginnings of them; none: all of the namespace that need collection."""
    take_over: bool = False
    """True to make this store the owner of the jobs of :attr:`runs`."""
    until_over: bool = False
    """True to wait for active jobs."""
    access: ClusterAccess = ClusterAccess()
    store: str | None = None
    """Folder or URL; None: the default place."""
    keep: bool = False
    """True to keep finished jobs and pods on the cluster."""
    wait: bool = False
    """True to wait even for problems that cannot recover by themselves."""
    accept: tuple[str, ...] = ()
    """Ids of reasons that do not reject."""
    prometheus: str = connections.AUTO
    """URL, ``auto`` or ``none``."""


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """Collected runs, and the rows of the closed ones."""

    result: CollectResult
    rows: Rows


def collect(options: CollectOptions, reporter: Reporter, stop: Stop, agree: Agree) -> Collected:
    """Collect the named runs, or every run of the namespace that needs it.

    Asked to stop it returns early, with the runs that go on. ``agree`` is asked before a job is
    taken over.
    """
    results.check_accepted(options.accept)
    result = CollectResult()
    with stores.to_write(options.store) as store:
        for location, run_ids in _by_location(store, options, result, reporter.note).items():
            api = connections.connect(options.access, location)
            with _opened(store, api, options, reporter, options.access) as context, stop:
                for run_id in run_ids if options.take_over else ():
                    owners.take_over(run_id, context, agree, reporter.note)
                if options.runs:
                    runs = [_known(run_id, context) for run_id in run_ids]
                else:
                    runs = _pending_runs(context, reporter.note)
                    runs += collecting.owed_runs(context)
                for run in filter(collecting.needs_collection, runs):
                    collecting.check_place(run, context.cluster, context.location)
                gathering = Gathering(context, reporter)
                collected = collecting.collect(
                    *(runs, context, reporter, stop),
                    follow=options.until_over,
                    keep=options.keep,
                    wait=options.wait,
                    gathering=gathering,
                )
                collected.closed = results.with_gpu_metrics(
                    collected.closed, gathering, stop, reporter.note
                )
                result.add(collected)
            if stop.cause is not None:
                break
        for run_id, error in (stores.damaged(store) if not options.runs else {}).items():
            reporter.note(f"warning: run {run_id} is damaged: {error.message} {error.action}")
            result.failed.setdefault(run_id, error)
        return _with_rows(store, result, options, reporter)


def _opened(
    store: Store,
    api: Api,
    options: CollectOptions,
    reporter: Reporter,
    access: ClusterAccess | None,
) -> contextlib.AbstractContextManager[RunContext]:
    """Open a cluster to collect from; without ``access`` for the collector."""
    return on_cluster(
        *(store, api, reporter.note),
        access=access,
        prometheus=options.prometheus,
        keep=options.keep,
        accept=options.accept,
        is_collector=access is None,
    )


def _known(run_id: str, context: RunContext) -> Run:
    """Return the record of a run named by the user.

    A missing record is made now, also if the job continues the run.
    """
    store = context.store
    if run_id in store.ids():
        job = owners.job_of(run_id, context)
        if job is None or not collecting.is_continued(store.run(run_id), job):
            return store.run(run_id)
    return owners.recorded(run_id, context)


def _pending_runs(
    context: RunContext, note: Callable[[str], None], *, claims: bool = False
) -> list[Run]:
    """Return all runs of the namespace that need collection.

    With ``claims`` also those whose jobs name no owner; they become this store's.
    """
    jobs = context.cluster.jobs()
    owners.record_ours(jobs, context, note, claims=claims)
    owners.admit(jobs, context, note)
    return collecting.open_runs(context, {job.run_id for job in jobs})


def _with_rows(
    store: Store, result: CollectResult, options: CollectOptions, reporter: Reporter
) -> Collected:
    """Make the rows of the runs that were closed."""
    rows = results.rows(store, result.closed, reporter.note, accept=options.accept)
    return Collected(result=result, rows=rows)


def _by_location(
    store: Store, options: CollectOptions, result: CollectResult, note: Callable[[str], None]
) -> dict[Location | None, list[str]]:
    """Group the named runs by cluster; runs that the collector alone has are closed.

    The key None stands for the named or current cluster.
    """
    if not options.runs:
        return {None: []}
    locations: dict[Location | None, list[str]] = {}
    for text in options.runs:
        run = lookup.to_act_on(store, text, options.access, note)
        if run.source == collectors.SOURCE:
            result.closed.append(run)
            continue
        connections.check_on_cluster(run)
        names = locations.setdefault(None if options.access.named else run.location, [])
        if run.run_id not in names:
            names.append(run.run_id)
    return locations


# -- serving --------------------------------------------------------------------------------------


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Observation of the served namespaces at one moment."""

    listed_at: float | None
    """Time when the last namespace's jobs were listed, Unix seconds; None before."""
    runs: Sequence[Run]
    """Followed runs."""
    api_errors: dict[str, int]
    """HTTP status, or ``none`` without an answer → number of failed requests."""
    problem: str = ""
    """Error from listing the jobs of a namespace; empty without one."""


def serve(options: CollectOptions, reporter: Reporter, stop: Stop) -> Collected:
    """Collect every run of a namespace, and new ones, until asked to stop.

    New are jobs that are created there, and runs that another process of the store abandons.
    Returns what was collected, and which runs go on.
    """
    closed: dict[str, Run] = {}
    with stores.to_write(options.store) as store:
        result = serve_all(
            *(store, [options.access], options, reporter, stop),
            closed=lambda run: closed.update({run.run_id: run}),
        )
        result.closed = list(closed.values())
        return _with_rows(store, result, options, reporter)


def serve_all(
    store: Store,
    places: Sequence[ClusterAccess],
    options: CollectOptions,
    reporter: Reporter,
    stop: Stop,
    closed: Callable[[Run], None],
    look: Callable[[Look], None] | None = None,
) -> CollectResult:
    """Collect every run of several namespaces into an open store, until asked to stop.

    With ``look`` it is the collector that does so: patient with API servers, and for everybody.
    """
    is_all = look is not None
    note_once = lru_cache(MOST_NOTES)(reporter.note)
    apis = [connections.connect(access) for access in places]
    with contextlib.ExitStack() as stack:
        served = []
        for access, api in zip(places, apis, strict=True):
            context = stack.enter_context(
                _opened(store, api, options, reporter, None if is_all else access)
            )
            find = partial(_pending_runs, context, note_once, claims=is_all)
            place = Serving(
                *(find, context, reporter), keep=options.keep, wait=options.wait, patient=is_all
            )
            served.append(stack.enter_context(place))
        stack.enter_context(stop)

        def seen(places: Sequence[Serving]) -> None:
            times = [place.listed_at for place in places]
            if look is not None:
                look(
                    Look(
                        listed_at=None if None in times else min(filter(None, times), default=None),
                        runs=[run for place in places for run in place.open_runs()],
                        api_errors=sum((Counter(api.sender.errors) for api in apis), Counter()),
                        problem=next((place.problem for place in places if place.problem), ""),
                    )
                )

        return serving.serve(served, stop, closed, seen)


# -- leadership -----------------------------------------------------------------------------------
#
# Which of several collectors collects: the one that holds a Lease; the others wait.

RENEW_SECONDS = 4.0
"""Interval of renewals."""
TOKEN_SECONDS = 60.0
"""Interval of reading the token, which may be replaced."""
HELD_SECONDS = 10.0
"""Seconds after a renewal until the collector stops.

Others may take over 15 s after the renewal.
"""


class Leadership:
    """Lease holder: acquires and renews in its own thread while entered."""

    def __init__(self, name: str, note: Callable[[str], None]) -> None:
        self.name, self._note = name, note
        self.waits_for = ""
        """Holder of the Lease, or the error; empty if held or not requested."""
        self.stands_by = False
        """True if another process held the Lease at the last attempt."""
        self.token = ""
        """Token that readers send; empty until it is read."""
        self._renewed_at: float | None = None
        self._read_token: Callable[[], str] = str
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    @property
    def is_held(self) -> bool:
        """Return True if this process may collect."""
        at = self._renewed_at
        return at is not None and time.monotonic() - at < HELD_SECONDS

    def __enter__(self) -> Leadership:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(HELD_SECONDS)

    def _keep(self) -> None:
        from k8sbench.adapters.kubernetes.collectors import REQUEST_SECONDS, Lease, token

        holder = f"{platform.node()}_{uuid.uuid4().hex[:8]}"
        while not self._stopped.is_set():
            try:
                api = connections.connect(ClusterAccess())
            except BenchError as error:
                self.waits_for = str(error)
            else:
                with contextlib.closing(api):
                    api.retry_s = REQUEST_SECONDS
                    self._read_token = partial(token, api, self.name)
                    self._renew(Lease(api, self.name, holder))
            self._stopped.wait(SERVER_SECONDS)

    def _renew(self, lease: Lease) -> None:
        read_at, problem = 0.0, ""
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                if not self.token or began - read_at >= TOKEN_SECONDS:
                    self.token, read_at, problem = self._read_token(), began, ""
            except BenchError as error:
                if str(error) != problem:
                    problem = str(error)
                    self._note(f"warning: nobody can read this collector: {problem}")
            try:
                is_ours = lease.attempt()
            except BenchError as error:
                self.waits_for, self.stands_by = error.message, False
            else:
                self.waits_for = "" if is_ours else f"{lease.other} holds Lease {self.name}"
                self.stands_by = not is_ours
                self._renewed_at = began if is_ours else None
            self._stopped.wait(RENEW_SECONDS if self.is_held else SERVER_SECONDS)
        if self.is_held:
            self._renewed_at = None
            with contextlib.suppress(BenchError):  # it expires
                lease.release()


# -- collector settings ---------------------------------------------------------------------------
#
# What a collector is to do: from flags and the environment.


class CollectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a collector."""

    namespaces: tuple[str, ...] = ()
    """Names of namespaces; empty: the one that it runs in."""
    store: str | None = None
    """Folder or URL; None: the default place."""
    prometheus: str = connections.USUAL
    """URL, ``usual`` or ``none``."""
    baseline: str | None = None
    """Name of the baseline with which the newest sets are compared; None: none is."""
    keep_logs_for: float | None = None
    """Seconds after a run's end; None: for ever."""


def settings(given: Mapping[str, Any]) -> CollectorSettings:
    """Make settings of what flags and the environment give; raises :class:`UsageError`."""
    values = {name: value for name, value in given.items() if value}
    if (length := values.get("keep_logs_for")) is not None:
        values["keep_logs_for"] = stores.keep_seconds(length)
    values["namespaces"] = tuple(dict.fromkeys(values.get("namespaces", ())))
    asked = connections.checked_prometheus(values.get("prometheus", connections.AUTO))
    values["prometheus"] = connections.USUAL if asked == connections.AUTO else asked
    return CollectorSettings(**values)

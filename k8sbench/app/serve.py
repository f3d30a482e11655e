"""Serving: every run of some namespaces is collected, until a stop.

``collect --all --follow`` and the collector are this. It ends with an error where the store cannot
be used; the collector begins again then.
"""

from __future__ import annotations

import contextlib
import platform
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from k8sbench.app import collect, connections, metric_sources, stores
from k8sbench.app.collect import Collected, CollectOptions
from k8sbench.app.context import on_cluster
from k8sbench.lifecycle import serving
from k8sbench.lifecycle.collecting import CollectResult
from k8sbench.lifecycle.context import Reporter, Stop
from k8sbench.lifecycle.serving import Serving
from k8sbench.model.errors import BenchError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Run
from k8sbench.model.times import SERVER_SECONDS

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.collectors import Lease
    from k8sbench.adapters.store.sql_store import SqlStore

MOST_NOTES = 1000
"""Notes that are remembered, so as not to be repeated."""


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

    def keep(run: Run) -> None:
        closed[run.run_id] = run

    with stores.to_write(options.store) as store:
        result = serve_all(store, [options.access], options, reporter, stop, keep)
        result.closed = list(closed.values())
        return collect.with_rows(store, result, options, reporter)


def serve_all(
    store: SqlStore,
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
    apis: list[Api] = []
    is_all = look is not None
    noted: set[str] = set()

    def note_once(text: str) -> None:
        if len(noted) >= MOST_NOTES:
            noted.clear()
        if text not in noted:
            noted.add(text)
            reporter.note(text)

    with contextlib.ExitStack() as stack:
        served = []
        for access in places:
            api = connections.connect(access)
            apis.append(api)
            context = stack.enter_context(
                on_cluster(
                    *(store, api, reporter.note),
                    access=None if is_all else access,
                    prometheus=options.prometheus,
                    keep=options.keep,
                    accept=options.accept,
                    is_collector=is_all,
                )
            )
            find = partial(collect.pending_runs, context, note_once, claims=is_all)
            place = Serving(
                *(find, context, reporter),
                keep=options.keep,
                wait=options.wait,
                patient=is_all,
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
    prometheus: str = metric_sources.USUAL
    """URL, ``usual`` or ``none``."""
    baseline: str | None = None
    """Name of the baseline with which the newest sets are compared; None: none is."""
    keep_logs_for: float | None = None
    """Seconds after a run's end; None: for ever."""


def load(given: Mapping[str, Any]) -> CollectorSettings:
    """Make settings of what flags and the environment give; raises :class:`UsageError`."""
    values = {name: value for name, value in given.items() if value}
    if (length := values.get("keep_logs_for")) is not None:
        values["keep_logs_for"] = stores.keep_seconds(length)
    values["namespaces"] = tuple(dict.fromkeys(values.get("namespaces", ())))
    asked = metric_sources.checked(values.get("prometheus", metric_sources.AUTO))
    values["prometheus"] = metric_sources.USUAL if asked == metric_sources.AUTO else asked
    return CollectorSettings(**values)

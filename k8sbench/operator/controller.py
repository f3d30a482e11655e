"""Main loop of the operator: wait for the Lease, collect, retry.

Collecting has its own thread. The main thread ends it at a stop request and when the Lease is lost.
No state is in memory alone, so any other process can continue after a kill.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from k8sbench import limits
from k8sbench.app import connections, serve, stores
from k8sbench.app.serve import ServedNamespace
from k8sbench.lifecycle.context import Reporter
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.plain_text import counted
from k8sbench.model.request import ClusterAccess, CollectOptions
from k8sbench.model.run import Run
from k8sbench.results.stored_groups import StoredGroups
from k8sbench.store.interface import RunFilter, Store
from k8sbench.threads import internal

LATEST = 500
"""Number of recent runs read at startup, for their metrics."""
RETENTION_SECONDS = 3600.0
"""Interval of checks for expired logs."""
WRITE_SECONDS = 10.0
"""Interval of checks that the store is there and writable."""
SUCCESS_SECONDS = 90.0
"""Seconds of readiness after the last listing and store write.

This spans several attempts.
"""
_NOT_OPENED = "The store was not opened yet."
_NOT_READY = "warning: not ready: {}"


class OperatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an operator."""

    namespaces: tuple[str, ...] = ()
    """Names of namespaces; empty: the one that it runs in."""
    store: str | None = None
    """Folder; None: the default place."""
    prometheus: str = connections.USUAL
    """URL, ``usual`` or ``none``."""
    baseline: str | None = None
    """Name of the baseline with which the newest sets are compared; None: none is."""
    reserved: tuple[str, ...] = ()
    """Claims and Secrets that no Benchmark may name, each ``NAMESPACE/NAME``."""
    allow_own_pools: bool = False
    """True if Benchmarks may bring any pool; otherwise they narrow those of the operator."""
    keep_logs_for: float | None = None
    """Seconds after a run's end; None: for ever."""
    observe: bool = False
    """True to observe the labelled jobs of others."""
    observe_keep_logs_for: float | None = None
    """As ``keep_logs_for``, for the logs of observed jobs alone."""
    observe_serve_logs: bool = False
    """True to serve the logs of observed jobs."""


def settings(given: Mapping[str, Any]) -> OperatorSettings:
    """Make settings of what flags and the environment give; raises :class:`UsageError`."""
    values = {name: value for name, value in given.items() if value}
    for name in ("keep_logs_for", "observe_keep_logs_for"):
        if (length := values.get(name)) is not None:
            values[name] = stores.keep_seconds(length, f"--{name.replace('_', '-')}")
    for name in ("namespaces", "reserved"):
        values[name] = tuple(dict.fromkeys(values.get(name, ())))
    asked = connections.checked_prometheus(values.get("prometheus", connections.AUTO))
    values["prometheus"] = connections.USUAL if asked == connections.AUTO else asked
    return OperatorSettings(**values)


class PlaceLook(msgspec.Struct, frozen=True, kw_only=True):
    """Observation of one namespace at one moment."""

    unserved: str = ""
    """Reason why it is not served; empty if it is."""
    listed_at: float | None = None
    """Monotonic time when its jobs were listed, seconds; None before."""
    problem: str = ""
    """Error from listing its jobs; empty without one."""
    refusal: str = ""
    """Reason why it creates no jobs; empty if it does."""
    objects_problem: str = ""
    """Reason why its Benchmark objects are not served; empty without one."""

    def unready(self, now: float) -> str:
        """Return the reason why the namespace is not ready at a monotonic time; empty if it is."""
        if self.unserved:
            return self.unserved
        if self.listed_at is None:
            return f"the jobs were not listed yet. {self.problem}".strip()
        if now - self.listed_at > SUCCESS_SECONDS:
            return f"the jobs were not listed for {SUCCESS_SECONDS:.0f} s. {self.problem}".strip()
        if self.objects_problem:
            return self.objects_problem
        return self.refusal and f"no job can be created for now: {self.refusal}"


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Observation of the namespaces at one moment."""

    now: float | None
    """Time of the clusters, Unix seconds; None if no namespace is served."""
    listed_time: float | None
    """Earliest time of the lists of jobs by the clusters' clock, Unix seconds.

    None if a namespace is served whose jobs were not listed yet, or none is served.
    """
    runs: Sequence[Run]
    """Followed runs."""
    api_errors: Mapping[str, int]
    """HTTP status, or ``none`` without an answer → number of failed requests."""
    places: Mapping[str, PlaceLook]
    """By namespace."""


def look_at(places: Sequence[ServedNamespace]) -> Look:
    """Return what is seen of the namespaces now."""
    served = [place.serving for place in places if place.serving is not None]
    return Look(
        now=max((one.now for one in served), default=None),
        listed_time=_earliest([one.listed_time for one in served]),
        runs=[run for one in served for run in one.open_runs()],
        api_errors=sum((place.errors for place in places), Counter()),
        places={place.name: _look_at(place) for place in places},
    )


def _look_at(place: ServedNamespace) -> PlaceLook:
    served = place.serving
    if served is None:
        return PlaceLook(unserved=place.problem)
    return PlaceLook(
        listed_at=served.listed_at,
        problem=served.problem,
        refusal=served.refusal,
        objects_problem=served.objects_problem,
    )


def _earliest(times: Sequence[float | None]) -> float | None:
    """Return the earliest of the times; None if one is missing."""
    known = [one for one in times if one is not None]
    return min(known) if known and len(known) == len(times) else None


class OperatorState(msgspec.Struct, kw_only=True):
    """Observable state of the operator.

    Written by the operator, read by any thread.
    """

    settings: OperatorSettings
    started_at: float = msgspec.field(default_factory=time.time)
    """Time when the operator started, Unix seconds."""
    is_leader: bool = False
    stands_by: bool = False
    """True if another process holds the Lease."""
    waits_for: str = ""
    """Reason for not holding or not renewing a Lease, one sentence; empty without one."""
    is_opening: bool = False
    """True until the store is open or cannot be opened: others should not open it meanwhile."""
    failure: str = _NOT_OPENED
    """Reason why collecting last stopped; empty while it runs."""
    look: Look | None = None
    succeeded_at: float | None = None
    """Time of the last listing and store write by the clusters' clock, Unix seconds.

    None if never.
    """
    looked_at: float = 0.0
    """Monotonic seconds of the last sign of collecting or waiting."""

    @property
    def is_starting(self) -> bool:
        """True before the store is open, or it is known why not or how far its index is."""
        return self.is_opening and self.failure == _NOT_OPENED and not self.waits_for

    @property
    def unready(self) -> str:
        """Reason for not being ready; empty if ready."""
        if self.stands_by:
            return ""
        if not self.is_leader:
            return self.waits_for or "the Lease was not asked for yet."
        if self.failure or self.waits_for:
            return self.failure or self.waits_for
        if self.look is None:
            return "the jobs were not listed yet."
        places = self.unready_places
        if len(places) < len(self.look.places):
            return ""
        return _by_namespace(places) if len(places) > 1 else "".join(places.values())

    @property
    def unready_places(self) -> Mapping[str, str]:
        """Namespaces that are not ready, with their reasons."""
        if self.look is None:
            return {}
        now = time.monotonic()
        reasons = {name: place.unready(now) for name, place in self.look.places.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    @property
    def doing(self) -> str:
        """Activity while ready."""
        if not self.is_leader:
            return f"waiting: {self.waits_for or 'for the Lease'}"
        return "; not ready: ".join(
            filter(None, ["collecting", _by_namespace(self.unready_places)])
        )


def _by_namespace(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"namespace {name}: {reason}" for name, reason in reasons.items())


class LeaseState(Protocol):
    """The right to collect, which one of several replicas has."""

    waits_for: str

    @property
    def stands_by(self) -> bool:
        """Return True if another replica holds it."""

    @property
    def is_held(self) -> bool:
        """Return True if this process may collect."""

    def why_not(self, namespace: str) -> str:
        """Return the reason why a namespace may not be served; empty if it may."""


class Controller:
    """One operator; :meth:`run` returns when it was asked to stop."""

    def __init__(
        self,
        settings: OperatorSettings,
        lease: LeaseState,
        reporter: Reporter,
        closed: Callable[[Run], None] = lambda _: None,
    ) -> None:
        self._lease, self._reporter, self._closed = lease, reporter, closed
        now = time.monotonic()
        self.state = OperatorState(settings=settings, is_opening=True, looked_at=now)
        self._store_id: str | None = None
        """Identity of the store that was opened first; None before."""
        self._told = _NOT_READY.format(self.state.unready)

    def run(self, stop: Stop) -> None:
        """Collect whenever the Lease is held, until the stop."""
        with stop:
            while stop.cause is None:
                self.state.is_leader = self._lease.is_held
                self.state.stands_by = self._lease.stands_by
                self.state.waits_for = self._lease.waits_for
                if self.state.is_leader:
                    self._collect(stop)
                else:
                    self.state.looked_at = time.monotonic()
                    if self.state.waits_for:
                        self._tell()
                    time.sleep(limits.now.operator_look)
        self.state.is_leader = False

    def _tell(self) -> None:
        """Log what it does, or why it is not ready, once for each change."""
        why = self.state.unready
        told = _NOT_READY.format(why) if why else self.state.doing
        if told != self._told:
            self._told = told
            self._reporter.note(told)

    def _collect(self, stop: Stop) -> None:
        """Collect until there is a reason to end; the thread has ended then."""
        part = Stop()
        work = threading.Thread(target=self._serve, args=(part,), name="collect")
        work.start()
        while work.is_alive():
            if stop.cause is not None:
                part(stop.cause)
            elif not self._lease.is_held:
                part("The Lease was lost")
                self.state.is_leader = False
            self.state.waits_for = self._lease.waits_for
            work.join(limits.now.operator_look)
            if part.cause is None and self.state.look is not None:
                self._tell()
        if part.cause is not None:
            self._reporter.note(f"{part.cause}: collecting ends.")
            return
        self._tell()
        until = time.monotonic() + limits.now.retry_serving
        while stop.cause is None and time.monotonic() < until:
            self.state.looked_at = time.monotonic()
            time.sleep(limits.now.operator_look)

    def _check_same(self, store: Store) -> None:
        """Raise :class:`StoreError` for another store than the one that was opened first."""
        self._store_id = self._store_id or store.identity
        if store.identity != self._store_id:
            raise StoreError(
                "The store is another one than the operator had opened.",
                "Bring that one back from a copy, or restart the operator to begin with this one.",
            )

    def _delete_logs(self, prune: Callable[..., tuple[Mapping[str, Any], Any]]) -> None:
        """Delete the logs that were kept for long enough."""
        settings = self.state.settings
        for keep_s, observed, option in (
            (settings.keep_logs_for, False, stores.KEEP_OPTION),
            (settings.observe_keep_logs_for, True, "--observe-keep-logs-for"),
        ):
            if keep_s is None:
                continue
            done, _ = prune(keep_s, option=option, observed=observed)
            if done:
                self._reporter.note(
                    f"The logs of {counted(len(done), 'run')} were removed ({option})."
                )

    def _serve(self, stop: Stop) -> None:
        """Collect; whatever fails is noted, and no reason to end the program."""
        settings = self.state.settings
        places = [ClusterAccess(namespace=name) for name in settings.namespaces]
        options = CollectOptions(
            store=settings.store,
            prometheus=settings.prometheus,
            reserved=settings.reserved,
            allow_own_pools=settings.allow_own_pools,
            observe=settings.observe,
        )
        delete_at = try_at = 0.0
        self.state.look = None
        self.state.is_opening = True

        def progress(text: str) -> None:
            """Show how far the index is, for which it is not ready, and that it goes on."""
            self.state.looked_at = time.monotonic()
            self.state.failure = text
            self._reporter.note(text)

        def look(places: Sequence[ServedNamespace]) -> None:
            nonlocal delete_at, try_at
            now = time.monotonic()
            if now >= try_at:
                store.check_writable()
                try_at = now + WRITE_SECONDS
            seen = self.state.look = look_at(places)
            self.state.looked_at, self.state.failure = now, ""
            if seen.listed_time is not None:
                self.state.succeeded_at = seen.listed_time
            if now >= delete_at:
                delete_at = now + RETENTION_SECONDS
                with contextlib.suppress(BenchError):  # the next look finds them
                    self._delete_logs(partial(stores.prune, store))

        try:
            is_first = self._store_id is None
            with stores.open_writable(settings.store, create=is_first, note=progress) as store:
                self._check_same(store)
                StoredGroups(store, progress)  # before somebody waits for it
                self.state.is_opening = False
                self.state.looked_at = time.monotonic()
                for run in store.runs(RunFilter(limit=LATEST)):
                    if run.phase.final:
                        self._closed(run)
                serve.serve(
                    store,
                    places or [ClusterAccess()],
                    options,
                    self._reporter,
                    stop,
                    why_not=self._lease.why_not,
                    closed=self._closed,
                    look=look,
                )
        except BenchError as error:
            self.state.failure = str(error)
        except Exception as error:
            self.state.failure = internal(error)
            for line in traceback.format_exc().splitlines():
                self._reporter.note(line)
        finally:
            self.state.is_opening = False

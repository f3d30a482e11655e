"""The work of an operator: serve namespaces until a stop.

Every run of the namespaces is collected. Serving ends with an error where the store cannot be used;
the operator begins again then.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from k8sbench import limits
from k8sbench.app import connections, object_cases
from k8sbench.app.run_contexts import on_cluster
from k8sbench.json_decoders import decoder
from k8sbench.lifecycle import serving
from k8sbench.lifecycle.context import Note, Reporter
from k8sbench.lifecycle.serving import Serving
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.benchmark_object import ObjectSpec
from k8sbench.model.errors import BenchError, StoreError
from k8sbench.model.request import ClusterAccess, CollectOptions
from k8sbench.model.run import Run

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.leadership import Leadership
    from k8sbench.app.labelled_jobs import LabelledJobs
    from k8sbench.store.sql_store import SqlStore


class ServedNamespace:
    """A namespace of an operator: served while it may be, whatever becomes of the others."""

    def __init__(
        self,
        access: ClusterAccess,
        store: SqlStore,
        options: CollectOptions,
        reporter: Reporter,
        stop: Stop,
        why_not: Callable[[str], str],
    ) -> None:
        """Serve nothing yet; ``why_not`` tells why a namespace may not be served, or nothing."""
        self._access, self._store, self._options = access, store, options
        self._reporter, self._stop, self._why_not = reporter, stop, why_not
        self._note_once = lru_cache(serving.MOST_NOTES)(reporter.note)
        self._api: Api | None = connections.connect(access)
        self.name = self._api.place.namespace
        self._open = contextlib.ExitStack()
        self._again_at = -math.inf
        self._errors: Counter[str] = Counter()
        """Failed requests of connections that are closed."""
        self.serving: Serving | None = None
        """None while it is not served."""
        self._labelled: LabelledJobs | None = None
        self.problem = ""
        """Reason why it is not served; empty while it is."""

    def __enter__(self) -> ServedNamespace:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def errors(self) -> Counter[str]:
        """Numbers of failed requests by HTTP status."""
        return self._errors + Counter(self._api.sender.errors if self._api else ())

    def step(self, seconds: float) -> list[Run]:
        """Do the work at hand, or wait; returns the closed runs.

        An error of the namespace is noted, and it is opened again later; one of the store is
        raised.
        """
        problem = self._why_not(self.name)
        try:
            if problem:
                self._close()
            elif self.serving is None and time.monotonic() >= self._again_at:
                self.serving = self._opened()
                self.problem = ""
            if self.serving is not None:
                closed = self.serving.step(seconds)
                return closed + (self._labelled.step() if self._labelled else [])
        except StoreError:
            raise
        except BenchError as error:
            self._close()
            self._again_at = time.monotonic() + limits.now.retry_serving
            problem = str(error)
        self.problem = problem or self.problem
        time.sleep(seconds)
        return []

    def _opened(self) -> Serving:
        """Connect to the namespace, and begin to serve it."""
        from k8sbench.adapters.kubernetes.benchmark_objects import BenchmarkObjects
        from k8sbench.app.labelled_jobs import LabelledJobs

        api = self._api = self._api or connections.connect(self._access)
        stack, store, reporter = self._open, self._store, self._reporter
        context = stack.enter_context(
            on_cluster(store, api, reporter.note, self._options, is_operator=True)
        )
        objects = stack.enter_context(contextlib.closing(BenchmarkObjects(api)))
        plan = partial(object_cases.plan_object, api, self._note_once, self._options)
        served = stack.enter_context(Serving(context, reporter, objects, plan))
        if self._options.observe:
            jobs = LabelledJobs(store, api, reporter, self._options.prometheus, self._stop)
            self._labelled = stack.enter_context(jobs)
        return served

    def _close(self) -> None:
        """Stop serving the namespace; its runs go on."""
        self._errors = self.errors
        self._api = self.serving = self._labelled = None
        self._open.close()


def serve(
    store: SqlStore,
    places: Sequence[ClusterAccess],
    options: CollectOptions,
    reporter: Reporter,
    stop: Stop,
    *,
    why_not: Callable[[str], str],
    closed: Callable[[Run], None],
    look: Callable[[Sequence[ServedNamespace]], None],
) -> None:
    """Serve namespaces as their operator, until a stop.

    Every run is collected, those too that another process of the store abandoned, the runs of
    Benchmark objects are created, and labelled jobs of others are observed. ``why_not`` tells why a
    namespace may not be served, or nothing. In each turn ``look`` sees the namespaces.
    """
    resolve_types()
    with contextlib.ExitStack() as stack:
        served = []
        for access in places:
            place = ServedNamespace(access, store, options, reporter, stop, why_not)
            served.append(stack.enter_context(place))
        stack.enter_context(stop)
        serving.serve(served, stop, closed, look)


def resolve_types() -> None:
    """Resolve the types that planning reads, before there are threads."""
    from k8sbench.catalog.image import ImageTable
    from k8sbench.catalog.spec import BenchmarkSpec
    from k8sbench.model.pool import PoolsFile
    from k8sbench.model.run import Run

    for type_ in (ObjectSpec, BenchmarkSpec, PoolsFile, ImageTable, Run):
        decoder(type_)


def leadership(name: str, namespaces: Sequence[str], note: Note) -> Leadership:
    """Make the holder of the Leases of namespaces; by default of this process's own."""
    from k8sbench.adapters.kubernetes.leadership import Leadership

    return Leadership(partial(connections.connect, ClusterAccess()), name, namespaces, note)

"""The work of an operator: serve namespaces until a stop.

Every run of the namespaces is collected. Serving ends with an error where the store cannot be used;
the operator begins again then.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from k8sbench.app import connections, object_cases
from k8sbench.app.connections import on_cluster
from k8sbench.json_decoders import decoder
from k8sbench.lifecycle import serving
from k8sbench.lifecycle.context import Note, Reporter
from k8sbench.lifecycle.serving import Serving
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.benchmark_object import ObjectSpec
from k8sbench.model.request import ClusterAccess, CollectOptions
from k8sbench.model.run import Run

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.leadership import Leadership
    from k8sbench.adapters.store.sql_store import SqlStore


def serve(
    store: SqlStore,
    places: Sequence[ClusterAccess],
    options: CollectOptions,
    reporter: Reporter,
    stop: Stop,
    closed: Callable[[Run], None],
    look: Callable[[Sequence[Serving], Mapping[str, int]], None],
) -> None:
    """Serve namespaces as their operator, until a stop.

    Every run is collected, those too that another process of the store abandoned, the runs of
    Benchmark objects are created, and labelled jobs of others are observed. In each turn ``look``
    takes the namespaces, and the numbers of failed requests by HTTP status.
    """
    from k8sbench.adapters.kubernetes.benchmark_objects import BenchmarkObjects
    from k8sbench.app.labelled_jobs import LabelledJobs

    resolve_types()
    note_once = lru_cache(serving.MOST_NOTES)(reporter.note)
    apis = [connections.connect(access) for access in places]
    with contextlib.ExitStack() as stack:
        served = []
        labelled = []
        for api in apis:
            opened = on_cluster(store, api, reporter.note, options, is_operator=True)
            context = stack.enter_context(opened)
            objects = stack.enter_context(contextlib.closing(BenchmarkObjects(api)))
            plan = partial(object_cases.plan_object, api, note_once, options)
            served.append(stack.enter_context(Serving(context, reporter, objects, plan)))
            if options.observe:
                jobs = LabelledJobs(store, api, reporter, options.prometheus, stop)
                labelled.append(stack.enter_context(jobs))
        stack.enter_context(stop)

        def seen(places: Sequence[Serving]) -> None:
            for jobs in labelled:
                for run in jobs.step():
                    closed(run)
            look(places, sum((Counter(api.sender.errors) for api in apis), Counter()))

        serving.serve(served, stop, closed, seen)


def resolve_types() -> None:
    """Resolve the types that planning reads, before there are threads."""
    from k8sbench.model.image import ImageTable
    from k8sbench.model.pool import PoolsFile
    from k8sbench.model.run import Run
    from k8sbench.model.spec import BenchmarkSpec

    for type_ in (ObjectSpec, BenchmarkSpec, PoolsFile, ImageTable, Run):
        decoder(type_)


def leadership(name: str, namespaces: Sequence[str], note: Note) -> Leadership:
    """Make the holder of the Leases of namespaces; by default of this process's own."""
    from k8sbench.adapters.kubernetes.leadership import Leadership

    return Leadership(partial(connections.connect, ClusterAccess()), name, namespaces, note)

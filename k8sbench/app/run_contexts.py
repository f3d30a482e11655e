"""The context of runs: a cluster or this machine, and what runs are measured and rendered by.

Here the parts meet: the runner gets the reader, the adapters and the templates as functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from k8sbench import limits
from k8sbench.app import connections
from k8sbench.model.errors import StoreError
from k8sbench.model.kube import JobIdentity, annotations_of
from k8sbench.model.names import WAITS_ANNOTATION
from k8sbench.model.request import FollowOptions
from k8sbench.model.run import Run
from k8sbench.threads import Inline, Threads

if TYPE_CHECKING:
    from k8sbench.adapters import measuring
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.lifecycle.context import Note, RunContext
    from k8sbench.model.measurement import Measurement
    from k8sbench.model.sample import LogGap
    from k8sbench.ports.cluster import Cluster, Manifest
    from k8sbench.ports.metrics import MetricSource
    from k8sbench.store.interface import Store


def run_context(
    store: Store,
    cluster: Cluster,
    api: Api | None = None,
    *,
    accept: Sequence[str] = (),
    metric_sources: Sequence[MetricSource] = (),
    deadline_s: float | None = None,
    is_operator: bool = False,
) -> RunContext:
    """Put together what runs need of the outside; ``accept`` overrules rejections by their ids.

    ``api`` is the connection to a cluster: the limits of its runs count by its clock. An operator
    measures in a process of its own, beside the runs that it follows.
    """
    # Imported here: the options of every command import this module.
    from k8sbench.adapters import processes, steady_clock
    from k8sbench.lifecycle.context import RunContext
    from k8sbench.results.groups import grouping

    return RunContext(
        store=store,
        cluster=cluster,
        clock=api.time if api else steady_clock.steady,
        process=None if cluster.jobs_outlive_us else processes.this_process(),
        alive=processes.alive,
        measure=partial(measure_run, store, accept, apart=is_operator),
        measures=Threads() if is_operator else Inline(),
        groups=grouping.groups,
        objects=partial(_objects, store),
        pool=Threads() if cluster.jobs_outlive_us else Inline(),
        location=api.place if api else None,
        metric_sources=metric_sources,
        deadline_s=deadline_s,
        accept=accept,
    )


@contextlib.contextmanager
def on_cluster(
    store: Store,
    api: Api,
    note: Note,
    options: FollowOptions,
    *,
    run: Run | None = None,
    is_operator: bool = False,
    create_s: float | None = None,
    deadline_s: float | None = None,
) -> Iterator[RunContext]:
    """Open a connected cluster for a store's runs; close both afterwards.

    Later requests are retried for longer than the first, because the server has answered before.
    ``run`` must be there. The store owns the jobs that are created or taken over; with
    ``is_operator`` the namespace's operator does. Creations are tried for ``create_s``.
    """
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster

    owner = connections.job_owner(store, keep=options.keep, is_operator=is_operator)
    with contextlib.closing(api):
        api.check_answers(limits.now.api_answer)
        with contextlib.closing(KubernetesCluster(api, owner=owner)) as cluster:
            cluster.note = note
            cluster.create_s = create_s or cluster.create_s
            connections.check_place(run, cluster)
            yield run_context(
                store,
                cluster,
                api,
                accept=options.accept,
                metric_sources=connections.metric_sources(options.prometheus, api, store),
                deadline_s=deadline_s,
                is_operator=is_operator,
            )


@contextlib.contextmanager
def on_machine(store: Store, prometheus: str) -> Iterator[RunContext]:
    """Open this machine for a store's runs; their processes end with the context."""
    from k8sbench.adapters.local.cluster import LocalCluster

    with contextlib.closing(LocalCluster()) as local:
        yield run_context(
            store, local, metric_sources=connections.metric_sources(prometheus, None, store)
        )


def measure_run(
    store: Store, accept: Sequence[str], run: Run, gaps: Sequence[LogGap], *, apart: bool = False
) -> Measurement | None:
    """Measure a run by its stored logs; None if they hold no result to keep.

    ``apart``: in a process of its own.
    """
    # Imported when the first run ends.
    from k8sbench.adapters import measuring
    from k8sbench.reader.measuring import recorded

    task = measuring_task(store, accept, run, gaps, store.log_files(run.run_id))
    found = measuring.measured_apart(task) if apart else measuring.measured(task)
    return found if recorded.is_result(run, found) else None


def measuring_task(
    store: Store, accept: Sequence[str], run: Run, gaps: Sequence[LogGap], logs: Iterable[Path]
) -> measuring.Task:
    """Return the task of measuring a run by its stored logs, rank 0 first."""
    from k8sbench.adapters.measuring import Task
    from k8sbench.lifecycle import run_artifacts

    return Task(
        run=run,
        logs={str(path): path.name for path in logs},
        accept=accept,
        gaps=gaps,
        nodes=list(run_artifacts.read_nodes(store, run.run_id).values()),
    )


def _objects(store: Store, run: Run, identity: JobIdentity) -> Sequence[Manifest]:
    """Render the objects of a run's attempt, and keep them; the trainers are kept nowhere.

    Objects that were kept before, by another version of k8sbench perhaps, name the trainers that
    the run was planned with; a later attempt also waits as the one before.
    """
    # Imported when the first job is created.
    import yaml

    from k8sbench.adapters import templates
    from k8sbench.catalog import yaml_text
    from k8sbench.lifecycle.run_artifacts import MANIFEST
    from k8sbench.render.manifest import manifests, select_job_objects, to_yaml
    from k8sbench.render.trainer_sources import mounted

    sources = templates.trainer_sources()
    if (kept := store.read_artifact(run.run_id, MANIFEST)) is not None:
        try:
            before = yaml_text.load_all(kept.decode())
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            path = store.folder(run.run_id) / MANIFEST
            raise StoreError(f"{path} cannot be read: {error}.") from error
        if run.restarts and WAITS_ANNOTATION in annotations_of(before[-1]):
            identity = msgspec.structs.replace(identity, waits=True)
        if run.plan.trainers_digest != sources.digest:
            sources = mounted(before) or sources
    loaded = templates.load_templates()
    rendered = manifests(run.plan, identity, templates=loaded, trainers=sources)
    store.write_artifact(run.run_id, MANIFEST, to_yaml(select_job_objects(rendered)))
    return rendered

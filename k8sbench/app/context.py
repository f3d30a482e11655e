"""Wiring of a run's context: cluster, clock, processes, random names, measuring."""

from __future__ import annotations

import contextlib
import functools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from k8sbench.adapters import processes
from k8sbench.adapters.clock import steady
from k8sbench.app import connections
from k8sbench.lifecycle.context import MANIFEST, RunContext
from k8sbench.model.errors import StoreError
from k8sbench.model.identity import TOKEN_LENGTH, TOKEN_LETTERS, draw_run_id, draw_set_name
from k8sbench.model.measurement import Measurement
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.threads import Inline, Threads

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.ports import Cluster, Manifest, MetricSource, Store


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
    return RunContext(
        store=store,
        cluster=cluster,
        clock=api.time if api else steady,
        owner=None if cluster.jobs_outlive_us else processes.this_process(),
        alive=processes.alive,
        draw_run_id=lambda benchmark: draw_run_id(benchmark, at=time.time(), token=_token()),
        measure=functools.partial(_measure, store, accept, apart=is_operator),
        measures=Threads() if is_operator else Inline(),
        manifests=functools.partial(_manifests, store),
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
    note: Callable[[str], None],
    *,
    run: Run | None = None,
    prometheus: str,
    keep: bool = False,
    accept: Sequence[str] = (),
    is_operator: bool = False,
) -> Iterator[RunContext]:
    """Open a connected cluster for a store's runs; close both afterwards.

    The parameters are as in :func:`run_context`, :func:`.connections.opened` and
    :func:`.connections.metric_sources`.
    """
    with connections.opened(
        api, note, run=run, keep=keep, store=store, is_operator=is_operator
    ) as cluster:
        yield run_context(
            store,
            cluster,
            api,
            accept=accept,
            metric_sources=connections.metric_sources(prometheus, api, store),
            is_operator=is_operator,
        )


def now() -> float:
    """Return the time, Unix seconds."""
    return time.time()


def new_set_name() -> str:
    """Draw the name of a set that is opened now."""
    return draw_set_name(at=time.time(), token=_token())


def _measure(
    store: Store, accept: Sequence[str], run: Run, gaps: Sequence[LogGap], *, apart: bool = False
) -> Measurement | None:
    # Imported when the first run ends.
    from k8sbench.adapters import measuring
    from k8sbench.lifecycle import active_run
    from k8sbench.measure.run import recorded

    task = measuring.Task(
        run=run,
        logs={str(path): path.name for path in store.log_files(run.run_id)},
        accept=accept,
        gaps=gaps,
        nodes=list(active_run.kept_nodes(store, run.run_id).values()),
    )
    found = measuring.measured_apart(task) if apart else measuring.measured(task)
    return found if recorded.is_result(run, found) else None


def _manifests(store: Store, run: Run) -> Sequence[Manifest]:
    """Return a run's stored manifests, or render and store them.

    Only the job and its runtime are stored. The trainers that the job names are included if this
    version has the same ones.
    """
    # Imported when the first run is restarted.
    import yaml

    from k8sbench.adapters.files import packaged
    from k8sbench.model import yaml_text
    from k8sbench.render.manifest import manifests, of_job, to_yaml
    from k8sbench.render.trainer_sources import config_map, mounted_by

    path, sources = store.folder(run.run_id) / MANIFEST, packaged.trainer_sources()
    if path.exists():
        try:
            kept = yaml_text.load_all(path.read_text())
        except (OSError, yaml.YAMLError) as error:
            raise StoreError(f"{path} cannot be read: {error}.") from error
        if mounted_by(kept[-1]) != sources.config_map_name:
            return kept
        return [config_map(sources), *kept]
    rendered = manifests(run.plan, templates=packaged.load_templates(), trainers=sources)
    store.keep(run.run_id, MANIFEST, to_yaml(of_job(rendered)))
    return rendered


def _token() -> str:
    return "".join(random.SystemRandom().choices(TOKEN_LETTERS, k=TOKEN_LENGTH))

"""What runs need of the outside, wired: clock, processes, random names, measuring."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from k8sbench.adapters.clock import steady
from k8sbench.lifecycle import records
from k8sbench.lifecycle.context import MANIFEST, RunContext
from k8sbench.lifecycle.pool import Inline, Threads
from k8sbench.model.errors import StoreError
from k8sbench.model.identity import TOKEN_LENGTH, TOKEN_LETTERS, draw_run_id, draw_set_name
from k8sbench.model.run import Location, Run

if TYPE_CHECKING:
    from pathlib import Path

    from k8sbench.model.measurement import Measurement
    from k8sbench.model.request import ClusterAccess
    from k8sbench.model.sample import LogGap
    from k8sbench.ports import Clock, Cluster, Manifest, MetricSource, Store


def run_context(
    store: Store,
    cluster: Cluster,
    *,
    location: Location | None = None,
    accept: Sequence[str] = (),
    metric_sources: Sequence[MetricSource] = (),
    access: ClusterAccess | None = None,
    deadline_s: float | None = None,
    clock: Clock = steady,
) -> RunContext:
    """Put together what runs need of the outside; ``accept`` overrules rejections by their ids.

    With ``access`` a collector there is asked for runs whose jobs are gone. ``clock`` is the
    cluster's, for runs on one: their limits count by it.
    """
    from k8sbench.adapters import processes

    return RunContext(
        store=store,
        cluster=cluster,
        clock=clock,
        owner=None if cluster.jobs_outlive_us else processes.this_process(),
        alive=processes.alive,
        draw_run_id=lambda benchmark: draw_run_id(benchmark, at=time.time(), token=_token()),
        measure=functools.partial(_measure, store, accept),
        manifests=functools.partial(_manifests, store),
        pool=Threads() if cluster.jobs_outlive_us else Inline(),
        location=location,
        metric_sources=metric_sources,
        collected_elsewhere=_collected_elsewhere(access),
        deadline_s=deadline_s,
        accept=accept,
    )


def _collected_elsewhere(
    access: ClusterAccess | None,
) -> Callable[[Run, Path], Run | None] | None:
    if access is None:
        return None

    def ask(run: Run, folder: Path) -> Run | None:
        # Imported when the job of a run is gone.
        from k8sbench.app import taking_over

        return taking_over.collected_elsewhere(access, run, folder)

    return ask


def find(store: Store, text: str) -> Run:
    """Return the recorded run of an id, or of a unique beginning of one, as it is now."""
    return records.find(store, text, alive=alive(), now=now())


def alive() -> records.Alive:
    """Return the function that says whether a process runs on this machine."""
    from k8sbench.adapters import processes

    return processes.alive


def now() -> float:
    """Return the time, Unix seconds."""
    return time.time()


def new_set_name() -> str:
    """Draw the name of a set that is opened now."""
    return draw_set_name(at=time.time(), token=_token())


def _measure(store: Store, accept: Sequence[str], run: Run, gaps: Sequence[LogGap]) -> Measurement:
    # Imported when the first run ends.
    from k8sbench.app import measured_apart

    files = {str(path): path.name for path in store.log_files(run.run_id)}
    task = measured_apart.Task(run=run, files=files, accept=accept, gaps=gaps)
    if isinstance(run.plan.log, str):
        return measured_apart.measured(task)
    return measured_apart.measure(task)


def _manifests(store: Store, run: Run) -> Sequence[Manifest]:
    """Read what was asked of the cluster for a run, or render it of the plan and keep it.

    The job alone is kept. The trainers that it names come along where they are these.
    """
    # Imported when the first run is restarted.
    import yaml

    from k8sbench.adapters.files import templates, trainer_sources
    from k8sbench.model import yaml_text
    from k8sbench.render import manifests, to_yaml
    from k8sbench.render.trainer_sources import config_map, mounted_by

    path, sources = store.folder(run.run_id) / MANIFEST, trainer_sources.read()
    if path.exists():
        try:
            kept = yaml_text.load_all(path.read_text())
        except (OSError, yaml.YAMLError) as error:
            raise StoreError(f"{path} cannot be read: {error}.") from error
        if mounted_by(kept[-1]) != sources.config_map_name:
            return kept
        return [config_map(sources), kept[-1]]
    rendered = manifests(run.plan, templates=templates.load(), trainers=sources)
    store.keep(run.run_id, MANIFEST, to_yaml(rendered[-1:]))
    return rendered


def _token() -> str:
    return "".join(random.SystemRandom().choices(TOKEN_LETTERS, k=TOKEN_LENGTH))

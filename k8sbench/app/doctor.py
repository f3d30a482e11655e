"""``doctor``: ask a cluster whether it is ready, and measure how fast its nodes talk."""

from __future__ import annotations

import contextlib
import math
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import catalog, connections, context, metric_sources, targets
from k8sbench.model.errors import Unreachable, UsageError
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Location
from k8sbench.model.spec import Framework

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.diagnose.preflight.facts import Asked, Facts, Line
    from k8sbench.model.image import ImageTable
    from k8sbench.model.plan import RunPlan
    from k8sbench.ports import JobEvent, Manifest
    from k8sbench.runs.bandwidth import Outcome
    from k8sbench.runs.context import Stop


LOOK_SECONDS = 10.0
"""For all checks together to repeat requests that fail, and to wait for answers."""


class DoctorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What must be possible on the cluster."""

    access: ClusterAccess = ClusterAccess()
    node_pool: str | None = None
    pools_file: str | None = None
    framework: Framework | None = None
    """None: either."""
    replicas: int | None = None
    """Nodes; None: 1, or all for the all-reduce."""
    gpus: int | None = None
    """Per replica; None: all of a node's."""
    image: str | None = None
    data: str | None = None
    """``pvc:NAME[/SUB]``."""
    queue: str | None = None
    gang: bool = False
    prometheus: str = metric_sources.AUTO
    """URL, ``auto`` or ``none``."""
    nccl: bool = False
    """Whether to measure an all-reduce where nothing failed."""


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    lines: tuple[Line, ...]
    place: Location | None = None
    """None where no cluster could be reached."""
    bandwidth: Outcome | None = None
    """None where it was not measured."""

    @property
    def failed(self) -> bool:
        """Whether any check did."""
        return any(line.level == "failure" for line in self.lines)


def examine(
    options: DoctorOptions,
    stop: Stop,
    *,
    note: Callable[[str], None],
    on_event: Callable[[JobEvent], None],
    on_checked: Callable[[Preflight], None],
) -> Preflight:
    """Ask the cluster; then, if wanted and nothing failed, run the all-reduce and delete its job.

    ``on_checked`` is called before the all-reduce.
    """
    from k8sbench.diagnose.preflight import capacity_checks, checks

    images = catalog.images()
    data = tuple(_claims(options.data))
    try:
        api = connections.connect(options.access)
    except Unreachable as wrong:
        return Preflight(lines=(checks.unreachable(wrong.message, wrong.action),))
    with contextlib.closing(api):
        try:
            with _in_time(api):
                asked = _asked(options, data, api, note)
                facts = _facts(api, asked, images, options.prometheus)
        except Unreachable as wrong:
            lines = (checks.unreachable(wrong.message, wrong.action),)
            return Preflight(lines=lines, place=api.place)
        found = Preflight(lines=tuple(checks.lines(facts, asked, images)), place=api.place)
        if not options.nccl or found.failed:
            return found
        on_checked(found)
        nodes = options.replicas or capacity_checks.usable_nodes(facts, asked)
        outcome = _all_reduce(api, asked, nodes, images, stop, note=note, on_event=on_event)
    return msgspec.structs.replace(found, bandwidth=outcome)


@contextlib.contextmanager
def _in_time(api: Api) -> Iterator[None]:
    """Have the questions end in time; a user at a terminal may take longer to sign in."""
    api.give_up_at = time.monotonic() + LOOK_SECONDS
    ending = threading.Timer(LOOK_SECONDS, api.close)
    if sys.stdin is None or not sys.stdin.isatty():
        ending.start()
    try:
        yield
    finally:
        ending.cancel()
        api.give_up_at = math.inf


def _asked(
    options: DoctorOptions, data: Sequence[str], api: Api, note: Callable[[str], None]
) -> Asked:
    """Return what must be possible; asks the cluster for its node pools."""
    from k8sbench.adapters.files import pools
    from k8sbench.diagnose.preflight.facts import Asked

    published = partial(targets.cluster_pools, api)
    found_pools = pools.load(options.pools_file, published=published)
    pool = found_pools.pool(options.node_pool)
    note(f"pool {pool.name} from {found_pools.source}")
    if options.gpus is not None and not pool.gpus_per_node:
        raise UsageError(f"Pool {pool.name} has no GPUs.", "Leave --gpus out.")
    return Asked(
        namespace=api.place.namespace,
        pool=pool,
        frameworks=(options.framework,) if options.framework else (),
        replicas=options.replicas or 1,
        gpus=options.gpus or pool.gpus_per_node,
        image=options.image,
        claims=(*data, *_claims(pool.python_packages)),
        queue=options.queue,
        gang=options.gang,
    )


def init_template() -> str:
    """Return the text of the init container that passes the restricted Pod Security Standard."""
    from k8sbench.adapters.kubernetes import preflight

    return preflight.init_template()


def _claims(volume: str | None) -> Iterator[str]:
    if not volume:
        return
    source, _, rest = volume.partition(":")
    name = rest.partition("/")[0]
    if source != "pvc" or not name:
        raise UsageError(f"--data {volume!r} names no volume claim.", "Write pvc:NAME[/SUB].")
    yield name


def _facts(api: Api, asked: Asked, images: ImageTable, prometheus: str) -> Facts:
    from k8sbench.adapters.kubernetes import preflight
    from k8sbench.adapters.kubernetes.client.faults import ApiFault

    jobs: dict[str, Manifest] = {}
    for framework in asked.frameworks or ("pytorch", "paddle"):
        _, (*_, job) = _job(asked, framework, max(2, asked.replicas), images, "k8sbench-doctor")
        jobs[job["kind"]] = job
    try:
        return preflight.ask(api, asked, jobs, prometheus)
    except ApiFault as fault:
        raise api.explained(fault, "the cluster be looked at") from fault


def _job(
    asked: Asked, framework: Framework, replicas: int, images: ImageTable, run_id: str
) -> tuple[RunPlan, Sequence[Manifest]]:
    """Plan and render the all-reduce."""
    from k8sbench.adapters.files import templates, trainer_sources
    from k8sbench.render import manifests
    from k8sbench.runs import bandwidth

    sources = trainer_sources.read()
    plan = bandwidth.plan(
        framework=framework,
        pool=asked.pool,
        replicas=replicas,
        gpus=asked.gpus,
        image=asked.image or images.image(framework, "public").name,
        run_id=run_id,
        trainers_digest=sources.digest,
        queue=asked.queue,
        gang=asked.gang,
    )
    return plan, manifests(plan, templates=templates.load(), trainers=sources)


def _all_reduce(
    api: Api,
    asked: Asked,
    nodes: int,
    images: ImageTable,
    stop: Stop,
    *,
    note: Callable[[str], None],
    on_event: Callable[[JobEvent], None],
) -> Outcome:
    from k8sbench.runs import bandwidth

    framework = asked.frameworks[0] if asked.frameworks else "pytorch"
    run_id = f"{bandwidth.BENCHMARK}-{context.new_set_name()}"
    plan, manifests = _job(asked, framework, nodes, images, run_id)
    note(
        f"{run_id}: all-reduce on {framework} over {nodes} nodes × {plan.processes_per_replica},"
        f" pool {asked.pool.name}, image {plan.image}"
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        stop,
        connections.opened(api) as cluster,
    ):
        return bandwidth.run(
            plan,
            manifests,
            cluster,
            Path(folder),
            clock=time.time,
            on_event=on_event,
            stopped=lambda: stop.cause,
        )

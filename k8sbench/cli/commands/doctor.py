"""``k8sbench doctor``: is this cluster ready, and if not, what to do."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from k8sbench.cli import clusters
from k8sbench.cli.clusters import Access, access_options
from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.output import Column
from k8sbench.model.errors import (
    BenchError,
    Interrupted,
    JobFailed,
    TimedOut,
    Unreachable,
    UsageError,
)
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.phase import Phase
from k8sbench.model.spec import Framework

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.diagnose.preflight.facts import Asked, Facts, Line
    from k8sbench.model.image import ImageTable
    from k8sbench.model.plan import RunPlan
    from k8sbench.ports import JobEvent, Manifest
    from k8sbench.runs.bandwidth import Outcome, Reading

NOT_READY = Unreachable.exit_code
COLUMNS = (Column("LEVEL", whole=True), Column("CHECK", whole=True), Column("FINDING"))
BANDWIDTH = (
    Column("BYTES", right=True),
    Column("TIME", right=True),
    Column("BUS BANDWIDTH", right=True),
    Column("SUM"),
)


@click.command()
@access_options
@click.option("--node-pool", metavar="NAME", help="Node pool; default: the pools file's.")
@click.option("--pools", "pools_file", metavar="FILE", help="Pools file.")
@click.option(
    "--framework",
    type=click.Choice(["pytorch", "paddle"]),
    help="What must be able to run; default: either.",
)
@click.option(
    "--replicas", type=click.IntRange(1), metavar="N", help="Nodes; default 1, all with --nccl."
)
@click.option(
    "--gpus",
    type=click.IntRange(1),
    metavar="G",
    help="GPUs per replica; default: all of a node's.",
)
@click.option("--image", metavar="NAME:TAG", help="Container image; default: the public ones.")
@click.option("--data", metavar="pvc:NAME[/SUB]", help="Volume claim that must be usable.")
@click.option("--queue", metavar="NAME", help="Kueue queue that must be usable.")
@click.option("--gang", is_flag=True, help="Gangs must be possible.")
@click.option("--nccl", is_flag=True, help="Then measure an all-reduce over the pool's nodes.")
@click.option(
    "--init-template",
    is_flag=True,
    help="Print an init container for the operator that passes the restricted profile, and end.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    help="Format.",
)
def command(
    access: Access,
    node_pool: str | None,
    pools_file: str | None,
    framework: Framework | None,
    replicas: int | None,
    gpus: int | None,
    image: str | None,
    data: str | None,
    queue: str | None,
    gang: bool,
    nccl: bool,
    init_template: bool,
    form: Literal["table", "json"],
) -> int:
    """Say whether a cluster is ready, and if not, what to do.

    Asks the cluster and changes nothing on it. Exit code: 0 ready, perhaps with warnings; 6 for
    any failure. With --nccl it then runs a job that measures how fast the nodes talk, and deletes
    it; exit code 3 where that fails.
    """
    from k8sbench.adapters.files import image_table, pools
    from k8sbench.diagnose.preflight import checks, operator, room_checks
    from k8sbench.diagnose.preflight.facts import Asked

    if init_template:
        output.write(operator.own_template())
        return 0
    pool = pools.load(pools_file).pool(node_pool)
    if gpus is not None and not pool.gpus_per_node:
        raise UsageError(f"Pool {pool.name} has no GPUs.", "Leave --gpus out.")
    images = image_table.load()
    try:
        api = clusters.connect(access)
    except Unreachable as wrong:
        return _tell([checks.unreachable(wrong.message, wrong.action)], form, None)
    asked = Asked(
        namespace=api.place.namespace,
        pool=pool,
        frameworks=(framework,) if framework else (),
        replicas=replicas or 1,
        gpus=gpus or pool.gpus_per_node,
        image=image,
        claims=tuple(_claims(data, pool.python_packages)),
        queue=queue,
        gang=gang,
    )
    with contextlib.closing(api):
        try:
            facts = _facts(api, asked, images)
        except BenchError as wrong:
            return _tell([checks.unreachable(wrong.message, wrong.action)], form, api)
        lines = checks.lines(facts, asked, images)
        if not nccl or _failed(lines):
            return _tell(lines, form, api)
        if form == "table":
            _write_lines(lines)
        nodes = replicas or room_checks.usable_nodes(facts, asked)
        outcome = _all_reduce(api, asked, nodes, images)
    return _tell_bandwidth(lines, form, api, outcome)


def _claims(*volumes: str | None) -> Iterator[str]:
    for volume in filter(None, volumes):
        source, _, rest = volume.partition(":")
        name = rest.partition("/")[0]
        if source != "pvc" or not name:
            raise UsageError(f"--data {volume!r} names no volume claim.", "Write pvc:NAME[/SUB].")
        yield name


def _facts(api: Api, asked: Asked, images: ImageTable) -> Facts:
    from k8sbench.adapters.kubernetes import asking
    from k8sbench.adapters.kubernetes.client.faults import ApiFault

    jobs: dict[str, Manifest] = {}
    for framework in asked.frameworks or ("pytorch", "paddle"):
        _, (*_, job) = _job(asked, framework, max(2, asked.replicas), images, "k8sbench-doctor")
        jobs[job["kind"]] = job
    try:
        return asking.ask(api, asked, jobs)
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
    return plan, manifests(plan, templates=templates.read(), trainers=sources)


def _all_reduce(api: Api, asked: Asked, nodes: int, images: ImageTable) -> Outcome:
    from k8sbench.runs import bandwidth

    framework = asked.frameworks[0] if asked.frameworks else "pytorch"
    run_id = f"{bandwidth.BENCHMARK}-{clusters.new_set_name()}"
    plan, manifests = _job(asked, framework, nodes, images, run_id)
    output.note(
        f"{run_id}: all-reduce on {framework} over {nodes} nodes × {plan.processes_per_replica},"
        f" pool {asked.pool.name}, image {plan.image}"
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        clusters.stopping() as stop,
        clusters.opened(api) as cluster,
    ):
        return bandwidth.run(
            plan,
            manifests,
            cluster,
            Path(folder),
            clock=time.time,
            tell=_note,
            stopped=lambda: stop.cause,
        )


def _note(event: JobEvent) -> None:
    if event.transition is not None:
        output.note(f"  {event.transition.phase}: {output.plain(event.transition.cause)}")
        if event.transition.action:
            output.note(f"    {output.plain(event.transition.action)}")
    elif event.note is not None:
        output.note(f"  {output.plain(event.note)}")


def _failed(lines: Sequence[Line]) -> bool:
    return any(line.level == "failure" for line in lines)


def _tell(lines: Sequence[Line], form: str, api: Api | None) -> int:
    """Print what was found; returns the exit code."""
    if form == "json":
        _write_document(lines, api, None)
    else:
        _write_lines(lines)
    return NOT_READY if _failed(lines) else 0


def _tell_bandwidth(lines: Sequence[Line], form: str, api: Api, outcome: Outcome) -> int:
    """Print what the all-reduce told, after the lines; returns the exit code."""
    if form == "json":
        _write_document(lines, api, outcome)
    elif outcome.readings:
        output.write("\n")
        output.write_table(BANDWIDTH, [_bandwidth_row(each) for each in outcome.readings])
        talked = ", ".join(outcome.transports) or "a way that NCCL did not tell"
        output.write(f"\nThe ranks talked by {talked}.\n")
    for text in outcome.last_lines:
        output.note(f"  {output.plain(text)}")
    if outcome.end.cause_id == "interrupted":
        return Interrupted.exit_code
    if outcome.end.cause_id == "timeout":
        return TimedOut.exit_code
    if outcome.end.phase is not Phase.SUCCEEDED:
        return JobFailed.exit_code
    if not outcome.readings:
        output.note("error: the job succeeded, and told nothing.")
        return JobFailed.exit_code
    if not all(reading.correct for reading in outcome.readings):
        output.note("error: the sum was wrong: suspect the network or a GPU.")
        return JobFailed.exit_code
    return 0


def _write_lines(lines: Sequence[Line]) -> None:
    output.write_table(COLUMNS, [(line.level, line.id, _finding(line)) for line in lines])
    count = Counter(line.level for line in lines)
    told = ", ".join(
        f"{count[level]} {level if count[level] == 1 or level == 'ok' else level + 's'}"
        for level in ("ok", "warning", "failure")
    )
    output.note(f"{'not ready' if _failed(lines) else 'ready'}: {told}")


def _write_document(lines: Sequence[Line], api: Api | None, outcome: Outcome | None) -> None:
    output.write_json(
        {
            "schema": SCHEMA,
            "server": api.place.server if api else None,
            "namespace": api.place.namespace if api else None,
            "ready": not _failed(lines),
            "checks": lines,
            "bandwidth": outcome,
        }
    )


def _finding(line: Line) -> str:
    return " ".join(filter(None, (line.message, line.action)))


def _bandwidth_row(reading: Reading) -> tuple[str, ...]:
    return (
        str(reading.bytes),
        f"{reading.seconds * 1e6:.1f} µs",
        f"{reading.bus_bytes_per_second / 1e9:.3f} GB/s",
        "right" if reading.correct else "WRONG",
    )

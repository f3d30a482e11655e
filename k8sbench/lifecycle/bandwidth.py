"""The all-reduce over a pool's nodes: its plan, its lines, its end. No benchmark, and no record.

What ``k8sbench doctor --nccl`` runs before 32 GPUs are spent: the same manifest, images, trainers
and pods as a benchmark's, with ``k8sbench/trainers/allreduce.py`` as the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from k8sbench.lifecycle.decide import CANCEL_SECONDS
from k8sbench.model.choices import Site
from k8sbench.model.errors import Unreachable, UsageError
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import SpecSource, make_plan
from k8sbench.model.request import SubmitRequest
from k8sbench.model.spec import BenchmarkSpec
from k8sbench.ports import Clock, Cluster, JobEvent, LogLine, Manifest

BENCHMARK = "allreduce"
"""In the place of a benchmark's name: labels, plan and start line bear it."""
TIMEOUT_S = 900.0
"""Pulling a large image included."""
LAST_LINES = 20
_PREFIX = "K8SBENCH "
_NETWORK = re.compile(r"NCCL INFO .*Using network (\S.*)")


class BandwidthReading(msgspec.Struct, frozen=True, kw_only=True):
    """The all-reduce of one size."""

    bytes: int
    ranks: int
    operations: int
    """Of which the time is the mean."""
    seconds: float
    """Of one operation, mean over the ranks."""
    bus_bytes_per_second: float
    """2(n-1)/n × bytes ÷ seconds, as nccl-tests defines it: to be compared with the hardware's,
    whatever the number of ranks."""
    correct: bool
    """Whether the sum was right."""


class Bandwidth(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the job."""

    run_id: str
    end: Transition
    readings: tuple[BandwidthReading, ...]
    transports: tuple[str, ...]
    """How the nodes communicated, as NCCL logs it: ``IB``, ``Socket``; ``socket`` for gloo. Empty
    where it logged nothing."""
    last_lines: tuple[str, ...]
    """Of any replica, for a job that failed."""


def plan(
    spec: BenchmarkSpec, request: SubmitRequest, site: Site, *, run_id: str, trainers_digest: str
) -> RunPlan:
    """Plan the job of ``spec``: one process per GPU, or one per node on a pool without.

    Raises :class:`UsageError`. A node may have fewer GPUs than are asked for: the preflight says
    so.
    """
    pool = msgspec.structs.replace(site.pool, gpus_per_node=request.gpus or 0)
    made = make_plan(
        spec,
        SpecSource(digest=trainers_digest, source="built-in"),
        msgspec.structs.replace(request, timeout_s=TIMEOUT_S),
        msgspec.structs.replace(site, pool=pool),
        run_id=run_id,
        set_name=run_id,
        repeat=1,
        trainers_digest=trainers_digest,
    )
    if made.world_size < 2:
        raise UsageError(
            "One GPU alone has nobody to talk to.", "Ask for more with --replicas or --gpus."
        )
    return msgspec.structs.replace(made, pool=site.pool)


def run(
    plan: RunPlan,
    manifests: Sequence[Manifest],
    cluster: Cluster,
    folder: Path,
    *,
    clock: Clock,
    on_event: Callable[[JobEvent], None],
    stopped: Callable[[], str | None] = lambda: None,
) -> Bandwidth:
    """Run the job to its end and delete it; ends it if it cannot start or takes too long.

    ``stopped`` says why to stop, once there is a reason.
    """
    began, is_ending = clock(), False
    lines: list[LogLine] = []

    def end(cause: str, cause_id: str) -> None:
        nonlocal is_ending
        if not is_ending:
            try:
                cluster.cancel(plan.run_id, cause, cause_id)
            except Unreachable as error:  # it is asked again
                on_event(JobEvent(run_id=plan.run_id, note=str(error)))
            else:
                is_ending = True

    cluster.create(plan, manifests, folder)
    try:
        while True:
            for event in cluster.wait(1.0):
                on_event(event)
                step = event.transition
                if event.line is not None:
                    lines.append(event.line)
                if step is not None and step.phase.final:
                    cluster.remove(plan.run_id)
                    return _bandwidth(plan.run_id, step, lines)
                if step is not None and step.unrecoverable:
                    end(step.cause, step.cause_id or "unrecoverable")
            if (why := stopped()) is not None:
                end(why, "interrupted")
            took = clock() - began
            if took > TIMEOUT_S:
                end(f"Not done after {TIMEOUT_S:.0f} s.", "timeout")
            if took > TIMEOUT_S + CANCEL_SECONDS:
                way = f"Delete it when the cluster answers: k8sbench delete {plan.run_id}"
                raise Unreachable(f"Job {plan.run_id} is to end, and is not seen to.", way)
    except BaseException:
        # The job is on no record: no other command would end it.
        end("k8sbench doctor was ended.", "interrupted")
        raise


def _bandwidth(run_id: str, end: Transition, lines: Sequence[LogLine]) -> Bandwidth:
    readings, transports = read(line.text for line in lines)
    last = [] if end.phase is Phase.SUCCEEDED else lines[-LAST_LINES:]
    return Bandwidth(
        run_id=run_id,
        end=end,
        readings=readings,
        transports=transports,
        last_lines=tuple(f"{line.replica}: {line.text}" for line in last),
    )


def read(texts: Iterable[str]) -> tuple[tuple[BandwidthReading, ...], tuple[str, ...]]:
    """Read the job's lines: what was measured, and how the nodes talked."""
    readings: list[BandwidthReading] = []
    transports: dict[str, None] = {}
    for text in texts:
        # Where the pool has NCCL_DEBUG set, NCCL tells it in the log itself.
        if (network := _NETWORK.search(text)) is not None:
            transports[network[1].strip()] = None
        if not text.startswith(_PREFIX):
            continue
        try:
            event = msgspec.json.decode(text.removeprefix(_PREFIX))
            if event["event"] == BENCHMARK:
                readings.append(msgspec.convert(event, BandwidthReading))
            elif event["event"] == "environment" and event["transport"]:
                transports[event["transport"]] = None
        except (msgspec.MsgspecError, KeyError, TypeError):
            continue  # a line of another program, or a part of one
    return tuple(readings), tuple(transports)

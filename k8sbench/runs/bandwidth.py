"""The all-reduce over a pool's nodes: its plan, its lines, its end. No benchmark, and no record.

What ``k8sbench doctor --nccl`` runs before 32 GPUs are spent: the same manifest, images, trainers
and pods as a benchmark's, with ``k8sbench/trainers/allreduce.py`` as the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.kinds import default_kind
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import Device, PlannedWindow, RunPlan
from k8sbench.model.planning import TRAINERS_MOUNT
from k8sbench.model.pool import NodePool
from k8sbench.model.spec import Framework
from k8sbench.ports import Clock, Cluster, JobEvent, LogLine, Manifest

BENCHMARK = "allreduce"
"""In the place of a benchmark's name: labels, plan and start line bear it."""
TIMEOUT_S = 900.0
"""Pulling a large image included."""
LARGEST: dict[Device, int] = {"cuda": 1 << 30, "cpu": 1 << 24}
"""Bytes of the largest vector by device; gloo on CPUs takes too long for more."""
WARMUP, OPERATIONS = 5, 20
LAST_LINES = 20
_PREFIX = "K8SBENCH "
_NETWORK = re.compile(r"NCCL INFO .*Using network (\S.*)")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
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


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the job."""

    run_id: str
    end: Transition
    readings: tuple[Reading, ...]
    transports: tuple[str, ...]
    """How the nodes communicated, as NCCL logs it: ``IB``, ``Socket``; ``socket`` for gloo. Empty
    where it logged nothing."""
    last_lines: tuple[str, ...]
    """Of any replica, for a job that failed."""


def plan(
    *,
    framework: Framework,
    pool: NodePool,
    replicas: int,
    gpus: int,
    image: str,
    run_id: str,
    trainers_digest: str,
    queue: str | None = None,
    gang: bool = False,
) -> RunPlan:
    """Plan the job: one process per GPU, or one per node on a pool without."""
    device: Device = "cuda" if gpus else "cpu"
    if replicas * max(1, gpus) < 2:
        raise UsageError(
            "One GPU alone has nobody to talk to.", "Ask for more with --replicas or --gpus."
        )
    return RunPlan(
        run_id=run_id,
        set_name=run_id,
        repeat=1,
        benchmark=BENCHMARK,
        spec_digest=trainers_digest,
        spec_source="built-in",
        variant="float32",
        impl="k8sbench",
        framework=framework,
        precision="fp32",
        amp_dtype=None,
        device=device,
        replicas=replicas,
        gpus_per_replica=gpus,
        processes_per_replica=max(1, gpus),
        batch_size=1,
        preset="full",
        mode="throughput",
        data="synthetic",
        window=PlannedWindow(
            warmup=WARMUP,
            iterations=OPERATIONS,
            log_interval=1,
            min_steady_seconds=0.0,
            rule="operations of each size",
        ),
        log="k8sbench",
        unit="samples",
        trainer=BENCHMARK,
        command=_command(framework, device),
        env={},
        workdir=None,
        options={},
        image=image,
        image_reason="of the preflight",
        trainers_by="configmap",
        trainers_digest=trainers_digest,
        pool=pool,
        backend="kubernetes",
        timeout_s=TIMEOUT_S,
        fingerprint=None,
        sync_bn=False,
        queue=queue,
        gang=gang,
    )


def run(
    plan: RunPlan,
    manifests: Sequence[Manifest],
    cluster: Cluster,
    folder: Path,
    *,
    clock: Clock,
    on_event: Callable[[JobEvent], None],
    stopped: Callable[[], str | None] = lambda: None,
) -> Outcome:
    """Run the job to its end and delete it; ends it if it cannot start or takes too long.

    ``stopped`` says why to stop, once there is a reason.
    """
    began, is_ending = clock(), False
    lines: list[LogLine] = []

    def end(cause: str, cause_id: str) -> None:
        nonlocal is_ending
        if not is_ending:
            is_ending = True
            cluster.cancel(plan.run_id, cause, cause_id)

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
                    return _outcome(plan.run_id, step, lines)
                if step is not None and step.unrecoverable:
                    end(step.cause, step.cause_id or "unrecoverable")
            if (why := stopped()) is not None:
                end(why, "interrupted")
            if clock() - began > TIMEOUT_S:
                end(f"Not done after {TIMEOUT_S:.0f} s.", "timeout")
    except BaseException:
        # The job is on no record: no other command would end it.
        end("k8sbench doctor was ended.", "interrupted")
        raise


def _outcome(run_id: str, end: Transition, lines: Sequence[LogLine]) -> Outcome:
    readings, transports = read(line.text for line in lines)
    last = [] if end.phase is Phase.SUCCEEDED else lines[-LAST_LINES:]
    return Outcome(
        run_id=run_id,
        end=end,
        readings=readings,
        transports=transports,
        last_lines=tuple(f"{line.replica}: {line.text}" for line in last),
    )


def read(texts: Iterable[str]) -> tuple[tuple[Reading, ...], tuple[str, ...]]:
    """Read the job's lines: what was measured, and how the nodes talked."""
    readings: list[Reading] = []
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
                readings.append(msgspec.convert(event, Reading))
            elif event["event"] == "environment" and event["transport"]:
                transports[event["transport"]] = None
        except (msgspec.MsgspecError, KeyError, TypeError):
            continue  # a line of another program, or a part of one
    return tuple(readings), tuple(transports)


def _command(framework: Framework, device: Device) -> tuple[str, ...]:
    start = default_kind(framework).start(BENCHMARK, TRAINERS_MOUNT)
    options = {
        "framework": framework,
        "device": device,
        "warmup": WARMUP,
        "iterations": OPERATIONS,
        "largest": LARGEST[device],
    }
    return (*start, *(word for key, value in options.items() for word in (f"--{key}", str(value))))

"""The machine-readable lines: ``K8SBENCH {json}``, one per line, one write() per line.

This is the contract with `k8sbench.parse`: the names of events and fields are fixed here and
nowhere else. Several ranks share one pipe, so a line leaves the process as one write() and lines
never interleave. What is unknown is null, never 0; NaN and infinities are the strings "nan",
"inf" and "-inf", because JSON has no word for them.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from k8sbench.trainers.parts.settings import Settings, refuse
from k8sbench.trainers.parts.steps import Record, StepPlan, Window

PREFIX = "K8SBENCH "
SCHEMA = 1
CLOCK_FIELDS = ("clock_sm_mhz", "throttle_reasons")  # of a machine, that change while it works
REMEDY = "let the launcher set what tells ranks apart, or unset it all to train alone"


@dataclass(frozen=True)
class Place:
    """Where this process stands in its job."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str] = os.environ,
        names: tuple[str, str, str] = ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ) -> Place:
        """Read rank, local rank and world size as a launcher sets them; alone without them.

        What contradicts itself ends the process: such a rank would wait for peers without end, or
        train beside nobody.
        """
        rank_name, local_name, size_name = names
        place = cls(
            rank=_number(environ, rank_name, 0),
            local_rank=_number(environ, local_name, 0),
            world_size=_number(environ, size_name, 1),
        )
        if place.world_size > 1 and rank_name not in environ:
            refuse(f"{size_name} is {place.world_size}, but {rank_name} is not set; {REMEDY}")
        for name, value in ((rank_name, place.rank), (local_name, place.local_rank)):
            if value >= place.world_size:
                refuse(
                    f"{name} is {value}, but {size_name} is {place.world_size}, and ranks count "
                    f"from 0; {REMEDY}"
                )
        return place

    @property
    def first(self) -> bool:
        """Whether this is the rank that speaks for the job."""
        return self.rank == 0


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()):
        refuse(f"{name} is {text!r}, which is no count; {REMEDY}")
    return int(text)


def write_line(text: str) -> None:
    """Write one line to stdout with one system call, after whatever print() still held back."""
    sys.stdout.flush()
    data = text.encode("utf-8", "backslashreplace") + b"\n"
    while data:  # once, unless the pipe takes less than a whole line
        data = data[os.write(1, data) :]


def line(event: str, fields: Mapping[str, object]) -> str:
    """One machine line, without its newline."""
    body = {"event": event, **{name: _plain(value) for name, value in fields.items()}}
    return PREFIX + json.dumps(body, allow_nan=False, separators=(", ", ": "))


class Journal:
    """Writes the events of one rank, in the order of a run: start … step* … rank, summary."""

    def __init__(
        self,
        settings: Settings,
        place: Place,
        *,
        unit: str,
        write: Callable[[str], None] = write_line,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.place = place
        self.unit = unit
        self._write = write
        self._now = now

    def text(self, line: str) -> None:
        """A line in the shape of the benchmark's family."""
        self._write(line)

    def event(self, name: str, fields: Mapping[str, object]) -> None:
        """One machine line."""
        self._write(line(name, fields))

    def start(
        self,
        *,
        framework: str,
        framework_version: str,
        device: str,
        precision_effective: str,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """The first line of every rank; `options` adds the trainer's own to the speed options."""
        settings, place = self.settings, self.place
        self.event(
            "start",
            {
                "schema": SCHEMA,
                "impl": "k8sbench",
                "benchmark": settings.benchmark,
                "variant": settings.variant,
                "framework": framework,
                "framework_version": framework_version,
                "run_id": settings.run_id,
                "rank": place.rank,
                "local_rank": place.local_rank,
                "world_size": place.world_size,
                "batch_size_per_gpu": settings.batch_size,
                "global_batch": settings.batch_size * place.world_size,
                "unit": self.unit,
                "precision": settings.precision,
                "amp_dtype": settings.amp_dtype,
                "precision_effective": precision_effective,
                "device": device,
                "data": settings.data,
                "preset": settings.preset,
                "warmup": settings.warmup,
                "iterations": settings.iterations,
                "log_interval": settings.log_interval,
                "seed": settings.seed,
                "options": {**settings.speed_options(), **(options or {})},
                "time": self._now(),
            },
        )

    def environment(self, fields: Mapping[str, object]) -> None:
        """What is known of the machine, after start-up (`machine.describe` and the framework)."""
        self.event("environment", {"rank": self.place.rank, **fields})

    def step(self, record: Record, *, loss: float, lr: float, memory_mib: float | None) -> None:
        """Rank 0, once per record: the `steps` steps that end with step `step`."""
        samples = record.steps * self.settings.batch_size * self.place.world_size
        fields: dict[str, object] = {
            "step": record.step,
            "of": record.of,
            "steps": record.steps,
            "seconds": record.seconds,
            "data_seconds": record.data_seconds,
            "loss": loss,
            "samples_per_second": rate(samples, record.seconds),
            "lr": lr,
            "memory_mib": memory_mib,
            "time": self._now(),
        }
        if record.holds:
            fields["holds"] = list(record.holds)
        self.event("step", fields)

    def rank(
        self,
        step_seconds: Sequence[float],
        data_seconds: Sequence[float],
        machine: Mapping[str, object] | None = None,
    ) -> None:
        """Every rank at its end: its own times per step over the measured window, and how its GPU
        was clocked then, by what the environment event tells.
        """
        self.event(
            "rank",
            {
                "rank": self.place.rank,
                "host": socket.gethostname(),
                "steps": len(step_seconds),
                "step_seconds": spread(step_seconds),
                "data_seconds": {"mean": _mean(data_seconds)},
                **{name: (machine or {}).get(name) for name in CLOCK_FIELDS},
            },
        )

    def summary(
        self,
        plan: StepPlan,
        window: Window,
        *,
        steps: int,
        parameters: int,
        precision_effective: str,
        sync_bn: bool,
        final_loss: float,
        max_memory_mib: float | None,
        machine: Mapping[str, object] | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        """Rank 0's last line. `steps` counts every step taken; `machine` is what the environment
        event told, as it is at the end; `more` adds fields.

        `norm` is told because batch norm differs between one GPU and several by upstream's own
        rule; so does ArcFace's head, which that trainer adds.
        """
        samples = window.steps * self.settings.batch_size * self.place.world_size
        self.event(
            "summary",
            {
                "steps": steps,
                "warmup": plan.warmup,
                "window": {
                    "first_step": window.first_step,
                    "last_step": window.last_step,
                    "seconds": window.seconds,
                    "samples": samples,
                    "samples_per_second": rate(samples, window.seconds),
                },
                "parameters": parameters,
                "precision_effective": precision_effective,
                "sync_bn": sync_bn,
                "norm": "SyncBatchNorm" if sync_bn else "BatchNorm",
                "final_loss": final_loss,
                "max_memory_mib": max_memory_mib,
                "machine": machine,
                **(more or {}),
                "status": "finished",
            },
        )


def rate(samples: int, seconds: float) -> float | None:
    """Samples per second; None where the clock saw no time pass."""
    return samples / seconds if seconds > 0 else None


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, median, 95th percentile (nearest rank) and maximum; None where there is nothing."""
    if not values:
        return {"mean": None, "median": None, "p95": None, "max": None}
    ordered = sorted(values)
    count = len(ordered)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return {
        "mean": _mean(ordered),
        "median": middle,
        "p95": ordered[math.ceil(0.95 * count) - 1],
        "max": ordered[-1],
    }


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _plain(value: object) -> object:
    """`value` as JSON can carry it. Floats keep nine decimals: a nanosecond, well below noise."""
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return round(value, 9)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value

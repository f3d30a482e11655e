"""The machine-readable lines: ``K8SBENCH {json}``, one per line, one write() per line.

This is the contract with `k8sbench.reader`: the names of events and fields are here, and what the
summary adds in `loop` and `machine`. Several ranks share one pipe, so a line leaves the process as
one write() and lines never interleave. What is unknown is null, never 0; NaN and infinities are the
strings "nan", "inf" and "-inf", because JSON cannot express them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from k8sbench.trainers.parts.settings import Settings, refuse
from k8sbench.trainers.parts.steps import RankWindow, StepPlan, StepRecord

HALF = {"fp16": "float16", "bf16": "bfloat16"}
PREFIX = "K8SBENCH "
SCHEMA = 1
# Of the settings, as the start line repeats them.
START_FIELDS = ("data", "mode", "preset", "warmup", "iterations", "log_interval", "seed")
REMEDY = "let the launcher set the variables of the rank, or unset them all to train alone"


@dataclass(frozen=True)
class RankPlace:
    """Rank of this process in its job."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str] = os.environ,
        names: tuple[str, str, str] = ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ) -> RankPlace:
        """Read rank, local rank and world size from a launcher's variables.

        Contradictory variables end the process: such a rank would wait for its peers for ever.
        """
        told = [environ.get(name) for name in names]
        try:
            rank, local_rank, world_size = map(int, (told[0] or 0, told[1] or 0, told[2] or 1))
        except ValueError:
            rank = local_rank = world_size = -1
        alone = world_size == 1 or told[0] is not None
        if not (0 <= rank < world_size and 0 <= local_rank < world_size and alone):
            given = ", ".join(f"{name}={text}" for name, text in zip(names, told, strict=True))
            refuse(f"{given} are no place in a job; {REMEDY}")
        return cls(rank, local_rank, world_size)

    @property
    def first(self) -> bool:
        """True for the rank that reports for the whole job."""
        return self.rank == 0


def write_line(text: str) -> None:
    """Write one line to stdout with one system call, after print()'s buffer."""
    sys.stdout.flush()
    data = text.encode("utf-8", "backslashreplace") + b"\n"
    while data:  # once, unless the pipe takes less than a whole line
        data = data[os.write(1, data) :]


def line(event: str, fields: Mapping[str, object]) -> str:
    """One machine line, without its newline."""
    body = {"event": event, **{name: _plain(value) for name, value in fields.items()}}
    return PREFIX + json.dumps(body, allow_nan=False, separators=(", ", ": "))


class Journal:
    """Writer of one rank's events, in the order of a run.

    Start, environment, data and weights; begin, or resume if it continues from a checkpoint; step*,
    gpu*, broken*, evaluation* and checkpoint*; rank, summary.
    """

    def __init__(
        self,
        settings: Settings,
        place: RankPlace,
        *,
        unit: str,
        per_step: float | None = None,
        write: Callable[[str], None] = write_line,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.place = place
        self.options: dict[str, object] = {}  # the trainer's own, from the start line on
        self.unit = unit
        # Of the whole job, in that unit. None: a sample for each of the batch, on each rank.
        self.per_step = settings.batch_size * place.world_size if per_step is None else per_step
        self.write = write
        self._now = now

    def event(self, name: str, fields: Mapping[str, object]) -> None:
        """One machine line."""
        self.write(line(name, fields))

    def timed(self, name: str, fields: Mapping[str, object]) -> None:
        """One machine line that ends with the time."""
        self.event(name, {**fields, "time": self._now()})

    def start(
        self,
        options: Mapping[str, object] | None = None,
        **session: object,
    ) -> None:
        """Write the first line of a rank.

        `options` adds the trainer's own to the speed options, and `session` are framework,
        framework_version, device and precision_effective.
        """
        self.options = dict(options or {})
        settings, place = self.settings, self.place
        self.event(
            "start",
            {
                "schema": SCHEMA,
                "impl": "k8sbench",
                "benchmark": settings.benchmark,
                "variant": settings.variant,
                **session,
                "run_id": settings.run_id,
                **vars(place),
                "batch_size_per_gpu": settings.batch_size,
                "global_batch": self.per_step,
                "unit": self.unit,
                "precision": settings.precision,
                "amp_dtype": settings.amp_dtype,
                **{name: getattr(settings, name) for name in START_FIELDS},
                "options": {**settings.speed_options(), **self.options},
                "time": self._now(),
            },
        )

    def arithmetic(self, types: Mapping[str, str], amp_dtype: str) -> None:
        """Write the types of the model's operations, and their digest.

        Of rank 0, under AMP.
        """
        stated = {"rank": self.place.rank, "arithmetic": statement(types, amp_dtype)}
        self.event("environment", stated)

    def step(
        self,
        record: StepRecord,
        *,
        loss: float | None = None,
        lr: float | None = None,
        memory_mib: float | None,
        evaluates: bool = False,
    ) -> None:
        """Rank 0, once per record: the `steps` steps that end with step `step`.

        `evaluates`: an evaluation is planned after it.
        """
        fields = {
            "step": record.step,
            "of": record.of,
            "steps": record.steps,
            "seconds": record.seconds,
            "data_seconds": record.data_seconds,
            **({"paused_seconds": record.paused_seconds} if record.paused_seconds else {}),
            "loss": loss,
            "samples_per_second": rate(record.steps * self.per_step, record.seconds),
            "lr": lr,
            "memory_mib": memory_mib,
            **({"evaluates": True} if evaluates else {}),
            "time": self._now(),
        }
        self.event("step", fields)

    def rank(self, step_seconds: Sequence[float]) -> None:
        """Every rank at its end: its own times per step over the measured window."""
        self.event(
            "rank",
            {
                "rank": self.place.rank,
                "host": socket.gethostname(),
                "steps": len(step_seconds),
                "step_seconds": spread(step_seconds),
            },
        )

    def summary(self, plan: StepPlan, window: RankWindow, *, steps: int, **more: object) -> None:
        """Write rank 0's last line.

        `steps` counts every step taken; `more` are the fields that the window does not give, which
        is null where the run ended with its warm-up.
        """
        samples = window.steps * self.per_step
        speed = rate(samples, window.seconds)
        measured = {**vars(window), "samples": samples, "samples_per_second": speed}
        self.event(
            "summary",
            {
                "steps": steps,
                "warmup": plan.warmup,
                "window": measured if window.steps > 0 else None,
                **more,
                "status": "finished",
            },
        )


def rate(samples: float, seconds: float) -> float | None:
    """Samples per second; None where the clock saw no time pass."""
    return samples / seconds if seconds > 0 else None


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, median, 95th percentile (nearest rank) and maximum; None where there is nothing."""
    if not values:
        return {"mean": None, "median": None, "p95": None, "max": None}
    return {
        "mean": statistics.fmean(values),
        "median": statistics.median(values),
        "p95": sorted(values)[math.ceil(0.95 * len(values)) - 1],
        "max": max(values),
    }


def _plain(value: object) -> object:
    """Convert `value` for JSON, floats to nine decimals.

    That is a nanosecond, well below noise.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # names of files may be no text
    if isinstance(value, float):
        return round(value, 9) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def statement(types: Mapping[str, str], amp_dtype: str) -> dict[str, object]:
    """Return the types and their digest."""
    stated = {kind: types[kind].format(half=HALF[amp_dtype]) for kind in sorted(types)}
    text = json.dumps(stated, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"by": "derived", "digest": digest, "types": stated}

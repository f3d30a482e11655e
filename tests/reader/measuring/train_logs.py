"""Logs of our trainers that train to an accuracy.

A run of 100 iterations of one second on two GPUs with a batch of 4, a record each 5, an evaluation
of 10 seconds each 20 and a checkpoint of 1 second behind it; the accuracy rises by 10 % each time.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import msgspec

START = 1_772_445_600.0
LENGTH, EVERY, INTERVAL, WARMUP = 100, 20, 5, 10
EVALUATES, SAVES, BEGINS = 10.0, 1.0, 3.0
"""Durations of an evaluation, a checkpoint, and the start, seconds."""


STARTED: dict[str, Any] = json.loads(
    '{"schema": 1, "impl": "k8sbench", "benchmark": "deeplabv3p", "variant": "mmseg", '
    '"framework": "pytorch", "run_id": "deeplabv3p-260302-100000-x7k2qd", "rank": 0, '
    '"local_rank": 0, "world_size": 2, "batch_size_per_gpu": 4, "unit": "samples", '
    '"precision": "fp32", "precision_effective": "fp32", "device": "cuda", "data": "/data", '
    '"preset": "full", "warmup": 10, "iterations": 80, "log_interval": 5, "mode": "train"}'
)


class Line(msgspec.Struct, frozen=True):
    """A line, and the iterations that were done when it was written."""

    text: str
    step: int
    at: float


def event(kind: str, at: float | None = None, **fields: Any) -> str:
    """A machine line; ``at``: its time."""
    body = {"event": kind, **fields} | ({} if at is None else {"time": round(at, 6)})
    return f"K8SBENCH {json.dumps(body)}"


def airank(at: float, what: str) -> str:
    """A line of AI-Rank's."""
    return f"AI-Rank-log {at:.3f} {what}"


def value(step: int) -> float:
    """Return an evaluation's result after that many steps, percent."""
    return step / 2.0


def to_target(step: int) -> float:
    """Return the end of that step's evaluation, seconds from the first line."""
    before = step // EVERY - 1
    return BEGINS + step + before * (EVALUATES + SAVES) + EVALUATES


def attempt(
    at: float = START,
    *,
    resume: int | None = None,
    target: float | None = 40.0,
    stop: bool = False,
    weights: bool = True,
    begun: float | None = None,
    boot: str = "b1",
    metric: str = "mIoU",
    **start: Any,
) -> Iterator[Line]:
    """Return an attempt's lines; ``resume``: the step to continue from.

    ``begun`` is when the test began; ``boot`` tells the machine.
    """
    done, clock, began = resume or 0, at, at if begun is None else begun
    origin = at if resume is None else began

    def line(text: str) -> Line:
        return Line(text, done, clock)

    yield line(event("start", clock, **(STARTED | start)))
    yield line(event("environment", rank=0, gpu_model="Tesla V100-SXM2-32GB"))
    yield line(event("data", clock, name="cityscapes", train=2975, val=500, digest="d1"))
    if resume is not None:
        yield line(event("resume", clock, step=resume, restored=f"step-{resume:06d}"))
    elif weights:
        digest = "ab" * 32
        yield line(event("weights", clock, file="v1c.pth", digest=digest, loaded=318))
    yield line(airank(clock, "load_data, checksum:0f1e2d3c4b5a69788796a5b4c3d2e1f0"))
    if resume is None:
        yield line(airank(clock, "test_begin"))
        yield line(event("begin", clock, boot=boot, clock=round(clock - START + 500, 6)))
    clock += BEGINS
    paused, steps, ended_by, reached = 0.0, 0, "length", None
    while done < LENGTH:
        done, steps, clock = done + 1, steps + 1, clock + 1.0
        # Each attempt ends its own warm-up with a record.
        if done % INTERVAL == 0 or done == WARMUP + (resume or 0):
            fields = {"step": done, "of": LENGTH, "steps": steps, "seconds": float(steps)}
            fields |= {"data_seconds": 0.0, "loss": 100.0 / done}
            fields |= {"paused_seconds": paused} if paused else {}
            fields |= {"evaluates": True} if done % EVERY == 0 or done == LENGTH else {}
            yield line(event("step", clock, **fields))
            paused, steps = 0.0, 0
        if done % EVERY and done < LENGTH:
            continue
        clock += EVALUATES
        found = value(done)
        hit = target is not None and found >= target
        evaluated = {
            "step": done,
            "epoch": done / 50,
            "metric": metric,
            "value": found,
            "unit": "%",
        }
        evaluated |= {"figures": {metric: found, "aAcc": 95.0}, "samples": 500, "of": 500}
        evaluated |= {
            "seconds": EVALUATES,
            "elapsed": clock - origin,
            "target": target,
            "reached": hit,
        }
        yield line(event("evaluation", clock, **evaluated))
        yield line(airank(clock, f"eval_accuracy:{found / 100:.5f}, total_epoch_cnt:{done // 50}"))
        if hit and reached is None:
            reached = clock - began
            yield line(airank(clock, f"target_quality_time:{reached:.3f}sec"))
        if hit and stop:
            ended_by = "target"
            break
        clock += SAVES
        yield line(event("checkpoint", clock, step=done, seconds=SAVES, bytes=1000))
        paused = EVALUATES + SAVES
    yield line(airank(clock, "test_finish"))
    yield line(airank(clock, f"total_use_time:{clock - began:.3f}sec"))
    yield line(event("rank", rank=0, host="node-1", steps=done, step_seconds={}))
    ended: dict[str, Any] = {"broken_samples": 0, "ended_by": ended_by, "status": "finished"}
    yield line(event("summary", steps=done, warmup=WARMUP, window={}, **ended))


def until(lines: Iterator[Line], seconds: float) -> list[Line]:
    """Return the lines written within so many seconds."""
    return list(itertools.takewhile(lambda line: line.at < START + seconds, lines))


def texts(*attempts: Iterator[Line] | list[Line]) -> list[str]:
    """The log of attempts that followed each other."""
    return [line.text for each in attempts for line in each]

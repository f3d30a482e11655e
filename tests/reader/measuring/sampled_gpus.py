"""Logs of our trainers that print samples of their GPUs."""

from collections.abc import Iterator
from typing import Any

from k8sbench.trainers.parts import events

BEGIN = 1772445600.0
"""Start of the first step, in Unix time."""


def printed(
    rank: int, *, gpu: bool = True, of: int = 2, stamped: bool = False, **values: Any
) -> Iterator[str]:
    """A rank's log: 60 steps of a second, of which 10 are the warm-up."""

    def line(event: str, fields: dict[str, Any]) -> str:
        return ("2026-03-02T10:00:00.000000Z " if stamped else "") + events.line(event, fields)

    start: dict[str, Any] = {"rank": rank, "world_size": of, "batch_size_per_gpu": 4, "warmup": 10}
    start |= {"impl": "k8sbench", "benchmark": "tsm", "precision": "fp32", "iterations": 50}
    start |= {"device": "cuda", "framework": "pytorch"}
    yield line("start", start)
    about = {"gpu_model": "V100", "gpu_uuid": f"8c6f-{rank}", "node": "n-1", "pod": f"p-{rank}"}
    yield line("environment", {"rank": rank, "host": "h", **(about if gpu else {})})
    for step in range(1, 61):
        if rank == 0:
            fields = {"step": step, "of": 60, "steps": 1, "seconds": 1.0, "loss": 1.0}
            yield line("step", {**fields, "time": BEGIN + step})
        if step % 10 == 0 and values:
            at = [BEGIN + step - 9 + i for i in range(10)]
            of_gpu = {n: v if isinstance(v, list) else [v] * 10 for n, v in values.items()}
            yield line("gpu", {"rank": rank, "every": 1.0, "at": at, **of_gpu})

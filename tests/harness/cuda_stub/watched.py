# mypy: allow-subclassing-any
"""Trainers on the stub; each logs its GPU use in ``stub`` events."""

import contextlib
import ctypes
import gc
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from k8sbench.trainers.parts import loop, steps, torch_session
from tests.harness.cuda_stub.operators import SEEN

COUNTS = ("launches", "waits", "in", "out", "pageable")
"""Fields of the struct in ``runtime.c``, in order."""
_READ = ctypes.CDLL(None).cuda_stub_counts


def counts() -> dict[str, int]:
    """All that the runtime has counted so far."""
    numbers = (ctypes.c_longlong * len(COUNTS))()
    _READ(numbers)
    return dict(zip(COUNTS, numbers, strict=True))


class OnHost(TorchDispatchMode):
    """Notes the operators that take tensors of the host, also in the backward pass."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call `func`, and note it."""
        leaves = pytree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, Tensor) and leaf.device.type == "cpu" for leaf in leaves):
            SEEN["operators on the host"].add(str(func))
        return func(*args, **(kwargs or {}))


def watch() -> None:
    """From now on every run of a trainer is watched."""
    readings: list[dict[str, int]] = []
    taken = torch_session.TorchRun.steps
    ready = steps.StepTimer.data_ready
    finish = loop.Run.finish
    begin = loop.begin

    def begun(*given: Any) -> Any:
        # What the run before has left: in a process of its own there is nothing.
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        readings.clear()
        SEEN.clear()
        return begin(*given)

    def data_ready(timer: steps.StepTimer) -> None:  # from here to here is one step
        readings.append(counts())
        ready(timer)

    def watched_steps(run: Any) -> Iterator[loop.Step]:
        for step in taken(run):
            with OnHost() if run.timer.steps == run.plan.warm else contextlib.nullcontext():
                yield step

    def told(run: Any) -> Any:
        readings.append(counts())
        differences = [
            {name: after[name] - before[name] for name in COUNTS}
            for before, after in itertools.pairwise(readings)
        ]
        seen = {name: sorted(values) for name, values in SEEN.items()}
        reserved = torch.cuda.max_memory_reserved()
        run.journal.event("stub", {"steps": differences, **seen, "reserved": reserved})
        return finish(run)

    for owner, name, function in (
        (loop, "begin", begun),
        (steps.StepTimer, "data_ready", data_ready),
        (torch_session.TorchRun, "steps", watched_steps),
        (loop.Run, "finish", told),
    ):
        setattr(owner, name, function)

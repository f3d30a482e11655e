"""Trainers that count the sums over their ranks: each prints an event of its own at its end."""

from typing import Any

from k8sbench.trainers.parts import loop, steps

HOOKED = "hooked"
"""The --run-id of the job whose gradients are summed within Python's sight.

Data parallelism does it elsewhere, unless a hook does it, by the same sums.
"""


def count_in_torch() -> None:
    """Count the sums of each step on PyTorch."""
    import torch
    from torch import distributed, nn
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    taken: list[int] = [0]
    sums: list[tuple[int, Any]] = []
    hooks = [False]
    reduced: list[int] = [0]
    summed, begin, finish = distributed.all_reduce, loop.begin, loop.Run.finish
    scatter = distributed.reduce_scatter_tensor
    start, done = steps.StepTimer.start, steps.StepTimer.step_done

    class Hooked(nn.parallel.DistributedDataParallel):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            if hooks[0]:
                self.register_comm_hook(None, allreduce_hook)

    def begun(work: Any, here: Any, options: Any) -> Any:
        hooks[0] = here.settings.run_id == HOOKED
        return begin(work, here, options)

    def all_reduce(values: Any, *given: Any, **named: Any) -> Any:
        taken[-1] += 1
        sums.append((values.numel(), values.dtype))
        return summed(values, *given, **named)

    def reduce_scatter(*given: Any, **named: Any) -> Any:
        reduced[-1] += 1
        return scatter(*given, **named)

    def started(timer: Any) -> None:
        taken[:] = [0]
        reduced[:] = [0]
        sums.clear()
        start(timer)

    def step_done(timer: Any) -> Any:
        taken.append(0)
        reduced.append(0)
        return done(timer)

    def told(run: Any) -> Any:
        costs = {
            "steps": taken[:-1],
            "reduced": reduced[:-1],
            "whole": sums.count((run.parameters, torch.float32)),
            "wrapped": isinstance(run.model, Hooked),
        }
        if run.here.place.first:
            run.journal.event("costs", costs)
        return finish(run)

    for where, name, instead in (
        (distributed, "all_reduce", all_reduce),
        (distributed, "reduce_scatter_tensor", reduce_scatter),
        (nn.parallel, "DistributedDataParallel", Hooked),
        (loop, "begin", begun),
        (loop.Run, "finish", told),
        (steps.StepTimer, "start", started),
        (steps.StepTimer, "step_done", step_done),
    ):
        setattr(where, name, instead)


def count_in_paddle() -> None:
    """Count how often a large vector is summed up by the trainer itself."""
    from paddle import distributed

    large = 0
    summed, finish = distributed.all_reduce, loop.Run.finish

    def all_reduce(values: Any, *given: Any, **named: Any) -> Any:
        nonlocal large
        large += values.size > 1000
        return summed(values, *given, **named)

    def told(run: Any) -> Any:
        nonlocal large
        if run.here.place.first:
            run.journal.event("sums", {"large": large})
        large = 0
        return finish(run)

    distributed.all_reduce = all_reduce
    setattr(loop.Run, "finish", told)  # noqa: B010

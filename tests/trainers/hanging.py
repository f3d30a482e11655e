"""Trainers of which a rank hangs, or comes late."""

import importlib
import os
import pathlib
import signal
import sys
import threading
from typing import Any

import numpy as np
import psutil

from k8sbench.trainers.parts import ending, settings, steps, watch

RANK = os.environ.get("RANK", os.environ.get("PADDLE_TRAINER_ID"))
WAITS, STOPS, LOSES_ITS_WATCH = "waits", "stops", "loses its watch"
"""Ways to hang."""
IN_A_STEP = "in a step"
"""Place at which rank 1 hangs; a rank, "0" or "1", hangs at its start."""


class Limit(float):
    """A second, which begins when a rank hangs: so a slow start is none."""

    hangs: pathlib.Path

    def __gt__(self, still: float) -> bool:
        return not self.hangs.exists() or float(self) > still

    def __mul__(self, times: float) -> "Limit":
        return self


def train(folder: str, where: str, how: str, is_from_the_hang: bool) -> None:
    """Run a trainer, TRAINER OPTIONS on the command line, of which a rank hangs.

    The limit is a second, perhaps only from then on.
    """
    hangs = Limit.hangs = pathlib.Path(folder, "hangs")

    def hang() -> None:
        hangs.touch()
        if how == STOPS:
            os.kill(os.getpid(), signal.SIGSTOP)
        if how == LOSES_ITS_WATCH:
            for each in psutil.Process().children():
                each.kill()
        if how != STOPS:
            threading.Event().wait()

    if where == IN_A_STEP:
        ready = steps.StepTimer.data_ready

        def data_ready(timer: steps.StepTimer) -> None:
            if timer.steps == 2 and RANK == "1":
                hang()
            ready(timer)

        setattr(steps.StepTimer, "data_ready", data_ready)  # noqa: B010
    elif where == RANK:
        hang()
    watch.LIMIT, watch.TICK = Limit(1) if is_from_the_hang else 1.0, 0.1
    name, *options = sys.argv[1:]
    trainer = importlib.import_module(f"k8sbench.trainers.{name}")
    ending.run(lambda: trainer.main(options))


def sum_up_late() -> None:
    """Sum up by Paddle on two ranks, of which the second comes late."""
    from k8sbench.trainers.parts.paddle_session import open_session

    defaults = settings.Defaults(benchmark="toy", recipes=("toy",), batch_size=1, speed_options=())
    common, _ = settings.read("toy", "", defaults, None, ["--device", "cpu"])
    here: Any
    with open_session(common) as here:
        here.connect()
        summed = here.distributed.all_reduce

        def all_reduce(values: Any) -> Any:
            assert here.store.add("late", 0) == 1, "Paddle's own limit of 30 s has begun"
            return summed(values)

        here.distributed.all_reduce = all_reduce
        if here.place.rank == 1:
            here.store.get("waits")  # as long as an evaluation or a checkpoint takes
            here.store.add("late", 1)
        else:
            wait = here.wait_by_store

            def waits() -> None:
                here.store.set("waits", "1")
                wait()

            here.wait_by_store = waits
        print(here.total(np.ones(1))[0])
    ending.run(lambda: None)

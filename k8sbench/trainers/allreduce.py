"""Bus bandwidth of an all-reduce over a job's ranks.

Tests the network before it is trusted with a training.

Nothing is trained. A step is one all-reduce of a float32 vector of `--batch-size` MB (10^6 bytes),
and counts as 2(n-1)/n x size, in GB, over n ranks. So the job's rate is the bus bandwidth as
nccl-tests defines it, which can be compared with the hardware's whatever the number of ranks is.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from k8sbench.trainers.parts import ending, machine, nvml, settings, watch
from k8sbench.trainers.parts.events import Journal
from k8sbench.trainers.parts.session import Session
from k8sbench.trainers.parts.steps import StepPlan, StepTimer

DEFAULTS = settings.Defaults(
    benchmark="allreduce",
    recipes=("float32",),
    batch_size=1000,
    warmup=5,
    iterations=50,
    log_interval=5,
    speed_options=(),
    cudnn_benchmark=False,
    shares_gpu=True,
    trains=False,
)
MB = 10**6
FLOAT32 = 4  # bytes


def main(argv: Sequence[str] | None = None) -> None:
    """Measure with the options in `argv`."""
    common, own = settings.read("allreduce", str(__doc__), DEFAULTS, _options, argv)
    if common.amp_dtype is not None or common.data not in settings.DATA_SOURCES:
        settings.refuse("the all-reduce sums float32 vectors of its own: no --amp-dtype, no --data")
    if own.framework == "paddle":
        machine.before_paddle(common)
        from k8sbench.trainers.parts.paddle_session import open_session
    else:
        machine.before_torch(common)
        from k8sbench.trainers.parts.torch_session import open_session  # type: ignore[assignment]
    session: Session = open_session(common)
    ranks = session.place.world_size
    if ranks == 1:
        settings.refuse("one rank alone has no peers; start at least two")
    bus_gb = 2 * (ranks - 1) / ranks * common.batch_size / 1000
    with session as here:
        _measure(here, here.begin("GB", {}, per_step=bus_gb))


def _measure(here: Session, journal: Journal) -> None:
    common, place = here.settings, here.place
    all_reduce = here.distributed.all_reduce
    vector = here.ones(common.batch_size * MB // FLOAT32)
    all_reduce(vector)
    if not here.all_fine(bool((vector == place.world_size).all().item())):
        settings.refuse("the sum is wrong: suspect the network or a GPU", passing=True)
    vector.fill_(0.0)  # ones would grow with each sum, to infinity in the end
    plan = StepPlan(
        common.warmup, common.iterations, common.log_interval, common.min_steady_seconds
    )
    timer = StepTimer(plan, sync=here.sync)
    gpu_samples = nvml.Sampler(journal)
    gpu_samples.start(here.gpu_names())
    here.wait_for_all()
    timer.start()
    while timer.another(here.agree):
        watch.at(f"in step {timer.steps + 1}")
        all_reduce(vector)
        record = timer.step_done()
        if record is not None and place.first:
            journal.step(record, memory_mib=here.memory_mib())
    at_end = here.environment()
    gpu_samples.stop()
    journal.rank(timer.step_seconds)
    here.wait_for_all()  # the summary is the job's last line, after the other ranks' own
    if place.first:
        journal.summary(
            plan,
            timer.window(),
            steps=timer.steps,
            precision_effective="fp32",
            max_memory_mib=here.memory_mib(),
            machine=at_end,
        )


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--framework", choices=("pytorch", "paddle"), default="pytorch")


if __name__ == "__main__":
    ending.run(main)

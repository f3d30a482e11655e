"""How fast the ranks of a job sum up a vector: the network before it is trusted with a benchmark.

No benchmark and no training: `k8sbench doctor --nccl` starts it on every node of a pool. One line
for each size, as nccl-tests' all_reduce_perf measures it: the time of one operation, mean over the
ranks, and from it the bus bandwidth, 2(n-1)/n × size ÷ time, which the hardware's own can be
compared with whatever the number of ranks is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

from k8sbench.trainers.parts import ending, machine, settings
from k8sbench.trainers.parts.events import Journal
from k8sbench.trainers.parts.session import Session

DEFAULTS = settings.Defaults(
    benchmark="allreduce",
    recipes=("float32",),
    batch_size=1,
    warmup=5,
    iterations=20,
    speed_options=(),
    cudnn_benchmark=False,
    shares_gpu=True,
)
BYTES = 4  # of a float32
SMALLEST = 4096
STEP = 4  # from one size to the next
# On a slow network the largest sizes would take minutes: fewer operations measure as well.
SECONDS_PER_SIZE = 5.0
FEWEST = 3


def main(argv: Sequence[str] | None = None) -> None:
    """Measure with the options in `argv`."""
    common, own = settings.read("allreduce", str(__doc__), DEFAULTS, _options, argv)
    if own.framework == "paddle":
        machine.before_paddle(common)
        from k8sbench.trainers.parts.paddle_session import open_session
    else:
        machine.steer_tf32(common.tf32)
        from k8sbench.trainers.parts.torch_session import open_session  # type: ignore[assignment]
    here: Session = open_session(common)
    if here.place.world_size == 1:
        settings.refuse("one rank alone has no peers; start at least two")
    journal = here.begin("bytes", {})
    for size in sizes(own.largest):
        _measure(size, here, journal)
    here.close()


def sizes(largest: int) -> Iterator[int]:
    """Bytes of the vectors, each four times the one before."""
    size = SMALLEST
    while size <= largest:
        yield size
        size *= STEP


def _measure(size: int, here: Session, journal: Journal) -> None:
    ranks = here.place.world_size
    all_reduce = here.distributed.all_reduce
    vector = here.ones(size // BYTES)
    all_reduce(vector)
    correct = bool((vector == ranks).all().item())
    vector.fill_(0.0)  # what it is summed up to from now on

    def timed(count: int) -> float:
        here.wait_for_all()
        here.sync()
        start = time.perf_counter()
        for _ in range(count):
            all_reduce(vector)
        here.sync()
        return (time.perf_counter() - start) / count

    estimate = timed(max(1, here.settings.warmup))
    fitting = max(FEWEST, int(SECONDS_PER_SIZE / max(estimate, 1e-9)))
    count = here.agree(min(here.settings.iterations, fitting))
    seconds = here.mean(here.ones(1) * timed(count)).item()
    if not here.place.first:
        return
    bus = 2 * (ranks - 1) / ranks * size / seconds
    journal.event(
        "allreduce",
        {
            "bytes": size,
            "ranks": ranks,
            "operations": count,
            "seconds": seconds,
            "bus_bytes_per_second": bus,
            "correct": correct,
        },
    )
    journal.text(f"{size} bytes: {seconds * 1e6:.1f} us, bus bandwidth {bus / 1e9:.3f} GB/s")


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--framework", choices=("pytorch", "paddle"), default="pytorch")
    group.add_argument(
        "--largest", type=settings.whole(SMALLEST), default=1 << 30, help="bytes; default: 1 GiB"
    )


if __name__ == "__main__":
    ending.run(main)

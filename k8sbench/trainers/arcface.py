"""ArcFace on Paddle with PLSC's backbone IR-50 and 85,742 classes, sharded over the ranks.

The backbone is data parallel, the classifier model parallel. The report ran one head on one GPU
(`arcface`, here "dense") and another on several (`dist_arcface`, here "margin", the fused kernel
that took its place in Paddle); `--head auto` does the same, and takes the exact own head where
there is no GPU. What differs from upstream: our code; a dynamic graph; synthetic data, which
stay on the GPU where upstream's 8 threads of each process make them anew for each step (`--data
synthetic-host` has loader processes do so, from bytes); an order of real data that is drawn over
all of them in each epoch, where upstream's ranks keep the share that they began with; random
centres drawn by our seed; Paddle's data parallelism of today for the backbone; and steps timed
whole, where upstream's `qps` leaves out the wait for data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: the package's folder is the root of imports, not this one
    sys.path[0] = str(Path(__file__).absolute().parents[2])

from k8sbench.trainers.parts import ending, machine, settings, steps
from k8sbench.trainers.parts.events import RankPlace

DEFAULTS = settings.Defaults(
    benchmark="arcface",
    recipes=("plsc",),
    batch_size=128,
    warmup=50,
    workers=8,
    cudnn_benchmark=False,
    speed_options=("tf32", "fused_optimizer", "cudnn_benchmark"),
)
HEADS = ("auto", "margin", "own", "dense")
# PLSC's config.py: the rate for a global batch of 1024, and the steps where it falls tenfold.
BASE_LR, BASE_BATCH = 0.1, 1024
BOUNDARIES = (100_000, 160_000, 220_000)


def main(argv: Sequence[str] | None = None) -> None:
    """Train with the options in `argv`."""
    common, own = settings.read("arcface", __doc__, DEFAULTS, _options, argv)
    machine.before_paddle(common)

    from k8sbench.trainers.data import faces
    from k8sbench.trainers.data.pictures import FACES_NORMALISE, Pictures
    from k8sbench.trainers.models.arcface_paddle import IR50, evaluation
    from k8sbench.trainers.parts import loop, paddle_session
    from k8sbench.trainers.parts.paddle_session import PLACE_NAMES

    base = own.lr
    if base is None:
        place = RankPlace.from_environment(names=PLACE_NAMES)
        base = BASE_LR * common.batch_size * place.world_size / BASE_BATCH

    def train(run: paddle_session.PaddleRun) -> None:
        for step in run.steps():
            run.set_rate(step.lr)
            with run.here.autocast():
                loss = run.sharded(run.model(step.inputs), step.targets)
            printed = run.values(loss=loss)
            run.scaler.scale(loss).backward()
            run.sum_gradients(step)
            run.scaler.step(run.optimizer)
            run.scaler.update()
            run.optimizer.clear_grad()
            run.read(printed)

    paddle_session.run(
        loop.Work(
            unit="samples",
            model=lambda _: IR50(size=own.size, width_divisor=own.width_divisor),
            sharded=lambda here: make_head(here, own),
            samples=Pictures(own.size, own.classes, common.seed, faces=True),
            files=partial(faces.open_set, size=own.size, classes=own.classes),
            evaluation=evaluation,
            normalise=FACES_NORMALISE,
            momentum=0.9,
            weight_decay=5e-4,
            schedule=lambda _: steps.stepped(base, BOUNDARIES),
            options=lambda here: {
                "size": own.size,
                "classes": own.classes,
                "head": head_name(here, own.head),
            },
            summary=lambda here: {"head": head_name(here, own.head)},
        ),
        common,
        train,
    )


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--size", type=settings.whole(16), default=112, help="pixels per side (default: 112)"
    )
    group.add_argument("--classes", type=settings.whole(2), default=85_742, help="default: 85742")
    group.add_argument(
        "--head",
        choices=HEADS,
        default="auto",
        help="margin = Paddle's fused kernel (GPU); own = exact, on any device; dense = the "
        "report's head for one GPU; auto = dense on one GPU, margin on several, own without",
    )


def head_name(here: Any, wanted: str) -> str:
    """The head that this run takes; one that cannot run is rejected."""
    alone = here.place.world_size == 1
    if wanted == "auto":
        return ("dense" if alone else "margin") if here.on_gpu else "own"
    if wanted == "margin" and not here.on_gpu:
        settings.refuse("--head margin needs a GPU: Paddle has no such kernel for CPUs; use own")
    if wanted == "dense" and not alone:
        settings.refuse("--head dense holds all classes and runs on one rank only; use margin, own")
    return wanted


def make_head(here: Any, own: argparse.Namespace) -> Any:
    """Make the head with this rank's share of the classes."""
    from k8sbench.trainers.models.arcface_paddle import EMBEDDING, ArcFace, shard

    world = here.place.world_size
    if shard(own.classes, world - 1, world)[1] < 1:
        settings.refuse(f"--classes {own.classes} leaves ranks of {world} without any")
    return ArcFace(
        own.classes,
        EMBEDDING,
        head=head_name(here, own.head),
        rank=here.place.rank,
        world=world,
        seed=here.settings.seed,
    )


if __name__ == "__main__":
    ending.run(main)

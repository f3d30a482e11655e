"""GPT-2 on PyTorch, from scratch: tokens per second of a language model.

No published program is followed line by line. The model is GPT-2's, the optimizer and its settings
are those that nanoGPT has for it: AdamW with betas 0.9 and 0.95, weight decay 0.1 of matrices
alone, clipping at 1, a cosine with a warm-up. A batch is sequences per rank, and each step counts
all their tokens. With `--shard` the ranks share parameters, gradients and the optimizer's state
(`fully_shard`, FSDP2) and gather one block at a time; in AMP they gather half precision, in which
the sum over the blocks then is, too. With `--accumulate` they reduce gradients once per change of
the weights, until which each rank keeps all of its own. Without `--shard`, each rank has all of
them (DDP). `--data DIR` reads train.bin, see `data/tokens.py`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from k8sbench.trainers.parts import ending, machine, settings, steps
from k8sbench.trainers.parts.events import RankPlace

DEFAULTS = settings.Defaults(
    benchmark="gpt",
    recipes=("gpt2",),
    batch_size=8,
    warmup=20,
    iterations=100,
    workers=2,
    cudnn_benchmark=False,
    speed_options=("compile", "tf32", "fused_optimizer"),
    shares_gpu=True,
    trains=False,
)
# Layers, and heads of 64 channels.
SIZES = {"gpt2": (12, 12), "gpt2-medium": (24, 16), "gpt2-large": (36, 20), "gpt2-xl": (48, 25)}
POSITIONS = 1024  # the longest sequence
# nanoGPT's train.py; its iterations are changes of the weights.
BASE_LR, LR_WARMUP, LR_STEPS = 6e-4, 2000, 600_000
BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
CLIP_NORM = 1.0


def main(argv: Sequence[str] | None = None) -> None:
    """Train with the options in `argv`."""
    common, own = settings.read("gpt", __doc__, DEFAULTS, _options, argv)
    if own.shard and RankPlace.from_environment().world_size == 1:
        print("k8sbench: note: --shard: one rank alone shares nothing", file=sys.stderr, flush=True)
    machine.before_torch(common)

    import torch

    from k8sbench.trainers.data import tokens
    from k8sbench.trainers.models import gpt_torch
    from k8sbench.trainers.parts import loop, torch_session

    layers, heads = SIZES[own.model]
    layers = own.layers or layers

    def model(here: torch_session.TorchSession) -> gpt_torch.GPT2:
        with here.device:  # of 1.5 billion parameters a CPU would draw for minutes
            return gpt_torch.GPT2(
                layers,
                heads,
                vocabulary=own.vocabulary,
                positions=POSITIONS,
                width_divisor=own.width_divisor,
                chunked_loss=own.chunked_loss,
            )

    def train(run: torch_session.TorchRun) -> None:
        for step in run.steps():
            run.set_rate(step.lr)
            with run.gradients_of(step):
                with run.here.autocast():
                    loss = run.model(step.inputs, step.targets)
                run.read(run.values(loss=loss))  # the host then prepares the next step meanwhile
                run.scaler.scale(loss / own.accumulate).backward()
            run.sum_gradients(step)
            if step.updates:
                if own.clip:
                    run.scaler.unscale_(run.optimizer)
                    torch.nn.utils.clip_grad_norm_(run.model.parameters(), own.clip)
                run.scaler.step(run.optimizer)
                run.scaler.update()
                run.optimizer.zero_grad()

    torch_session.run(
        loop.Work(
            unit="tokens",
            per_sample=own.sequence_length,
            model=model,
            samples=tokens.Drawn(own.sequence_length, own.vocabulary, common.seed),
            files=partial(tokens.open_set, length=own.sequence_length, vocabulary=own.vocabulary),
            groups=partial(gpt_torch.decayed_and_not, decay=WEIGHT_DECAY),
            optimizer=partial(torch.optim.AdamW, betas=BETAS),
            schedule=lambda _: steps.warmup_cosine(
                BASE_LR if own.lr is None else own.lr,
                warmup=LR_WARMUP,
                total=LR_STEPS,
                per=own.accumulate,
            ),
            accumulate=own.accumulate,
            norm="LayerNorm",
            ddp={"shards": lambda model: model.blocks} if own.shard else {},
            options=lambda _: {
                "model": own.model,
                "layers": layers,
                "vocabulary": own.vocabulary,
                "sequence_length": own.sequence_length,
                "accumulate": own.accumulate,
                "shard": own.shard,
                "clip": own.clip,
                "chunked_loss": own.chunked_loss,
                # No pictures, no convolutions.
                "channels_last": None,
                "cudnn_benchmark": None,
            },
        ),
        common,
        train,
    )


def _options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", choices=SIZES, default="gpt2", help="default: gpt2")
    group.add_argument(
        "--sequence-length",
        type=settings.whole(1, POSITIONS),
        default=POSITIONS,
        help="tokens of a sequence (default: 1024, as many as the model has positions for)",
    )
    group.add_argument(
        "--shard",
        action="store_true",
        help="share parameters, gradients and optimizer state among the ranks (fully_shard)",
    )
    group.add_argument(
        "--accumulate",
        type=settings.whole(1),
        default=1,
        metavar="N",
        help="batches whose gradients are averaged before the weights change (default: 1)",
    )
    group.add_argument(
        "--chunked-loss",
        action="store_true",
        help="compute the loss of 4,096 tokens at a time, without the logits of all",
    )
    group.add_argument("--vocabulary", type=settings.whole(2, 65_536), default=50_257)
    group.add_argument("--layers", type=settings.whole(1), help="default: the model's")
    group.add_argument(
        "--clip",
        type=settings.real(0.0),
        default=CLIP_NORM,
        help="the gradients' largest norm (default: 1); 0 = any",
    )


if __name__ == "__main__":
    ending.run(main)

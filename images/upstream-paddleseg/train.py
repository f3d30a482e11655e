"""PaddleSeg's training loop, started as its ``tools/train.py`` starts it.

The wheel has the loop (``paddleseg.core.train``) and not that program. Words, configuration and log
are its own; evaluation is left out.
"""

from __future__ import annotations

import argparse

# This and cv2 before Paddle, whose library exports a zlib of its own: a module that is linked to
# zlib and comes later calls that one, and crashes.
import zlib  # noqa: F401

import cv2  # noqa: F401
import paddle
from paddleseg.core import train
from paddleseg.cvlibs import Config, SegBuilder
from paddleseg.models.losses import CrossEntropyLoss
from paddleseg.utils import get_sys_env, logger

loss = CrossEntropyLoss.forward


def loss_of_one_dimension(self: CrossEntropyLoss, *given: paddle.Tensor) -> paddle.Tensor:
    """Return the loss as before Paddle 2.5: the loop prints ``loss.numpy()[0]``."""
    return loss(self, *given).reshape([1])


def main() -> None:
    """Train as the configuration and the words say."""
    parser = argparse.ArgumentParser(description="PaddleSeg's training loop.")
    parser.add_argument("--config", required=True)
    for name in ("batch_size", "iters", "log_iters", "num_workers"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--opts", nargs="+")
    given = parser.parse_args()
    about = "\n".join(f"{name}: {value}" for name, value in get_sys_env().items())
    logger.info(f"\n{'Environment Information':-^48}\n{about}\n{'-' * 48}")
    config = Config(
        given.config, given.learning_rate, given.batch_size, given.iters, opts=given.opts
    )
    built = SegBuilder(config)
    CrossEntropyLoss.forward = loss_of_one_dimension
    train(
        built.model,
        built.train_dataset,
        optimizer=built.optimizer,
        iters=config.iters,
        batch_size=config.batch_size,
        save_interval=config.iters + 1,
        log_iters=given.log_iters,
        num_workers=given.num_workers,
        losses=built.loss,
        precision=given.precision,
    )


if __name__ == "__main__":
    main()

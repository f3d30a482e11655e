"""The pretrain_gpt.py of Megatron-LM, core 0.15."""

import argparse

from tests.harness.programs.printing import gpus, say, speed, stamp

STEP = 0.5
"""Seconds of a step."""
FIRST = 8.0
"""Seconds of the first step."""
VALUES = (
    *("num-layers", "hidden-size", "num-attention-heads", "seq-length"),
    *("max-position-embeddings", "micro-batch-size", "global-batch-size", "train-iters"),
    *("log-interval", "eval-interval", "eval-iters", "vocab-size"),
)


def main() -> None:
    """Print what the job prints."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in VALUES:
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--bf16", action="store_true", required=True)
    parser.add_argument("--mock-data", action="store_true", required=True)
    parser.add_argument("--tokenizer-type", choices=["NullTokenizer"], required=True)
    given = parser.parse_args()
    batch, every = given.global_batch_size, given.log_interval
    assert batch % (given.micro_batch_size * gpus()) == 0, "as the program asserts, too"
    stated = {
        "bf16": True,
        "global_batch_size": batch,
        "log_interval": every,
        "micro_batch_size": given.micro_batch_size,
        "params_dtype": "torch.bfloat16",
        "seq_length": given.seq_length,
        "train_iters": given.train_iters,
        "world_size": gpus(),
    }
    say(
        0.0,
        f"using world size: {gpus()}, data-parallel size: {gpus()}, context-parallel size: 1, "
        "tensor-model-parallel size: 1, pipeline-model-parallel size: 1",
        "------------------------ arguments ------------------------",
        *(f"  {name} {'.' * (47 - len(name))} {value}" for name, value in stated.items()),
        "-------------------- end of arguments ---------------------",
    )
    step, at = STEP / speed(), FIRST
    for done in range(every, given.train_iters + 1, every):
        first = done == every
        seconds = FIRST + (every - 1) * step if first else every * step
        at = seconds if first else at + seconds
        say(
            at,
            f" [{stamp(at)}000] iteration {done:8}/{given.train_iters:8} | consumed samples: "
            f"{done * batch:12} | elapsed time per iteration (ms): {1000 * seconds / every:.1f} | "
            f"learning rate: 5.000000E-06 | global batch size: {batch:5} | lm loss: "
            f"{11 - done / 100:.6E} | loss scale: 1.0 | grad norm: 1.021 | number of skipped "
            "iterations:   0 | number of nan iterations:   0 |",
        )


if __name__ == "__main__":
    main()

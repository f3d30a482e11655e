"""The train.py of nanoGPT, with its configuration train_gpt2."""

import argparse

from tests.harness.programs.printing import gpus, say, speed

BATCH, BLOCK, EVERY = 12, 1024, 10
"""Sequences of a batch, their tokens, and steps between lines: as in the configuration."""
STEP = 0.256
"""Seconds of a step."""
COMPILATION = 31.0
"""Seconds of the first step."""


def main() -> None:
    """Print what rank 0 prints."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("configuration", choices=["config/train_gpt2.py"])
    parser.add_argument("--dtype", choices=["bfloat16"], required=True)
    parser.add_argument("--wandb_log", choices=["False"], required=True)
    for name in ("gradient_accumulation_steps", "max_iters", "eval_interval"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args()
    assert given.gradient_accumulation_steps % gpus() == 0, "as the program asserts, too"
    tokens = given.gradient_accumulation_steps * BATCH * BLOCK
    say(
        0.0,
        f"Overriding config with {given.configuration}:",
        f"batch_size = {BATCH}",
        f"block_size = {BLOCK}",
        "Overriding: dtype = bfloat16",
        f"Overriding: gradient_accumulation_steps = {given.gradient_accumulation_steps}",
        f"tokens per iteration will be: {tokens:,}",
        "compiling the model... (takes a ~minute)",
    )
    step, at = STEP / speed(), COMPILATION
    say(at, "step 0: train loss 11.0000, val loss 11.1000")
    for done in range(0, given.max_iters + 1, EVERY):
        seconds = COMPILATION if done == 0 else step
        at += seconds if done == 0 else EVERY * step
        say(
            at,
            f"iter {done}: loss {11 - done / 100:.4f}, time {1000 * seconds:.2f}ms, mfu 17.20%",
        )


if __name__ == "__main__":
    main()

"""The run_clm.py of the examples of Hugging Face's transformers."""

import argparse

from tests.harness.programs.printing import gpus, say, speed, stamp

STEP = 0.5
"""Seconds of a step."""


def main() -> None:
    """Print what rank 0 prints."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("model_name_or_path", "dataset_name", "dataset_config_name", "output_dir"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("per_device_train_batch_size", "max_steps", "logging_steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("do_train", "bf16"):
        parser.add_argument(f"--{name}", action="store_true", required=True)
    given = parser.parse_args()
    own, steps = given.per_device_train_batch_size, given.max_steps
    batch = own * gpus()
    head = (
        "***** Running training *****",
        f"  Num examples = {batch * steps:,}",
        "  Num Epochs = 1",
        f"  Instantaneous batch size per device = {own}",
        f"  Total train batch size (w. parallel, distributed & accumulation) = {batch}",
        "  Gradient Accumulation steps = 1",
        f"  Total optimization steps = {steps:,}",
    )
    when = stamp(0.0).replace(".", ",")
    say(0.0, *(f"[INFO|trainer.py:2519] {when} >> {text}" for text in head))
    step = STEP / speed()
    for done in range(given.logging_steps, steps + 1, given.logging_steps):
        epoch = done / steps
        loss = 11 - done / 1000
        say(
            done * step,
            f"{{'loss': {loss:.4f}, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': {epoch}}}",
        )
    seconds = steps * step
    say(
        seconds,
        f"{{'train_runtime': {seconds:.4f}, 'train_samples_per_second': "
        f"{batch * steps / seconds:.3f}, 'train_steps_per_second': {1 / step:.3f}, "
        f"'train_loss': {loss:.4f}, 'epoch': 1.0}}",
    )


if __name__ == "__main__":
    main()

"""The torchtitan of August 2026 with the configuration llama3_8b."""

import argparse

from tests.harness.programs.printing import gpus, say, speed, stamp

TOKENS = 8192
"""Tokens of one GPU in a step."""
RATE = 7000.0
"""Tokens per second of one GPU."""
COMPILATION = 20.0
"""Seconds of the first step."""
EVERY = 10


def main() -> None:
    """Print what rank 0 prints."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--module", choices=["llama3"], required=True)
    parser.add_argument("--config", choices=["llama3_8b"], required=True)
    parser.add_argument("--hf_assets_path", required=True)
    parser.add_argument("--training.steps", dest="steps", type=int, required=True)
    parser.add_argument("--dump_folder", required=True)
    given = parser.parse_args()
    _log(
        0.0,
        "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard="
        f"{gpus()}, cp=1, tp=1, ep=1",
        "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory",
        f"Trainer is initialized with {TOKENS} tokens per DP rank, {TOKENS * gpus()} tokens per"
        f" train step, gradient accumulation steps 1, maximum context length {TOKENS}, total steps"
        f" {given.steps} (warmup 200)",
    )
    rate = RATE * speed()
    for step in (1, *range(EVERY, given.steps + 1, EVERY)):
        at = COMPILATION + step * TOKENS / rate
        shown = TOKENS / COMPILATION if step == 1 else rate
        _log(
            at,
            f"step: {step:2}  loss: {11 - step / 100:.5f}  grad_norm:  1.2345  memory: 30.99GiB"
            f"(32.62%)  tps: {shown:,.0f}  tflops: 407.35  mfu: 41.19%",
        )
    _log(at, "Training completed")


def _log(second: float, *texts: str) -> None:
    when = stamp(second).replace(".", ",")
    say(second, *(f"[rank0]:[titan] {when} - root - INFO - {text}" for text in texts))


if __name__ == "__main__":
    main()

"""Logs of programs that are recognised at an import."""

from tests.reader.measuring.support import run


def mmseg(
    *,
    batch: int = 2,
    steps: int = 20,
    seconds: float = 0.5,
    head: str = "DepthwiseSeparableASPPHead",
) -> str:
    """A log of mmsegmentation with its configuration, in fp32 and on one GPU."""
    config = [
        "2026-03-02 10:00:00,000 - mmseg - INFO - Distributed training: False",
        "2026-03-02 10:00:00,000 - mmseg - INFO - Config:",
        f"model = dict(type='EncoderDecoder', decode_head=dict(type='{head}'))",
        f"data = dict(samples_per_gpu={batch}, workers_per_gpu=4)",
        "gpu_ids = range(0, 1)",
    ]
    return "\n".join([*config, *run([seconds] * steps)]) + "\n"

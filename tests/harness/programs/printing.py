"""Lines of a played program, each behind the second of the job at which it is printed."""

import os
from datetime import UTC, datetime

START, SPEED, GPUS = "PLAYED_START", "PLAYED_SPEED", "PLAYED_GPUS"
"""Variables: the job's start, Unix seconds; its speed, of which 1 is usual; GPUs of the pod."""


def speed() -> float:
    """Return how fast the program is, relative to its usual speed."""
    return float(os.environ[SPEED])


def gpus() -> int:
    """Return the number of processes that torchrun has started."""
    return int(os.environ["WORLD_SIZE"])


def stamp(second: float) -> str:
    """Write a second of the job as a date and time with milliseconds."""
    at = datetime.fromtimestamp(float(os.environ[START]) + second, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def say(second: float, *lines: str) -> None:
    """Print lines at a second of the job."""
    for line in lines:
        print(f"{second:.3f}\t{line}")

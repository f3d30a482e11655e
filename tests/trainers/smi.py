"""A run's environment against a line of nvidia-smi."""

from __future__ import annotations

from collections.abc import Callable, Mapping

QUESTIONS: dict[str, tuple[str, Callable[[str], object]]] = {
    "name": ("gpu_model", str),
    "driver_version": ("driver", str),
    "ecc.mode.current": ("ecc", lambda text: {"Enabled": True, "Disabled": False}[text]),
    "clocks.max.sm": ("clock_sm_max_mhz", int),
    "clocks.max.mem": ("clock_memory_max_mhz", int),
    "enforced.power.limit": ("power_limit_w", float),
    "compute_cap": ("gpu_compute_capability", str),
}
"""Question of nvidia-smi → field of the environment, and how its answer is read."""


def differences(about: Mapping[str, object], line: str) -> dict[str, tuple[object, object]]:
    """By field: what the run says and what nvidia-smi says, where they differ.

    nvidia-smi writes "[N/A]", "[Not Supported]" and the like for what is None here.
    """
    answers = [answer.strip() for answer in line.strip().split(",")]
    found = {}
    for (field, read), answer in zip(QUESTIONS.values(), answers, strict=True):
        theirs = None if answer.startswith("[") or answer == "N/A" else read(answer)
        ours = about[field]
        if isinstance(ours, float) and isinstance(theirs, float):
            if abs(ours - theirs) <= 0.01:  # watts, of which two decimals are shown
                continue
        elif ours == theirs:
            continue
        found[field] = (ours, theirs)
    return found

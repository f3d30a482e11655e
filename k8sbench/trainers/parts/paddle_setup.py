"""What must be settled before paddle is imported.

Paddle reads its number of threads and CUDA its TF32 switch when they are loaded, so both are
environment variables that are set here. Imports no framework.
"""

from __future__ import annotations

import os

from k8sbench.trainers.parts import machine
from k8sbench.trainers.parts.settings import Settings

# "compile" is not among them: Paddle's to_static is another program, not a switch.
SPEED_OPTIONS = ("channels_last", "tf32", "fused_optimizer", "cudnn_benchmark", "overlap")


def before_import(settings: Settings) -> None:
    """Set the environment that paddle is to find when it is imported."""
    if settings.threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(settings.threads)
    machine.steer_tf32(settings.tf32)

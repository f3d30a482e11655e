"""NVML's library as a machine with one GPU has it, compiled of ``nvml.c``."""

import functools
import pathlib
import shutil
import subprocess

from tests import tiers

NAME = "libnvidia-ml.so.1"
ADDRESS, UUID = "00000000:3b:00.0", "8c6f"
"""PCI address and UUID of its only GPU."""


def assign(every: float) -> None:
    """Assign this GPU to a rank of PyTorch on a CPU, and sample it every so many seconds."""
    from k8sbench.trainers.parts import nvml, session

    plain = session.Session.environment
    gpu = {"gpu_model": "Tesla V100-SXM2-32GB", "gpu_uuid": UUID, "gpu_index": 0}
    for where, name, instead in (
        (session.Session, "gpu_names", lambda _: (ADDRESS, UUID)),
        (session.Session, "environment", lambda here: {**plain(here), **gpu}),
        (nvml, "Sampler", functools.partial(nvml.Sampler, every=every)),
    ):
        setattr(where, name, instead)


def built(library: pathlib.Path, **given: object) -> pathlib.Path:
    """Compile it; what is given is otherwise than usual."""
    tiers.demand("compiler")
    if not library.exists():
        macros = [f"-D{name}={value}" for name, value in given.items()]
        source = str(pathlib.Path(__file__).with_name("nvml.c"))
        command = [shutil.which("cc") or "gcc", "-Wall", "-Werror", "-shared", "-fPIC", *macros]
        subprocess.run([*command, "-o", str(library), source], check=True)
    return library

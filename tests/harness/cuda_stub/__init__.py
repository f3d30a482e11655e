"""A CUDA runtime without a GPU, which simulates one V100 for PyTorch.

`runtime.c` is compiled with the headers of PyTorch's own wheels, once, into the user's cache.
A program that is started with `variables` has it, and the operators of `operators.py`; `watched.py`
counts what trainers ask of it. Python, PyTorch's dispatcher, autograd, allocator, data parallelism
over gloo and their checks are real; kernels compute nothing, and NCCL, Triton and Paddle are not
to be had.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import tiers

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "runtime.c"
CACHE = tiers.CACHE / "k8sbench" / "tools"
# The driver's name, by which PyTorch loads it, and finds what is loaded already.
SONAME = "libcuda.so.1"
FLAGS = (
    *("-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"),
    *("-shared", "-fPIC", f"-Wl,-soname,{SONAME}"),
)
# The runtime's package lacks the compiler's own headers, which it includes; Triton's has them.
HEADERS = (
    ("nvidia", "cuda_runtime/include", "cuda_runtime_api.h"),
    ("triton", "backends/nvidia/include", "crt/host_defines.h"),
)


def _includes() -> list[Path] | None:
    """The folders of CUDA's headers; None where one of them is missing."""
    folders = []
    for package, folder, header in HEADERS:
        spec = importlib.util.find_spec(package)
        places = spec.submodule_search_locations if spec else None
        candidates = (Path(place, folder) for place in places or ())
        include = next((path for path in candidates if (path / header).exists()), None)
        if include is None:
            return None
        folders.append(include)
    return folders


def missing() -> str | None:
    """Say what is missing; None if it can be had."""
    if not sys.platform.startswith("linux"):
        return "it preloads a library, as Linux does"
    if importlib.util.find_spec("torch") is None:
        return "torch not installed"
    if _includes() is None:
        return "no headers of CUDA 12, which torch 2.10 installs for Linux"
    return tiers.missing("compiler")


def built() -> Path:
    """The library, compiled now if it is not yet."""
    includes = [word for folder in _includes() or () for word in ("-isystem", str(folder))]
    command = [shutil.which("cc") or "gcc", *FLAGS, *includes]
    key = hashlib.sha256("\0".join((SOURCE.read_text(), *command)).encode()).hexdigest()[:16]
    library = CACHE / f"cuda-stub-{key}" / SONAME
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        # Of several that compile at once the last one's stays, which is as good as the others'.
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            made = Path(folder, SONAME)
            subprocess.run([*command, "-o", str(made), str(SOURCE)], check=True)
            made.rename(library)
    return library


def variables() -> dict[str, str]:
    """Return a program's additional environment; `runtime.c` lists optional variables."""
    paths = (str(tiers.ROOT), str(FOLDER / "startup"), os.environ.get("PYTHONPATH"))
    return {
        "LD_PRELOAD": str(built()),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }

"""Run inside an image at the end of its build: does it hold what its labels say?

``python3 check.py FRAMEWORK VERSION``, as the user that the image runs as, on a machine without a
GPU. What needs one (that kernels run, that NCCL finds its peers) is not checked here.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
from pathlib import Path

USER = 1000
TRAINERS = Path("/opt/k8sbench/k8sbench/trainers")
OPENED_BY_PADDLE = (
    *("Cublas", "CublasLt", "CUDNN", "CUFFT", "CUPTI", "Curand", "Cusolver", "Cusparse"),
    *("FlashAttn", "NCCL", "NVRTC", "Nvtx", "WarpCTC"),
)
"""Libraries that Paddle opens when it first needs them, as its loader's functions are named. The
driver's own is missing here, as are nvJPEG, TensorRT and cuSPARSELt, which no trainer needs."""


def main(framework: str, version: str) -> None:
    """Fail with a sentence on the first thing that is not as it should be."""
    demand(os.getuid() == USER, f"runs as user {os.getuid()}, not {USER}")
    found = {"pytorch": torch_version, "paddle": paddle_version}[framework]()
    demand(found == version, f"has {framework} {found}, not {version}")
    programs = [path for path in TRAINERS.glob("*.py") if path.name != "__init__.py"]
    demand(bool(programs), f"has no trainers in {TRAINERS}")
    for path in programs:
        if path.stem != "paddle_launch":
            command = [sys.executable, "-m", f"k8sbench.trainers.{path.stem}", "--help"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def torch_version() -> str:
    """Version of PyTorch, if it came with kernels for the V100, NCCL and numpy."""
    torch = importlib.import_module("torch")
    # torch.cuda.get_arch_list() is empty where there is no GPU.
    kernels = torch._C._cuda_getArchFlags().split()
    demand("sm_70" in kernels, f"has PyTorch with kernels for {kernels} alone")
    demand(torch.distributed.is_nccl_available(), "has PyTorch without NCCL")
    torch.ones(2).numpy()
    return str(torch.__version__).partition("+")[0]


def paddle_version() -> str:
    """Version of Paddle, if it finds the libraries of CUDA."""
    paddle = importlib.import_module("paddle")
    demand(paddle.is_compiled_with_cuda(), "has Paddle without CUDA")
    loader = ctypes.CDLL(str(Path(str(paddle.__file__)).parent / "libs" / "libphi.so"))
    for library in OPENED_BY_PADDLE:
        # C++ without arguments: phi::dynload::GetCUDNNDsoHandle(). It ends the process, with the
        # name of the library that is missing, where it fails.
        name = f"Get{library}DsoHandle"
        get = loader[f"_ZN3phi7dynload{len(name)}{name}Ev"]
        get.restype = ctypes.c_void_p
        demand(bool(get()), f"has no library for Paddle's {library}")
    paddle.ones([2]).numpy()
    return str(paddle.__version__)


def demand(true: bool, otherwise: str) -> None:
    """End the build unless ``true``."""
    if not true:
        sys.exit(f"error: this image {otherwise}.")


if __name__ == "__main__":
    main(*sys.argv[1:])

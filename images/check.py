"""Run inside an image at the end of its build: does it hold what its labels say?

``python3 check.py IMAGE VERSION``, as the user that the image runs as, on a machine without a GPU.
What needs one (that kernels run, that NCCL finds its peers) is not checked here, nor what the
operator's image must not hold (tests/node/test_operator_image.py). The version is the framework's,
or k8sbench's in the operator's image.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
from pathlib import Path

USER = {"operator": 65532}
"""Image → who runs in it, if not user 1000."""
TRAINERS = Path("/opt/k8sbench/k8sbench/trainers")
OPENED_BY_PADDLE = (
    *("Cublas", "CublasLt", "CUDNN", "CUFFT", "CUPTI", "Curand", "Cusolver", "Cusparse"),
    *("FlashAttn", "NCCL", "NVRTC", "Nvtx", "WarpCTC"),
)
"""Libraries that Paddle opens when it first needs them, as its loader's functions are named. The
driver's own is missing here, as are nvJPEG, TensorRT and cuSPARSELt, which no trainer needs."""


def main(image: str, version: str) -> None:
    """Fail with a sentence on the first thing that is not as it should be."""
    user = USER.get(image, 1000)
    demand(os.getuid() == user, f"runs as user {os.getuid()}, not {user}")
    find = {
        "pytorch": torch_version,
        "paddle": paddle_version,
        "operator": k8sbench_version,
        "upstream-mmseg": mmseg_version,
        "upstream-paddleseg": paddleseg_version,
    }
    found = find[image]()
    demand(found == version, f"has {image} {found}, not {version}")
    if image.startswith("upstream-"):
        demand(os.access(".", os.W_OK), f"cannot write to {Path.cwd()}")
    elif image != "operator":
        check_trainers()


def check_trainers() -> None:
    """Fail unless every trainer starts."""
    programs = [path for path in TRAINERS.glob("*.py") if path.name != "__init__.py"]
    demand(bool(programs), f"has no trainers in {TRAINERS}")
    for path in programs:
        if path.stem != "paddle_launch":
            command = [sys.executable, "-m", f"k8sbench.trainers.{path.stem}", "--help"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def k8sbench_version() -> str:
    """Version that k8sbench's program says it has, if its operator starts."""
    for name in ("sqlite3", "starlette", "uvicorn", "prometheus_client"):
        importlib.import_module(name)
    subprocess.run(["k8sbench", "operator", "--help"], check=True, stdout=subprocess.DEVNULL)
    words = ["k8sbench", "--version"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1]


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


def mmseg_version() -> str:
    """Version of mmsegmentation, if its program and a configuration are where it is started."""
    for name in ("tools/train.py", "configs/deeplabv3plus"):
        demand(Path(name).exists(), f"has no {name} in {Path.cwd()}")
    return str(importlib.import_module("mmseg").__version__)


def paddleseg_version() -> str:
    """Version of PaddleSeg, if its loop can be imported."""
    for name in ("zlib", "cv2", "paddleseg.core"):
        importlib.import_module(name)
    return str(importlib.import_module("paddleseg").__version__)


def demand(true: bool, otherwise: str) -> None:
    """End the build unless ``true``."""
    if not true:
        sys.exit(f"error: this image {otherwise}.")


if __name__ == "__main__":
    main(*sys.argv[1:])

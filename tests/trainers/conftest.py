"""Ranks as forks, and a driver's library for trainers on machines without a GPU."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from k8sbench.trainers import parts
from k8sbench.trainers.parts import nvml
from tests import tiers
from tests.harness import forks
from tests.trainers import runs, stand_in

Nvml = Callable[..., ctypes.CDLL]
# PyTorch's optimizers import the last one at their first step.
IMPORTED = {
    "pytorch": (f"{parts.__name__}.torch_session", "torch._dynamo"),
    "paddle": (f"{parts.__name__}.paddle_session",),
}


@pytest.fixture(scope="package", autouse=True)
def forked() -> Iterator[None]:
    """Let ranks be forks of a process that has their framework imported."""

    def start(framework: str, *given: Any) -> list[forks.Ended]:
        return forks.servers(*IMPORTED[framework]).start(*given)

    with mock.patch.object(runs, "start", start):
        yield


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of those that were compiled, each once."""
    return tmp_path_factory.mktemp("nvml")


@pytest.fixture
@tiers.needs("compiler")
def driver(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Install a fake NVML library of one GPU, with the given changes."""

    def put(**given: object) -> ctypes.CDLL:
        name = "-".join(["nvml", *(f"{macro}={value}" for macro, value in given.items())])
        loaded = ctypes.CDLL(str(stand_in.built(libraries / f"{name}.so", **given)))
        monkeypatch.setattr(nvml, "LIBRARY", loaded._name)
        return loaded

    return put

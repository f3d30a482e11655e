"""The machine's GPUs as the driver tells them, and who gets which."""

from typing import Any

import pytest

from k8sbench.adapters.local import cluster
from k8sbench.adapters.local.cluster import GPU, Inventory
from k8sbench.model.errors import UsageError
from tests.unit.presence import present


class Nvml:
    """NVML as far as it is asked, for a machine of so many GPUs."""

    class NVMLError(Exception):
        """As in pynvml."""

    def __init__(self, count: int, *, fault: str | None = None) -> None:
        self.count, self.fault = count, fault
        self.calls: list[str] = []

    def nvmlInit(self) -> None:
        self.calls.append("init")
        if self.fault == "init":
            raise self.NVMLError("NVML Shared Library Not Found")

    def nvmlShutdown(self) -> None:
        self.calls.append("shutdown")

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86.15"

    def nvmlDeviceGetCount(self) -> int:
        if self.fault == "count":
            raise self.NVMLError("Unknown Error")
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}000"

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "Tesla V100-SXM2-16GB"


def found(count: int, visible: str | None = None, **more: Any) -> Inventory:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return cluster.machine_gpus(environ, Nvml(count, **more))


def indices(inventory: Inventory) -> list[int]:
    return [gpu.index for gpu in inventory.gpus]


def test_the_driver_tells_the_model() -> None:
    here = found(1)
    assert here.driver == "570.86.15"
    assert here.gpus == (GPU(index=0, uuid="GPU-0000", model="Tesla V100-SXM2-16GB"),)
    assert here.reason is None


@pytest.mark.parametrize(("fault", "calls"), [("init", ["init"]), ("count", ["init", "shutdown"])])
def test_no_driver_is_an_answer_with_its_reason(fault: str, calls: list[str]) -> None:
    library = Nvml(1, fault=fault)
    here = cluster.machine_gpus({}, library)
    assert here.gpus == ()
    assert "NVML" in present(here.reason)
    assert library.calls == calls


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("2,0", [2, 0]),
        (" 1 , 3 ", [1, 3]),
        ("GPU-2", [2]),
        ("1,9,2", [1]),
        ("-1", []),
        ("", []),
        ("1,1", [1]),
    ],
)
def test_what_is_visible_counts_as_cuda_reads_it(visible: str | None, expected: list[int]) -> None:
    here = found(4, visible)
    assert indices(here) == expected
    assert (here.reason is None) == (visible is None)


def test_too_few_are_refused_with_both_numbers_and_the_reason() -> None:
    with pytest.raises(UsageError, match=r"need 4 GPUs; this machine has 1 \(CUDA_VISIBLE_DEVICES"):
        cluster.assign(found(4, "3"), 2, 2)

"""What a trainer tells of its machine: facts or None."""

from __future__ import annotations

import inspect
import json
import os
import pathlib
import sys
import types
from typing import Any

import pytest

from k8sbench.trainers.parts import machine


def test_the_machine_is_described_in_words_that_json_knows() -> None:
    found = machine.describe()
    assert json.loads(json.dumps(found)) == found
    assert found["host"]
    assert found["cpus"] == len(os.sched_getaffinity(0))
    limit = found["memlock_ulimit"]
    assert limit == "unlimited" or isinstance(limit, int)
    for name in (*machine.FRAMEWORK_FIELDS, *machine.GPU_FIELDS):
        assert found[name] is None


def test_a_gpu_that_cannot_be_asked_is_unknown_in_every_field() -> None:
    found = machine.gpu(None, None)
    assert set(found) == set(machine.GPU_FIELDS)
    assert all(value is None for name, value in found.items() if name != "driver")


class FakeNvml(types.ModuleType):
    """The library as a machine with one GPU has it, whose clocks nobody may ask for."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    reasons = "nvmlDeviceGetCurrentClocksEventReasons"

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlSystemGetDriverVersion": b"570.1",
            "nvmlDeviceGetHandleByPciBusId": "gpu 0",
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetEnforcedPowerLimit": 300_000,
            "nvmlDeviceGetMaxClockInfo": 1530,
            "nvmlDeviceGetCurrPcieLinkGeneration": 3,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            self.reasons: 4,
        }

        def answer(*arguments: Any) -> Any:
            if name == "nvmlDeviceGetNvLinkState" and arguments[1] < 6:
                return int(arguments[1] != 2)  # six links, one of them down
            if name not in answers:
                raise self.NVMLError("not for you")
            return answers[name]

        return answer


def test_a_gpu_is_described_by_nvml_and_what_it_refuses_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml("pynvml"))
    found = machine.gpu("00000000:3b:00.0", None)
    assert set(found) == set(machine.GPU_FIELDS)
    told = {name: found[name] for name in ("driver", "ecc", "power_limit_w", "nvlinks")}
    assert told == {"driver": "570.1", "ecc": True, "power_limit_w": 300.0, "nvlinks": 5}
    assert (found["clock_sm_mhz"], found["clock_sm_max_mhz"]) == (None, 1530)
    assert (found["pcie_generation"], found["pcie_width"]) == (3, 16)
    assert found["throttle_reasons"] == 4


@pytest.mark.parametrize("name", machine.CLOCK_REASONS)
def test_a_throttled_clock_is_told_by_old_drivers_and_by_new_ones(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml("pynvml")
    nvml.reasons = name
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert machine.gpu("00000000:3b:00.0", None)["throttle_reasons"] == 4


@pytest.mark.parametrize("uuid", ["8c6f", "GPU-8c6f"])
@pytest.mark.parametrize("address", [None, "00000000:3b:00.0"])
def test_a_gpu_whose_address_nvml_does_not_know_is_found_by_its_uuid(
    uuid: str, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(FakeNvml):
        def nvmlDeviceGetHandleByPciBusId(self, _: bytes) -> str:
            raise self.NVMLError("no such GPU")

        def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> str:
            assert uuid == b"GPU-8c6f"
            return "gpu 0"

    monkeypatch.setitem(sys.modules, "pynvml", Elsewhere("pynvml"))
    assert machine.gpu(address, uuid)["power_limit_w"] == 300.0


@pytest.mark.parametrize(("address", "uuid"), [(None, None), ("00000000:3b:00.0", "8c6f")])
def test_of_a_gpu_that_nvml_does_not_know_only_the_driver_is_told(
    address: str | None, uuid: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stranger(FakeNvml):
        def nvmlDeviceGetHandleByPciBusId(self, _: bytes) -> str:
            raise self.NVMLError("no such GPU")

    monkeypatch.setitem(sys.modules, "pynvml", Stranger("pynvml"))
    found = machine.gpu(address, uuid)
    assert set(found) == set(machine.GPU_FIELDS)
    assert {name for name in found if found[name] is not None} <= {"driver", "numa_node"}
    assert found["driver"] == "570.1"


@pytest.mark.parametrize(
    ("version", "driver"),
    [
        ("NVIDIA UNIX x86_64 Kernel Module  450.80.02  Wed Sep 23 01:13:39 UTC 2020", "450.80.02"),
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build", "580.65.06"),
        (None, None),
    ],
)
@pytest.mark.parametrize("address", ["0000:3B:00.0", "00000000:3b:00.0"])
@pytest.mark.parametrize(("written", "node"), [("1", 1), ("-1", None), (None, None)])
def test_without_nvml_the_kernel_tells_of_the_driver_and_of_the_nearest_memory(
    version: str | None,
    driver: str | None,
    address: str,
    written: str | None,
    node: int | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    """Paddle's addresses are of the driver's form, PyTorch's of NVML's."""
    files = {
        "proc/driver/nvidia/version": version and f"NVRM version: {version}\nGCC version:\n",
        "sys/bus/pci/devices/0000:3b:00.0/numa_node": written and f"{written}\n",
    }
    for name, text in files.items():
        if text is not None:
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "Path", lambda name: tmp_path / name.removeprefix("/"))
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    found = machine.gpu(address, None)
    assert (found["driver"], found["numa_node"]) == (driver, node)


def test_nvml_has_every_function_that_is_asked_for() -> None:
    """By the names and with the numbers of arguments of the module that is installed."""
    import pynvml

    counts = {
        "nvmlInit": 0,
        "nvmlShutdown": 0,
        "nvmlSystemGetDriverVersion": 0,
        "nvmlDeviceGetHandleByPciBusId": 1,
        "nvmlDeviceGetHandleByUUID": 1,
        "nvmlDeviceGetEccMode": 1,
        "nvmlDeviceGetEnforcedPowerLimit": 1,
        "nvmlDeviceGetClockInfo": 2,
        "nvmlDeviceGetMaxClockInfo": 2,
        "nvmlDeviceGetCurrPcieLinkGeneration": 1,
        "nvmlDeviceGetCurrPcieLinkWidth": 1,
        "nvmlDeviceGetNvLinkState": 2,
        **dict.fromkeys(machine.CLOCK_REASONS, 1),
    }
    for name, count in counts.items():
        asked = inspect.signature(getattr(pynvml, name))
        asked.bind(*range(count))
    assert machine.NVLINKS >= pynvml.NVML_NVLINK_MAX_LINKS
    assert (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM) == (1, 2)


@pytest.fixture
def nccl_log(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """The file that NCCL was asked to write."""
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    log = machine.ask_nccl_for_its_transport()
    assert log is not None
    assert os.environ["NCCL_DEBUG_FILE"] == str(log)
    return log


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("h:1:2 [0] NCCL INFO Using network IB\nh:1:2 [0] NCCL INFO ...", "IB"),
        ("NCCL INFO Using network Socket", "Socket"),
        ("h:1:2 [0] NCCL INFO Using network AWS Libfabric\nh:1:2 [0] ...", "AWS Libfabric"),
        ("NCCL INFO Bootstrap: Using eth0", None),
        ("NCCL INFO Using network ", None),
    ],
)
def test_nccl_tells_its_network_and_its_log_goes(
    text: str, network: str | None, nccl_log: pathlib.Path
) -> None:
    nccl_log.write_text(text)
    assert machine.nccl_transport(nccl_log) == network
    assert not nccl_log.exists()


def test_a_log_that_nccl_did_not_write_is_no_answer(nccl_log: pathlib.Path) -> None:
    assert machine.nccl_transport(nccl_log) is None
    assert machine.nccl_transport(None) is None


def test_a_user_who_steers_nccls_log_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    assert machine.ask_nccl_for_its_transport() is None
    assert os.environ["NCCL_DEBUG"] == "WARN"


def test_tf32_is_off_for_all_libraries_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    machine.steer_tf32(False)
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "0"
    machine.steer_tf32(True)
    assert "NVIDIA_TF32_OVERRIDE" not in os.environ

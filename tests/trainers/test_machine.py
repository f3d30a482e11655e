"""What a trainer tells of its machine: facts or None."""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator

import pytest

from k8sbench.trainers.parts import machine, nvml
from tests.trainers import stand_in


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


Nvml = Callable[..., ctypes.CDLL]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Nvml:
    """Make the driver's library as a machine with one GPU has it; what is given is otherwise."""
    folder = tmp_path_factory.mktemp("nvml")

    def make(**given: object) -> ctypes.CDLL:
        name = "-".join(["nvml", *(f"{macro}={value}" for macro, value in given.items())])
        return ctypes.CDLL(str(stand_in.built(folder / f"{name}.so", **given)))

    return make


@pytest.fixture
def driver(compiled: Nvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nvml]:
    """Put the library where trainers find it; what they begin with it they also end."""
    libraries: list[ctypes.CDLL] = []

    def put(**given: object) -> ctypes.CDLL:
        libraries.append(compiled(**given))
        monkeypatch.setattr(nvml, "LIBRARY", libraries[-1]._name)
        return libraries[-1]

    yield put
    assert [library.users_left() for library in libraries] == [0] * len(libraries)


ADDRESS = stand_in.ADDRESS


def test_a_gpu_is_described_by_the_drivers_library_and_what_it_refuses_is_unknown(
    driver: Nvml,
) -> None:
    driver()
    found = machine.gpu(ADDRESS, None)
    assert set(found) == set(machine.GPU_FIELDS)
    told = {name: found[name] for name in ("driver", "ecc", "power_limit_w", "nvlinks")}
    assert told == {"driver": "570.1", "ecc": True, "power_limit_w": 300.0, "nvlinks": 5}
    assert (found["clock_sm_mhz"], found["clock_sm_max_mhz"]) == (None, 1530)
    assert (found["clock_memory_mhz"], found["clock_memory_max_mhz"]) == (876, 877)
    assert (found["pcie_generation"], found["pcie_width"]) == (3, 16)


@pytest.mark.parametrize("name", nvml.CLOCK_REASONS)
def test_a_throttled_clock_is_reported_by_old_drivers_and_by_new_ones(
    name: str, driver: Nvml
) -> None:
    driver(REASONS=name)
    assert machine.gpu(ADDRESS, None)["throttle_reasons"] == 1 << 40 | 4  # 64 bits


@pytest.mark.parametrize("uuid", ["8c6f", "GPU-8c6f"])
@pytest.mark.parametrize("address", [None, ADDRESS])
def test_a_gpu_whose_address_nvml_does_not_know_is_found_by_its_uuid(
    uuid: str, address: str | None, driver: Nvml
) -> None:
    driver(KNOWS_ADDRESS=0)
    assert machine.gpu(address, uuid)["power_limit_w"] == 300.0


@pytest.mark.parametrize(("address", "uuid"), [(None, None), (ADDRESS, "8c6f")])
def test_of_a_gpu_that_nvml_does_not_know_only_the_driver_is_reported(
    address: str | None, uuid: str | None, driver: Nvml
) -> None:
    driver(KNOWS_ADDRESS=0, KNOWS_UUID=0)
    found = machine.gpu(address, uuid)
    assert set(found) == set(machine.GPU_FIELDS)
    assert {name for name in found if found[name] is not None} <= {"driver", "numa_node"}
    assert found["driver"] == "570.1"


def test_a_library_without_its_driver_tells_nothing(driver: Nvml) -> None:
    driver(DRIVER_LOADED=0)
    found = machine.gpu(ADDRESS, "8c6f")
    assert {name for name in found if found[name] is not None} <= {"driver", "numa_node"}


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
    monkeypatch.setattr(nvml, "LIBRARY", "libno-such-library.so.1")
    found = machine.gpu(address, None)
    assert (found["driver"], found["numa_node"]) == (driver, node)


def test_the_constants_are_those_of_nvml() -> None:
    import pynvml

    assert machine.NVLINKS >= pynvml.NVML_NVLINK_MAX_LINKS
    assert (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM) == (nvml.CLOCK_SM, nvml.CLOCK_MEMORY)
    assert len(ctypes.create_string_buffer(pynvml.NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE)) == 80


CALLS = re.findall(r"\bnvml(?:Init|Shutdown|System|Device)\w*", inspect.getsource(nvml))


@pytest.mark.parametrize("name", CALLS)
def test_every_call_has_a_name_that_nvmls_own_module_knows(name: str) -> None:
    import pynvml

    own = pathlib.Path(inspect.getsourcefile(pynvml) or "").read_text()
    # Its own initialization is by another call than the usual one.
    assert re.search(rf"\b{name.removesuffix('_v2')}\b", own)


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

"""A trainer's facts of its machine, or None."""

import inspect
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator

import pytest

from k8sbench.trainers import gpt
from k8sbench.trainers.parts import machine, nvml, settings
from k8sbench.trainers.parts.settings import Settings
from tests.trainers import stand_in
from tests.trainers.conftest import Nvml


def test_the_machine_is_described_in_words_that_json_knows() -> None:
    found = machine.describe()
    assert json.loads(json.dumps(found)) == found
    assert found["host"]
    assert found["cpus"] == len(os.sched_getaffinity(0))
    assert found["kernel"] == os.uname().release
    assert isinstance(found["ram_gib"], int)
    for name in (*machine.FRAMEWORK_FIELDS, *machine.GPU_FIELDS):
        assert found[name] is None


ADDRESS = stand_in.ADDRESS


def test_the_driver_describes_a_gpu_and_the_rest_is_unknown(driver: Nvml) -> None:
    driver()
    found = machine.gpu(ADDRESS, None)
    assert set(found) == set(machine.GPU_FIELDS)
    told = {name: found[name] for name in ("driver", "ecc", "power_limit_w", "nvlinks")}
    assert told == {"driver": "570.1", "ecc": True, "power_limit_w": 300.0, "nvlinks": 5}
    assert (found["clock_sm_mhz"], found["clock_sm_max_mhz"]) == (None, 1530)
    assert (found["clock_memory_mhz"], found["clock_memory_max_mhz"]) == (876, 877)
    assert (found["pcie_generation"], found["pcie_width"]) == (3, 16)
    assert found["throttle_reasons"] == 1 << 40 | 4  # 64 bits


@pytest.mark.parametrize("uuid", ["8c6f", "GPU-8c6f"])
@pytest.mark.parametrize("address", [None, ADDRESS])
def test_a_gpu_is_found_by_its_uuid(uuid: str, address: str | None, driver: Nvml) -> None:
    driver(KNOWS_ADDRESS=0)
    assert machine.gpu(address, uuid)["power_limit_w"] == 300.0


@pytest.mark.parametrize(("address", "uuid"), [(None, None), (ADDRESS, "8c6f")])
def test_of_a_gpu_that_nvml_does_not_know_only_the_driver_is_reported(
    address: str | None, uuid: str | None, driver: Nvml
) -> None:
    driver(KNOWS_ADDRESS=0, KNOWS_UUID=0)
    found = machine.gpu(address, uuid)
    assert set(found) == set(machine.GPU_FIELDS)
    assert {name: told for name, told in found.items() if told is not None} == {"driver": "570.1"}


def test_a_library_without_its_driver_tells_nothing(driver: Nvml) -> None:
    driver(DRIVER_LOADED=0)
    assert machine.gpu(ADDRESS, "8c6f") == dict.fromkeys(machine.GPU_FIELDS)


CALLS = re.findall(r"\bnvml(?:Init|Shutdown|System|Device)\w*", inspect.getsource(nvml))


@pytest.mark.parametrize("name", CALLS)
def test_every_call_has_a_name_that_nvmls_own_module_knows(name: str) -> None:
    import pynvml

    own = pathlib.Path(inspect.getsourcefile(pynvml) or "").read_text()
    # Its own initialization is by another call than the usual one.
    assert re.search(rf"\b{name.removesuffix('_v2')}\b", own)


LEVELS = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")


class Nccl:
    """Fake NCCL, which opens its log on connecting and keeps it open."""

    def __init__(self) -> None:
        self.said = ""
        self.asked: dict[str, str] = {}
        self.log: int | None = None

    def __call__(self) -> None:
        self.asked = {name: os.environ[name] for name in LEVELS}
        self.log = os.open(self.asked["NCCL_DEBUG_FILE"], os.O_WRONLY | os.O_CREAT, 0o600)
        self.say(self.said)

    def say(self, text: str) -> None:
        """Write without a buffer, as NCCL does."""
        assert self.log is not None
        os.write(self.log, text.encode())


@pytest.fixture
def nccl() -> Iterator[Nccl]:
    library = Nccl()
    yield library
    if library.log is not None:
        os.close(library.log)


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of NCCL's log, in an environment that says nothing of it."""
    for name in LEVELS:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return tmp_path


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
@pytest.mark.parametrize("level", [None, "VERSION", "warn", "INFO", "TRACE"])
def test_nccl_tells_its_network_whatever_level_a_pool_sets_and_its_file_goes(
    text: str,
    network: str | None,
    level: str | None,
    nccl: Nccl,
    monkeypatch: pytest.MonkeyPatch,
    temporary: pathlib.Path,
) -> None:
    if level is not None:
        monkeypatch.setenv("NCCL_DEBUG", level)
    nccl.said = text
    assert machine.connect_by_nccl(nccl) == network
    assert nccl.asked["NCCL_DEBUG"] == (level if level in ("INFO", "TRACE") else "INFO")
    assert not list(temporary.iterdir())


def test_a_log_that_nccl_did_not_write_is_no_answer() -> None:
    def failing() -> None:
        raise OSError("of its own")

    assert machine.connect_by_nccl(lambda: None) is None
    with pytest.raises(OSError, match="of its own"):
        machine.connect_by_nccl(failing)


def test_a_file_that_a_user_names_for_nccl_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG_FILE", "/of/the/user")
    assert machine.connect_by_nccl(lambda: None) is None
    assert (os.environ["NCCL_DEBUG_FILE"], "NCCL_DEBUG" in os.environ) == ("/of/the/user", False)


@pytest.mark.parametrize(
    ("preset", "given", "expected"),
    [("smoke", None, "PASSIVE"), ("smoke", "ACTIVE", "ACTIVE"), ("full", None, None)],
)
@pytest.mark.parametrize("before", [machine.before_torch, machine.before_paddle])
def test_waiting_threads_of_a_smoke_run_sleep_unless_the_environment_says_otherwise(
    before: Callable[[Settings], None],
    preset: str,
    given: str | None,
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    common, _ = settings.read("gpt", "Text.", gpt.DEFAULTS, argv=["--preset", preset])
    before(common)
    assert os.environ.get("OMP_WAIT_POLICY") == expected


def test_tf32_is_off_for_all_libraries_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    machine.steer_tf32(False)
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "0"
    machine.steer_tf32(True)
    assert "NVIDIA_TF32_OVERRIDE" not in os.environ

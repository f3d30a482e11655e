"""Session setup before the first step: batch norm, TF32, half precision."""

import contextlib
import functools
import os
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest

from k8sbench.trainers.parts import samples, settings
from k8sbench.trainers.parts import session as session_part
from k8sbench.trainers.parts.events import RankPlace
from tests.harness import children
from tests.trainers import compressing
from tests.trainers.checks import read, session
from tests.trainers.runs import environment, part, refuse

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]

on_each = pytest.mark.parametrize("framework", ["pytorch", "paddle"])


ALL_HERE = types.SimpleNamespace(add=lambda *_: sys.maxsize)
"""A store of keys at which all ranks have come."""


@pytest.fixture
def torch_session(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = part("pytorch")
    for module in (session_part, found):
        monkeypatch.setattr(module, "refuse", refuse)
    return found


@pytest.fixture
def paddle_session(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = part("paddle")
    monkeypatch.setattr(session_part, "refuse", refuse)
    return found


def visible(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Make PyTorch see one GPU."""
    one = {"is_available": lambda: True, "device_count": lambda: 1, "set_device": lambda *_: None}
    for name, answer in {**one, **more}.items():
        monkeypatch.setattr(f"torch.cuda.{name}", answer)


def test_zlib_works_in_a_trainer_on_paddle_which_brings_its_own() -> None:
    subprocess.run(children.command(compressing.compress), env=environment(), check=True)


@on_each
def test_batch_norm_is_synchronised_only_as_upstream(framework: str) -> None:
    assert session(framework, 0, 2).synchronises(True)
    assert not session(framework, 0, 2).synchronises(False)
    assert not session(framework, 0, 1).synchronises(True)
    assert not session(framework, None, 2).synchronises(True)


def test_bf16_needs_a_gpu_with_it(torch_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = "Tesla V100-SXM2-32GB"
    visible(monkeypatch, get_device_name=lambda *_: model)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda emulated=True: emulated)
    with pytest.raises(SystemExit, match=f"{model} has no arithmetic for it; use fp16"):
        torch_session.open_session(read("--amp-dtype", "bf16"))
    assert torch_session.open_session(read("--amp-dtype", "fp16")).on_gpu


def on_one_gpu(
    torch_session: Any, monkeypatch: pytest.MonkeyPatch, local_rank: int, *argv: str
) -> Any:
    """Return PyTorch's session of one of two ranks that share one GPU."""
    visible(monkeypatch)
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, str(local_rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    return torch_session.open_session(read(*argv))


def test_ranks_share_a_gpu_by_gloo(torch_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL fails where two ranks share a GPU."""
    joined: list[tuple[Any, Any]] = []

    def join(backend: str, *, device_id: Any, **_: Any) -> None:
        joined.append((backend, device_id))

    monkeypatch.setattr("torch.distributed.init_process_group", join)
    monkeypatch.setattr(torch_session.TorchSession, "store", ALL_HERE)
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"):
        monkeypatch.setenv(name, "")  # so that it is put back
    with pytest.raises(SystemExit, match=r"local rank 1 has no GPU: 1 are visible"):
        on_one_gpu(torch_session, monkeypatch, 1)
    second = on_one_gpu(torch_session, monkeypatch, 1, "--share-gpu")
    assert (second.device.type, second.device.index) == ("cuda", 0)
    second.connect()
    assert (second.backend, second.transport) == ("gloo", "socket")
    assert second.settings.speed_options()["share_gpu"] is True
    first = on_one_gpu(torch_session, monkeypatch, 0)
    first.connect()
    assert (first.backend, first.transport) == ("nccl", None)
    assert "share_gpu" not in first.settings.speed_options()
    assert joined == [("gloo", None), ("nccl", first.device)]


class FakeDriver:
    """Fake libcuda.so of two GPUs; `old` lacks additions of CUDA 11.4."""

    IDENTITY = ("0000:3b:00.0", "00010203-0405-0607-0809-0a0b0c0d0e0f")

    def __init__(self, *, old: bool = False) -> None:
        self.index = -1
        if not old:
            self.cuDeviceGetUuid_v2 = self.cuDeviceGetUuid

    def cuInit(self, _: int) -> int:
        return 0

    def cuDeviceGet(self, _: Any, index: int) -> int:
        self.index = index
        return 0 if index < 2 else 101

    def cuDeviceGetPCIBusId(self, text: Any, length: int, _: Any) -> int:
        text.value = b"0000:3b:00.0"[:length]
        return 0

    def cuDeviceGetUuid(self, uuid: Any, _: Any) -> int:
        uuid[:] = range(16)
        return 0


@pytest.mark.parametrize("old", [True, False])
def test_paddle_learns_from_the_driver_which_gpu_it_has(
    old: bool, paddle_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver(old=old)
    monkeypatch.setattr("ctypes.CDLL", lambda _: driver)
    assert paddle_session.machine.cuda_identity(1) == FakeDriver.IDENTITY
    assert driver.index == 1
    assert paddle_session.machine.cuda_identity(2) == (None, None)

    def missing(_: str) -> None:
        raise OSError("cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert paddle_session.machine.cuda_identity(1) == (None, None)


@on_each
def test_a_session_reports_its_own_gpu(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from k8sbench.trainers.parts import machine

    found = types.SimpleNamespace(
        name="Tesla V100-SXM2-32GB",
        major=7,
        minor=0,
        total_memory=34_089_730_048,
        uuid="8c6f1a2b-0001-0002-0003-000000000004",
        pci_domain_id=0,
        pci_bus_id=0x3B,
        pci_device_id=0,
    )
    identity, cuda = ("00000000:3b:00.0", found.uuid), "torch.cuda"
    if framework == "paddle":
        identity, cuda = FakeDriver.IDENTITY, "paddle.device.cuda"
        monkeypatch.setattr("ctypes.CDLL", lambda _: FakeDriver())
    here = session(framework, 1)
    asked: list[object] = []

    def nvml(*identity: object) -> dict[str, None]:
        asked.append(identity)
        return dict.fromkeys(machine.GPU_FIELDS)

    monkeypatch.setattr(machine, "gpu", nvml)
    monkeypatch.setattr(f"{cuda}.get_device_properties", lambda _: found)
    monkeypatch.setattr(f"{cuda}.max_memory_allocated", lambda _: 3 << 20)
    about = here.environment()
    assert set(about) == set(machine.describe())
    named = ("gpu_model", "gpu_index", "gpu_uuid", "gpu_memory_mib", "gpu_compute_capability")
    told = [about[name] for name in named]
    assert told == ["Tesla V100-SXM2-32GB", 1, identity[1], 32510, "7.0"]
    assert asked == [identity]
    assert here.memory_mib() == 3.0


@pytest.fixture
def four_gpus(paddle_session: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The flags of a Paddle that sees four GPUs."""
    flags: dict[str, object] = {}
    monkeypatch.setattr("paddle.is_compiled_with_cuda", lambda: True)
    monkeypatch.setattr("paddle.device.cuda.device_count", lambda: 4)
    monkeypatch.setattr("paddle.set_device", lambda _: None)
    monkeypatch.setattr("paddle.set_flags", flags.update)
    return flags


@pytest.mark.parametrize("asked", [True, False])
def test_paddle_looks_for_cudnns_best_algorithms_and_takes_tf32_if_it_is_asked_to(
    asked: bool, four_gpus: dict[str, object], paddle_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paddle.base import core

    switches: dict[str, bool] = {}
    for name in ("set_cublas_switch", "set_cudnn_switch"):
        told = functools.partial(switches.__setitem__, name)
        monkeypatch.setattr(core, name, told, raising=False)
    options = ("--tf32",) if asked else ("--no-cudnn-benchmark",)
    assert paddle_session.open_session(read("--device", "cuda", *options)).index == 0
    assert four_gpus == {"FLAGS_cudnn_exhaustive_search": asked}
    assert switches == {"set_cublas_switch": asked, "set_cudnn_switch": asked}


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("flags", "backend", "local_rank", "gpu"),
    [
        ("", "", 2, 2),
        ("3", "", 0, 3),
        ("0,1", "", 0, 0),  # a launcher's only rank, of two GPUs
        ("4", "", 0, "local rank 0 has no GPU: 4 are visible"),
        ("", "", 4, "local rank 4 has no GPU: 4 are visible"),
        ("", "gloo", 0, None),  # the launcher was told to see none
    ],
)
def test_a_rank_of_paddles_takes_the_gpu_that_the_launcher_gave_it_or_that_of_its_number(
    flags: str,
    backend: str,
    local_rank: int,
    gpu: int | str | None,
    paddle_session: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLAGS_selected_gpus", flags)
    monkeypatch.setenv("PADDLE_DISTRI_BACKEND", backend)
    place = {"TRAINER_ID": local_rank, "RANK_IN_NODE": local_rank, "TRAINERS_NUM": 8}
    for name, number in place.items():
        monkeypatch.setenv(f"PADDLE_{name}", str(number))
    if isinstance(gpu, str):
        with pytest.raises(SystemExit, match=gpu):
            paddle_session.open_session(read())
    else:
        assert paddle_session.open_session(read()).index == gpu


@on_each
def test_amp_that_has_no_effect_is_called_fp32(
    framework: str, torch_session: Any, paddle_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def effective(amp: str) -> str:
        opened = {"pytorch": torch_session, "paddle": paddle_session}[framework].open_session
        return str(opened(read("--device", "cpu", "--amp-dtype", amp)).precision_effective)

    of_cpu = "amp" if framework == "pytorch" else "fp32"
    assert list(map(effective, settings.AMP_DTYPES)) == ["fp32", of_cpu, of_cpu]
    monkeypatch.setattr("torch.autocast", lambda *_, **__: contextlib.nullcontext())
    assert effective("bf16") == "fp32"


@pytest.mark.parametrize(
    ("batch_size", "synced", "refused"), [(1, False, True), (1, True, False), (2, False, False)]
)
def test_batch_norm_needs_two_samples_wherever_they_are(
    batch_size: int, synced: bool, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from k8sbench.trainers.parts import loop

    monkeypatch.setattr(loop, "refuse", refuse)
    begun: list[object] = []
    here: Any = types.SimpleNamespace(
        settings=read("--batch-size", str(batch_size)),
        place=RankPlace(3, 3, 8),
        synchronises=lambda sync_bn: sync_bn and synced,
        begin=lambda *about: begun.append(about),
        precision_effective="fp32",
    )
    work: Any = types.SimpleNamespace(
        sync_bn=True, norm_batch=2, per_sample=1, accumulate=1, files=None, unit="images/s"
    )
    work.amp_types = None
    with pytest.raises(SystemExit, match="at least 2") if refused else contextlib.nullcontext():
        loop.begin(work, here, {"classes": 19})
    assert bool(begun) is not refused


class Pictures:
    """Samples of 1 MiB."""

    def __getitem__(self, number: int) -> Any:
        return samples.Read(number, (np.zeros((1, 1024, 1024), np.uint8), np.zeros((), int)), ())


@on_each
@pytest.mark.parametrize(
    ("size", "free", "workers", "fits"),
    [
        (
            40,
            40,
            1,
            True,
        ),  # MiB; a loader keeps 4 batches of 4 samples, on each of two ranks 16 MiB
        (31, 31, 1, False),
        (40, 15, 1, False),
        (40, 40, 2, False),
        (1, 1, 0, True),  # the trainer reads by itself
    ],
)
def test_a_dev_shm_that_is_too_small_is_named_before_a_loader_starts(
    framework: str,
    size: int,
    free: int,
    workers: int,
    fits: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from k8sbench.trainers.parts import session as sessions

    here = session(framework, None, 2, "--workers", str(workers), "--device", "cpu")
    monkeypatch.setattr(sessions, "refuse", refuse)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("PADDLE_LOCAL_SIZE", "2")
    found = types.SimpleNamespace(f_frsize=2**20, f_blocks=size, f_bavail=free)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    told = contextlib.nullcontext() if fits else pytest.raises(SystemExit, match="a larger `shm`")
    with told:
        here.files(Pictures(), [[0, 1, 2, 3]] * 9)


def test_a_loader_process_of_pytorchs_that_cannot_pass_on_a_batch_ends_and_says_so(
    capfd: pytest.CaptureFixture[str], torch_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer would wait for the batch for ever."""
    monkeypatch.setattr(torch_session, "_collate", lambda _: lambda: None)  # which has no pickle
    here = session("pytorch", None, 1, "--workers", "1")
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        next(iter(here.loader(Pictures(), [[0]])))
    said = capfd.readouterr().err
    assert "k8sbench: failed: a loader process cannot pass on a batch: " in said
    assert "a larger `shm`" in said

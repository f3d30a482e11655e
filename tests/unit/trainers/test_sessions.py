"""What a session settles before the first step: synchronised batch norm, TF32, half precision."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any

import pytest

from k8sbench.trainers.parts import settings
from k8sbench.trainers.parts.events import Place
from tests.unit.trainers.paddle_runs import import_paddle

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]

DEFAULTS = settings.Defaults(benchmark="b", recipes=("v",), batch_size=2)


def read(*argv: str) -> settings.Settings:
    return settings.read("b", "", DEFAULTS, None, argv)[0]


def session(framework: str, device: str, ranks: int) -> Any:
    place = Place(rank=0, local_rank=0, world_size=ranks)
    if framework == "pytorch":
        import torch

        from k8sbench.trainers.parts import torch_session

        return torch_session.Session(read(), place, torch.device(device))
    import_paddle()
    from k8sbench.trainers.parts import paddle_session

    return paddle_session.Session(read(), place, {"cuda": "gpu:0"}.get(device, device))


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_batch_norm_is_synchronised_on_several_gpus_only_and_where_upstream_does(
    framework: str,
) -> None:
    assert session(framework, "cuda", 2).synchronises(True)
    assert not session(framework, "cuda", 2).synchronises(False)
    assert not session(framework, "cuda", 1).synchronises(True)
    assert not session(framework, "cpu", 2).synchronises(True)


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_the_environment_has_the_same_fields_on_both_frameworks(framework: str) -> None:
    from k8sbench.trainers.parts import machine

    found = session(framework, "cpu", 1).environment()
    assert set(found) == set(machine.describe())
    assert (found["world_size"], found["transport"], found["gpu_model"]) == (1, None, None)
    assert found["framework_version"]


@pytest.mark.parametrize("asked", [True, False])
def test_tf32_is_off_unless_asked_for(asked: bool) -> None:
    import torch

    from k8sbench.trainers.parts import torch_session

    options = read("--device", "cpu", *(("--tf32",) if asked else ()))
    torch_session.open_session(options)
    assert torch.backends.cudnn.allow_tf32 is asked
    assert torch.backends.cuda.matmul.allow_tf32 is asked
    assert options.speed_options()["tf32"] is asked


def test_bf16_is_refused_on_a_gpu_that_would_emulate_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from k8sbench.trainers.parts import torch_session

    def refuse(message: str) -> None:
        raise SystemExit(message)

    answers = {
        "is_available": True,
        "device_count": 1,
        "set_device": None,
        "get_device_name": "Tesla V100-SXM2-32GB",
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda emulated=True: emulated)
    monkeypatch.setattr(torch_session, "refuse", refuse)
    with pytest.raises(SystemExit, match="Tesla V100-SXM2-32GB has no arithmetic for it; use fp16"):
        torch_session.open_session(read("--amp-dtype", "bf16"))
    assert torch_session.open_session(read("--amp-dtype", "fp16")).on_gpu


def on_one_gpu(monkeypatch: pytest.MonkeyPatch, local_rank: int, *argv: str) -> Any:
    """A session of PyTorch's on a machine with one GPU, for one of two ranks there."""
    import torch

    from k8sbench.trainers.parts import torch_session

    def refuse(message: str) -> None:
        raise SystemExit(message)

    for name, answer in {"is_available": True, "device_count": 1, "set_device": None}.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(torch_session, "refuse", refuse)
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, str(local_rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    defaults = dataclasses.replace(DEFAULTS, shares_gpu=True)
    return torch_session.open_session(settings.read("b", "", defaults, None, argv)[0])


def test_ranks_share_a_gpu_only_if_they_are_told_to_and_then_by_gloo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NCCL, which a GPU of one's own is for, ends with an error where two ranks have the same."""
    from torch import distributed

    joined: list[tuple[Any, Any]] = []

    def join(backend: str, *, device_id: Any, **_: Any) -> None:
        joined.append((backend, device_id))

    monkeypatch.setattr(distributed, "init_process_group", join)
    monkeypatch.setenv("NCCL_DEBUG", "WARN")  # so that its log is not asked for
    with pytest.raises(SystemExit, match=r"local rank 1 has no GPU: 1 are visible.*--share-gpu"):
        on_one_gpu(monkeypatch, 1)
    second = on_one_gpu(monkeypatch, 1, "--share-gpu")
    assert (second.device.type, second.device.index) == ("cuda", 0)
    second.connect()
    assert (second.backend, second.transport) == ("gloo", "socket")
    assert second.settings.speed_options()["share_gpu"] is True
    first = on_one_gpu(monkeypatch, 0)
    first.connect()
    assert (first.backend, first.transport) == ("nccl", None)
    assert "share_gpu" not in first.settings.speed_options()
    assert joined == [("gloo", None), ("nccl", first.device)]


class FakeDriver:
    """libcuda.so as a machine with two GPUs has it; `old` lacks what came with CUDA 11.4."""

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
    old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_paddle()
    from k8sbench.trainers.parts import paddle_session

    driver = FakeDriver(old=old)
    monkeypatch.setattr("ctypes.CDLL", lambda _: driver)
    address, uuid = paddle_session._cuda_identity(1)
    assert (address, uuid) == ("0000:3b:00.0", "00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert driver.index == 1
    assert paddle_session._cuda_identity(2) == (None, None)


def test_paddle_is_told_which_gpu_is_the_ranks_and_asked_about_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Left to itself it takes the first GPU for every rank, or refuses to begin."""
    import_paddle()
    import paddle

    from k8sbench.trainers.parts import paddle_session

    class Properties:
        name, major, minor, total_memory = "Tesla V100-SXM2-32GB", 7, 0, 34_089_730_048

    asked = []

    def properties(device: str) -> type[Properties]:
        asked.append(device)
        return Properties

    for name in ("NCCL_DEBUG", "FLAGS_selected_gpus", "PADDLE_DISTRI_BACKEND"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(paddle.device.cuda, "get_device_properties", properties)
    monkeypatch.setattr(paddle.device.cuda, "max_memory_allocated", lambda _: 3 << 20)
    monkeypatch.setattr(paddle.distributed, "init_parallel_env", lambda: None)
    monkeypatch.setattr(paddle.distributed, "barrier", lambda: None)
    monkeypatch.setattr("ctypes.CDLL", lambda _: FakeDriver())
    place = Place(rank=0, local_rank=1, world_size=2)
    here = paddle_session.Session(read(), place, "gpu:1")
    here.connect()
    told = [os.environ[name] for name in ("FLAGS_selected_gpus", "PADDLE_DISTRI_BACKEND")]
    assert told == ["1", "nccl"]
    about = here.environment()
    assert asked == ["gpu:1"]
    named = ("gpu_model", "gpu_index", "gpu_memory_mib", "gpu_compute_capability")
    assert [about[name] for name in named] == ["Tesla V100-SXM2-32GB", 1, 32510, "7.0"]
    assert here.memory_mib() == 3.0


@pytest.mark.parametrize("asked", [True, False])
def test_paddle_looks_for_cudnns_best_algorithms_and_takes_tf32_if_it_is_told_to(
    asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_paddle()
    import paddle
    from paddle.base import core

    from k8sbench.trainers.parts import paddle_session

    flags: dict[str, object] = {}
    switches: dict[str, bool] = {}
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: True)
    monkeypatch.setattr(paddle.device.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(paddle, "set_device", lambda _: None)
    monkeypatch.setattr(paddle, "set_flags", flags.update)
    for name in ("set_cublas_switch", "set_cudnn_switch"):
        told = functools.partial(switches.__setitem__, name)
        monkeypatch.setattr(core, name, told, raising=False)
    options = ("--tf32",) if asked else ("--no-cudnn-benchmark",)
    here = paddle_session.open_session(read("--device", "cuda", *options))
    assert here.device == "gpu:0"
    assert flags == {"FLAGS_cudnn_exhaustive_search": asked}
    assert switches == {"set_cublas_switch": asked, "set_cudnn_switch": asked}


class Elsewhere:
    """A session of one rank among eight GPUs, as far as `begin` asks."""

    def __init__(self, batch_size: int, *, synced: bool) -> None:
        self.settings = read("--batch-size", str(batch_size))
        self.place = Place(rank=3, local_rank=3, world_size=8)
        self.synced = synced
        self.device_kind, self.precision_effective = "cuda", "fp32"

    def synchronises(self, sync_bn: bool) -> bool:
        return sync_bn and self.synced

    def connect(self) -> None:
        pass

    def environment(self) -> dict[str, object]:
        return {}


@pytest.mark.parametrize(
    ("batch_size", "synced", "refused"), [(1, False, True), (1, True, False), (2, False, False)]
)
def test_batch_norm_needs_two_samples_wherever_they_are(
    batch_size: int,
    synced: bool,
    refused: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from k8sbench.trainers.parts import lines, loop, schedules

    def refuse(message: str) -> None:
        raise SystemExit(message)

    monkeypatch.setattr(loop, "refuse", refuse)
    work = loop.Work(
        unit="samples",
        momentum=0.9,
        weight_decay=0.0,
        schedule=schedules.constant(0.1),
        line=lines.mmseg,
        sync_bn=True,
        norm_batch=2,
    )
    here: Any = Elsewhere(batch_size, synced=synced)
    told: dict[str, Any] = {"framework": "pytorch", "framework_version": "2", "options": {}}
    if refused:
        with pytest.raises(SystemExit, match="at least 2"):
            loop.begin(work, here, **told)
        assert capfd.readouterr().out == ""
    else:
        loop.begin(work, here, **told)
        assert capfd.readouterr().out.startswith('K8SBENCH {"event": "start"')

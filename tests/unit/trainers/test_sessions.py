"""What a session settles before the first step: synchronised batch norm, TF32, half precision."""

from __future__ import annotations

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

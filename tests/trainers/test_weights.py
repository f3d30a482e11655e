"""Published weights fill our models' backbones, and compute there what they compute upstream."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pathlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from k8sbench.cli.main import main
from k8sbench.trainers import convert_weights
from k8sbench.trainers.parts import settings, weights
from k8sbench.trainers.parts.weights import Loaded, WeightsError
from tests.trainers import paddle_runs, published, torch_runs
from tests.trainers.either_checks import noted_runs
from tests.trainers.paddle_runs import import_paddle
from tests.trainers.torch_runs import Captured, only, refuse

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore")]
IMAGES = np.random.default_rng(3).standard_normal((2, 3, 64, 64), dtype=np.float32)
PLAIN = ((1, 1, 1), (1, 1, 1, 1), (1,) * 6, (1, 1, 1))
# DeepLabV3+ in mmsegmentation: the first block of a dilated stage has half of its dilation.
MMSEG = ((1, 1, 1), (1, 1, 1, 1), (1, 2, 2, 2, 2, 2), (2, 4, 4))
PADDLESEG = ((1, 1, 1), (1, 1, 1, 1), (2,) * 6, (4, 8, 16))
DILATED = (1, 2, 1, 1)
HEAD = ("branches", "decoder", "low_level", "pooled", "project")
NORM = ["weight", "bias", "running_mean", "running_var"]


def converted(kind: str, folder: pathlib.Path, found: published.Tensors) -> pathlib.Path:
    _, arrays = convert_weights.convert(found)
    np.savez(folder / f"{kind}.npz", **arrays)
    return folder / f"{kind}.npz"


def into_torch(path: pathlib.Path, model: Any) -> Loaded:
    import torch

    return weights.load(path, model.state_dict(), lambda t, array: t.copy_(torch.from_numpy(array)))


def into_paddle(path: pathlib.Path, model: Any) -> Loaded:
    return weights.load(path, model.state_dict(), lambda tensor, array: tensor.set_value(array))


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        bound = 1e-4 * float(other.abs().max())
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=0, atol=bound)


def test_mmsegs_backbone_computes_the_same_here(tmp_path: pathlib.Path) -> None:
    import torch

    from k8sbench.trainers.models.deeplabv3plus_torch import DeepLabV3Plus

    found = published.tensors("mmseg")
    model = DeepLabV3Plus(width_divisor=8).eval()
    told = into_torch(converted("mmseg", tmp_path, found), model)
    assert (told.loaded, told.left) == (5 * 55, ("auxiliary", "head"))
    with torch.no_grad():
        ours = model.backbone(torch.from_numpy(IMAGES))
    assert_same(ours, published.features("mmseg", found, IMAGES, DILATED, MMSEG))


@pytest.mark.parametrize(
    ("kind", "model_of", "dilations", "left"),
    [
        ("mmseg", "deeplabv3plus_paddle.DeepLabV3Plus", MMSEG, ("auxiliary", *HEAD)),
        ("paddleseg", "deeplabv3p_paddle.DeepLabV3P", PADDLESEG, HEAD),
    ],
)
def test_a_backbone_computes_the_same_in_paddle(
    kind: str,
    model_of: str,
    dilations: tuple[tuple[int, ...], ...],
    left: tuple[str, ...],
    tmp_path: pathlib.Path,
) -> None:
    import_paddle()
    import paddle

    found = published.tensors(kind)
    module, _, name = model_of.partition(".")
    models = importlib.import_module(f"k8sbench.trainers.models.{module}")
    model = getattr(models, name)(width_divisor=8)
    model.eval()
    told = into_paddle(converted(kind, tmp_path, found), model)
    assert (told.loaded, told.left) == (5 * 55, left)
    with paddle.no_grad():
        ours = model.backbone(paddle.to_tensor(IMAGES))
    averaged = kind == "paddleseg"
    theirs = published.features(kind, found, IMAGES, DILATED, dilations, averaged=averaged)
    assert_same(ours, theirs)


def test_torchvisions_network_computes_the_same_here(tmp_path: pathlib.Path) -> None:
    import torch

    from k8sbench.trainers.models.resnet_torch import Classifier

    found = published.tensors("torchvision")
    model = Classifier(10, width_divisor=8).eval()
    told = into_torch(converted("torchvision", tmp_path, found), model)
    assert (told.loaded, told.left) == (5 * 53 + 2, ())
    *_, last = published.features("torchvision", found, IMAGES, (1, 2, 2, 2), PLAIN)
    theirs = last.mean((2, 3)).numpy() @ found["fc.weight"].T + found["fc.bias"]
    with torch.no_grad():
        ours = model(torch.from_numpy(IMAGES)).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    # Of other classes only the backbone is taken.
    assert into_torch(tmp_path / "torchvision.npz", Classifier(7, width_divisor=8)).left == ("fc",)


def test_tsm_starts_from_torchvisions_backbone_and_a_new_classifier(tmp_path: pathlib.Path) -> None:
    from k8sbench.trainers.models.tsm_torch import TSM

    found = published.tensors("torchvision")
    model = TSM(10, width_divisor=8)
    start = model.frames.fc.weight.clone()
    told = into_torch(converted("torchvision", tmp_path, found), model)
    assert (told.loaded, told.left) == (5 * 53, ("fc",))
    assert bool((model.frames.fc.weight == start).all())
    block = model.frames.backbone.stages[1][2]
    convolution, norm = block.spatial[:2]
    np.testing.assert_array_equal(convolution.weight.detach(), found["layer2.2.conv2.weight"])
    for leaf in NORM:
        loaded = getattr(norm, leaf).detach()
        np.testing.assert_array_equal(loaded, found[f"layer2.2.bn2.{leaf}"])


@pytest.mark.parametrize("kind", published.NAMES)
def test_published_shapes_are_those_of_the_full_models(kind: str) -> None:
    import torch

    from k8sbench.trainers.models import deeplabv3plus_torch, resnet_torch

    _, arrays = convert_weights.convert(published.tensors(kind, divisor=1, classes=1000))
    with torch.device("meta"):
        model = (
            resnet_torch.Classifier()
            if kind == "torchvision"
            else deeplabv3plus_torch.DeepLabV3Plus()
        )
    shapes = {
        weights.neutral(name, each.dim()) or name: tuple(each.shape)
        for name, each in model.state_dict().items()
    }
    shapes["fc.weight"], shapes["fc.bias"] = (1000, 2048), (1000,)
    assert {name: shapes[name] for name in arrays} == {n: a.shape for n, a in arrays.items()}


Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program on these arguments: what it prints, and what it refuses."""

    def start(*arguments: object) -> tuple[str, str]:
        refused = ""
        try:
            convert_weights.main([*map(str, arguments)])
        except SystemExit as error:
            refused = str(error)
        return capsys.readouterr().out, refused

    monkeypatch.setattr(settings, "refuse", refuse)
    return start


@pytest.mark.parametrize(("kind", "suffix"), [("mmseg", "pth"), ("paddleseg", "pdparams")])
def test_the_program_converts_what_has_the_digest_of_its_name(
    kind: str, suffix: str, tmp_path: pathlib.Path, run: Run
) -> None:
    source = published.write(kind, tmp_path / "plain", published.tensors(kind))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    named = source.rename(tmp_path / f"resnet50-{digest[:8]}.{suffix}")
    told, refused = run(named, tmp_path / "out.npz")
    assert refused == ""
    assert json.loads(told) == {
        "kind": kind,
        "tensors": 5 * 55 + 2,
        "digest": hashlib.sha256((tmp_path / "out.npz").read_bytes()).hexdigest(),
        "verified": True,
    }
    other = source.parent / f"resnet50-0676ba61.{suffix}"
    named.rename(other)
    told, refused = run(other, tmp_path / "other.npz")
    assert told == ""
    assert f"SHA-256 begins with {digest[:8]}, its name says 0676ba61" in refused
    assert not (tmp_path / "other.npz").exists()


def test_the_same_file_gives_the_same_bytes(tmp_path: pathlib.Path) -> None:
    source = published.write("paddleseg", tmp_path / "a.pdparams", published.tensors("paddleseg"))
    for name in ("one.npz", "two.npz"):
        convert_weights.main([str(source), str(tmp_path / name)])
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_what_paddle_itself_saves_is_read(tmp_path: pathlib.Path) -> None:
    import_paddle()
    import paddle

    layer = paddle.nn.Linear(3, 2)
    paddle.save(layer.state_dict(), str(tmp_path / "a.pdparams"))
    found = convert_weights._tensors(tmp_path / "a.pdparams")
    np.testing.assert_array_equal(found["weight"], layer.weight.numpy())
    assert found.keys() == {"weight", "bias"}


class Bomb:
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("made", [b"bad\n", None], ids=["no pickle", "a list"])
def test_a_file_of_something_else_is_named_without_the_library_s_words(
    made: bytes | None, tmp_path: pathlib.Path, run: Run
) -> None:
    import torch

    source = tmp_path / "a.pth"
    torch.save([1, 2], source) if made is None else source.write_bytes(made)
    _, refused = run(source, tmp_path / "out.npz")
    why = "it has no tensors with names" if made is None else "it is damaged, or not of tensors"
    assert refused.startswith(f"{source} cannot be read as weights: {why}")


@pytest.mark.parametrize("suffix", ["pth", "pdparams"])
def test_nothing_in_a_published_file_is_executed(
    suffix: str, tmp_path: pathlib.Path, run: Run
) -> None:
    bomb = {"conv1.weight": Bomb(tmp_path / "executed")}
    source = tmp_path / f"a.{suffix}"
    source.write_bytes(pickle.dumps(bomb))
    _, refused = run(source, tmp_path / "out.npz")
    assert refused.startswith(f"{source} cannot be read as weights: ")
    assert len(refused.splitlines()) == 1
    assert not (tmp_path / "executed").exists()


def refusal(found: published.Tensors) -> str:
    with pytest.raises(WeightsError) as refused:
        convert_weights.convert(found)
    return str(refused.value)


def test_what_is_missing_or_strange_is_named() -> None:
    found = published.tensors("torchvision", divisor=32)
    less = {name: each for name, each in found.items() if name != "layer3.4.bn2.bias"}
    assert refusal(less) == (
        "these are not torchvision's weights of a ResNet-50: 1 tensors are missing and 0 are "
        "strange, such as no stages.2.4.spatial.norm.bias"
    )
    assert "0 tensors are missing and 1 are strange, such as head.weight, which" in refusal(
        {**found, "head.weight": np.zeros(3)}
    )
    assert "tensors are missing" in refusal({})


def test_what_is_no_resnet_s_shape_or_no_number_is_named() -> None:
    found = published.tensors("torchvision", divisor=32)
    wide = np.zeros((8, 2, 3, 3), np.float32)
    assert refusal({**found, "layer1.0.conv2.weight": wide}) == (
        "stages.0.0.spatial.conv.weight has the shape [8, 2, 3, 3] and not [2, 2, 3, 3]: these are"
        " not a ResNet-50's weights"
    )
    assert "fc.weight has the shape" in refusal({**found, "fc.weight": found["fc.weight"].T})
    assert "fc.weight has the shape" in refusal({**found, "fc.bias": np.float32(0)})
    assert "not finite" in refusal({**found, "bn1.bias": np.full(2, 1e300)}), "float32 ends before"
    found["bn1.running_var"][1] = np.nan
    assert refusal(found) == "stem.norm.running_var has numbers that are not finite"


def test_weights_of_a_data_parallel_model_are_taken() -> None:
    found = published.tensors("mmseg", divisor=32)
    _, plain = convert_weights.convert(found)
    _, wrapped = convert_weights.convert({f"module.{name}": each for name, each in found.items()})
    assert all(np.array_equal(plain[name], wrapped[name]) for name in plain)
    assert plain.keys() == wrapped.keys()


def misfit(path: pathlib.Path, model: Any) -> str:
    before = {name: each.clone() for name, each in model.state_dict().items()}
    with pytest.raises(WeightsError) as refused:
        into_torch(path, model)
    assert all(bool((each == before[name]).all()) for name, each in model.state_dict().items())
    return str(refused.value).removeprefix(f"the weights in {path} are not of this model: ")


def test_weights_of_another_model_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    from k8sbench.trainers.models.resnet_torch import Classifier

    path = converted("torchvision", tmp_path, published.tensors("torchvision"))
    assert misfit(path, Classifier(10, width_divisor=16)) == (
        "stem.conv.weight [8, 3, 7, 7] for [4, 3, 7, 7], stem.norm.weight [8] for [4], "
        "stem.norm.bias [8] for [4] and 262 more are not in both, or of another shape"
    )
    deep = converted("mmseg", tmp_path, published.tensors("mmseg"))
    assert misfit(deep, Classifier(10, width_divisor=8)).startswith(
        "stem.conv.weight, stem.norm.weight, stem.norm.bias and 17 more are not in both"
    )


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 half", pickle.dumps(Bomb(pathlib.Path("x")))]
)
def test_a_file_that_holds_no_weights_is_refused(content: bytes, tmp_path: pathlib.Path) -> None:
    from k8sbench.trainers.models.resnet_torch import Classifier

    path = tmp_path / "weights.npz"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match="is not a file of start weights, or damaged"):
        into_torch(path, Classifier(10, width_divisor=16))
    path.unlink()
    with pytest.raises(WeightsError, match=r"weights\.npz cannot be read: No such file"):
        into_torch(path, Classifier(10, width_divisor=16))


def test_published_weights_are_converted_and_their_digest_is_printed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = published.write("mmseg", tmp_path / "plain.pth", published.tensors("mmseg"))
    target = tmp_path / "weights.npz"
    assert main(["data", "convert", str(source), "-o", str(target)]) == 0
    read = capsys.readouterr()
    assert read.out == f"{hashlib.sha256(target.read_bytes()).hexdigest()}  {target}\n"
    assert "mmseg, 277 tensors; no checksum in its name" in read.err
    assert f"--weights {target}" in read.err


SHORT = ("--warmup", "0", "--iterations", "1", "--batch-size", "2", "--lr", "0", "--frozen-norm")
TRAINERS = {
    "resnet50": (torch_runs, "torch_loop", ("--input-size", "32", "--classes", "10")),
    "deeplabv3p_paddle": (paddle_runs, "paddle_loop", ("--crop", "32x64")),
}


def named(state: dict[str, Any]) -> dict[str, Any]:
    """The tensors of a model that start weights have, by their names in a file."""
    keys = {name: weights.neutral(name, len(each.shape)) for name, each in state.items()}
    return {key: state[name] for name, key in keys.items() if key is not None}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_run_begins_with_the_files_weights_and_says_so(
    trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    runs, name, small = TRAINERS[trainer]
    if runs is paddle_runs:
        paddle_runs.import_paddle()
    exec(runs.NARROW, {"put": monkeypatch.setattr})
    made = noted_runs(monkeypatch, importlib.import_module(f"k8sbench.trainers.parts.{name}"))
    plain = runs.run(capfd, trainer, *SHORT, *small)
    assert not only(plain, "weights")
    told = {
        key: np.full(list(each.shape), 0.125 if "running" not in key else 1.0, np.float32)
        for key, each in named(made[0].bare.state_dict()).items()
    }
    file = tmp_path / "start.npz"
    np.savez(file, **told)
    found = runs.run(capfd, trainer, *SHORT, *small, "--weights", str(file))
    (event,) = only(found, "weights")
    assert (event["file"], event["loaded"]) == ("start.npz", len(told))
    assert event["digest"] == weights.digest(file)
    for key, each in named(made[1].bare.state_dict()).items():
        assert np.array_equal(each.detach().numpy(), told[key]), key
    assert found[-1]["final_loss"] != plain[-1]["final_loss"]


def test_weights_that_do_not_fit_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    from k8sbench.trainers.parts import loop

    exec(torch_runs.NARROW, {"put": monkeypatch.setattr})
    monkeypatch.setattr(loop, "refuse", refuse)
    file = tmp_path / "start.npz"
    np.savez(file, **{"stem.conv.weight": np.zeros((1, 1, 1, 1), np.float32)})
    small = TRAINERS["resnet50"][2]
    with pytest.raises(SystemExit, match=r"--weights: the weights in .* are not of this model"):
        torch_runs.run(capfd, "resnet50", *SHORT, *small, "--weights", str(file))

"""Published weights fill our models' backbones, and compute there what they compute upstream."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from k8sbench.trainers.parts import samples, weights
from k8sbench.trainers.parts.weights import Loaded
from tests.trainers import published, runs
from tests.trainers.checks import model_of, noted_runs, run, session
from tests.trainers.runs import Captured, only, refuse

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore")]
IMAGES = np.random.default_rng(3).standard_normal((2, 3, 64, 64), dtype=np.float32)
DILATED = (1, 2, 1, 1)
PLAIN = ((1, 1, 1), (1, 1, 1, 1), (1,) * 6, (1, 1, 1))
# DeepLabV3+ in mmsegmentation: the first block of a dilated stage has half of its dilation.
MMSEG = ((1, 1, 1), (1, 1, 1, 1), (1, 2, 2, 2, 2, 2), (2, 4, 4))
PADDLESEG = ((1, 1, 1), (1, 1, 1, 1), (2,) * 6, (4, 8, 16))


def load(path: Path, model: Any, framework: str = "pytorch") -> Loaded:
    here = session(framework)
    return weights.load(path, model.state_dict(), here.saved, here.put)


@pytest.mark.parametrize(
    ("framework", "name", "kind", "dilations"),
    [
        ("pytorch", "deeplabv3plus_torch.DeepLabV3Plus", "mmseg", MMSEG),
        ("paddle", "deeplab_paddle.MmsegDeepLab", "mmseg", MMSEG),
        ("paddle", "deeplab_paddle.DeepLabV3P", "paddleseg", PADDLESEG),
    ],
)
def test_a_backbone_computes_what_the_published_one_does(
    framework: str,
    name: str,
    kind: str,
    dilations: tuple[tuple[int, ...], ...],
    tmp_path: Path,
) -> None:
    here, found = session(framework), published.tensors(kind)
    model = model_of(name, width_divisor=8)
    model.eval()
    suffix = {"pytorch": "pth", "paddle": "pdparams"}[framework]
    told = load(published.write(tmp_path / f"a.{suffix}", found), model, framework)
    assert told.loaded == 5 * 55
    with here.inference():
        ours = [each.numpy() for each in model.backbone(here.tensor(IMAGES))]
    averaged = kind == "paddleseg"
    theirs = published.features(kind, found, IMAGES, DILATED, dilations, averaged=averaged)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))


def test_torchvisions_network_computes_the_same_here(tmp_path: Path) -> None:
    here, found = session("pytorch"), published.tensors("torchvision")
    path = published.write(tmp_path / "a.pth", found)
    model = model_of("resnet_torch.Classifier", 10, width_divisor=8).eval()
    told = load(path, model)
    assert told.loaded == 5 * 53 + 2
    *_, last = published.features("torchvision", found, IMAGES, (1, 2, 2, 2), PLAIN)
    theirs = last.mean((2, 3)).numpy() @ found["fc.weight"].T + found["fc.bias"]
    with here.inference():
        ours = model(here.tensor(IMAGES)).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    # Of other classes only the backbone is taken.
    assert load(path, model_of("resnet_torch.Classifier", 7, width_divisor=8)).loaded == 5 * 53


def test_what_paddle_itself_saves_is_read(tmp_path: Path) -> None:
    here = session("paddle")
    import paddle

    layer = paddle.nn.Linear(3, 2)
    paddle.save(layer.state_dict(), str(tmp_path / "a.pdparams"))
    found = here.saved(tmp_path / "a.pdparams")
    np.testing.assert_array_equal(found["weight"], layer.weight.numpy())


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_a_file_is_never_executed(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "refuse", refuse)
    model = model_of("resnet_torch.Classifier", 10, width_divisor=32)
    bomb = {"conv1.weight": Bomb(tmp_path / "executed")}
    path = tmp_path / "a.file"
    for content in (pickle.dumps(bomb), pickle.dumps([1, 2]), b"bad\n", b"PK\x03\x04 half", b""):
        path.write_bytes(content)
        with pytest.raises(SystemExit) as refused:
            load(path, model, framework)
        told = f"--weights: {path} is damaged, or not of named tensors alone"
        assert str(refused.value) == told
    assert not (tmp_path / "executed").exists()
    path.unlink()
    with pytest.raises(SystemExit, match=r"a\.file cannot be read: No such file"):
        load(path, model, framework)
    os.mkfifo(path)
    with pytest.raises(SystemExit, match=r"a\.file cannot be read: Not a regular file"):
        load(path, model, framework)


SHORT = ("--warmup", "0", "--iterations", "1", "--batch-size", "2", "--lr", "0", "--frozen-norm")
PICTURES = ("--input-size", "32", "--classes", "10")


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_a_run_begins_with_the_files_weights_and_says_so(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    if framework == "pytorch":
        words: tuple[str, ...]
        words, kind, file = ("resnet50", *SHORT, *PICTURES), "torchvision", tmp_path / "a.pth"
    else:
        words = ("deeplabv3p_paddle", *SHORT, "--crop", "32x64")
        kind, file = "paddleseg", tmp_path / "a.pdparams"
    made = noted_runs(monkeypatch, framework)
    plain = run(capfd, *words)
    assert not only(plain, "weights")
    found = published.tensors(kind, divisor=runs.DIVISORS[framework])
    told = run(capfd, *words, "--weights", str(published.write(file, found)))
    (event,) = only(told, "weights")
    assert (event["file"], event["digest"]) == (file.name, samples.digest(file))
    kept = {each.tobytes() for each in found.values()}
    state = made[1].bare.state_dict().values()
    begun = sum(each.detach().numpy().tobytes() in kept for each in state)
    assert begun == event["loaded"] == (5 * 53 + 2 if kind == "torchvision" else 5 * 55)
    assert told[-1]["final_loss"] != plain[-1]["final_loss"]


def test_weights_that_do_not_fit_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    monkeypatch.setattr(weights, "refuse", refuse)
    file = published.write(tmp_path / "start.pth", {"conv1.weight": np.zeros((1, 1, 1, 1))})
    with pytest.raises(SystemExit, match=r"--weights: .* is not of this model"):
        run(capfd, "resnet50", *SHORT, *PICTURES, "--weights", str(file))

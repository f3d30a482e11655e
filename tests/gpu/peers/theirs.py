"""Training loops around models of other programs.

``python -m tests.gpu.peers.theirs PEER TASK``, TASK in JSON. It imports, answers, and waits: each
line of stdin, ``WARMUP STEPS``, is answered with one line of JSON. Data are fixed tensors on the
device, each loop reads its losses in each step as its program does, and TF32 is off, as ours.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
Step = Callable[[], object]


class Task(NamedTuple):
    """Model inputs and precision of a peer."""

    batch: int
    amp: str = "none"
    channels_last: bool = False
    size: tuple[int, int] = (224, 224)
    """Height and width; for text, layers and sequence length."""
    device: str = "cuda"


class Descent:
    """An optimizer, with PyTorch's own mixed precision."""

    def __init__(self, task: Task, optimizer: Any, clip: float | None = None) -> None:
        self.task, self.optimizer, self.clip = task, optimizer, clip
        self.scaler = torch.amp.GradScaler(task.device, enabled=task.amp == "fp16")

    def autocast(self) -> Any:
        if self.task.amp == "none":
            return contextlib.nullcontext()
        return torch.autocast(self.task.device, dtype=DTYPES[self.task.amp])

    def descend(self, loss: Any) -> None:
        self.scaler.scale(loss).backward()
        if self.clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


def classifier(task: Task, model: Any, criterion: Any) -> tuple[Any, Step]:
    """ResNet-50 as torchvision's references and timm train it: criterion, scaler, the loss read."""
    layout = torch.channels_last if task.channels_last else torch.contiguous_format
    model = model.to(task.device, memory_format=layout).train()
    images = torch.randn(task.batch, 3, *task.size, device=task.device)
    images = images.contiguous(memory_format=layout)
    labels = torch.randint(1000, (task.batch,), device=task.device)
    sgd = torch.optim.SGD(
        model.parameters(), task.batch / 1000, momentum=0.875, weight_decay=1 / 32768
    )
    descent = Descent(task, sgd)

    def step() -> float:
        with descent.autocast():
            loss = criterion(model(images), labels)
        descent.descend(loss)
        return float(loss.item())

    return model, step


def torchvision_resnet50(task: Task) -> tuple[Any, Step]:
    model = importlib.import_module("torchvision.models").resnet50()
    return classifier(task, model, nn.CrossEntropyLoss(label_smoothing=0.1))


def timm_resnet50(task: Task) -> tuple[Any, Step]:
    model = importlib.import_module("timm").create_model("resnet50")
    criterion = importlib.import_module("timm.loss").LabelSmoothingCrossEntropy(0.1)
    return classifier(task, model, criterion)


class Shifted(nn.Module):
    """A convolution of inputs shifted in time, out of place."""

    def __init__(self, conv: Any, segments: int) -> None:
        super().__init__()
        self.conv, self.segments = conv, segments

    def forward(self, x: Any) -> Any:
        frames = x.view(x.shape[0] // self.segments, self.segments, *x.shape[1:])
        fold, out = x.shape[1] // 8, torch.zeros_like(frames)
        out[:, :-1, :fold] = frames[:, 1:, :fold]
        out[:, 1:, fold : 2 * fold] = frames[:, :-1, fold : 2 * fold]
        out[:, :, 2 * fold :] = frames[:, :, 2 * fold :]
        return self.conv(out.view_as(x))


def tsm(task: Task, segments: int = 8, classes: int = 400) -> tuple[Any, Step]:
    """TSM on torchvision's ResNet-50, every block of which is shifted ("blockres")."""
    model = importlib.import_module("torchvision.models").resnet50()
    for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
        for block in stage:
            block.conv1 = Shifted(block.conv1, segments)
    model.fc = nn.Sequential(nn.Dropout(0.5), nn.Linear(2048, classes))
    model = model.to(task.device).train()
    clips = torch.randn(task.batch * segments, 3, *task.size, device=task.device)
    labels = torch.randint(classes, (task.batch,), device=task.device)
    sgd = torch.optim.SGD(model.parameters(), 0.0025, momentum=0.9, weight_decay=1e-4)
    descent = Descent(task, sgd, clip=20.0)

    def step() -> list[float]:
        with descent.autocast():
            logits = model(clips).view(task.batch, segments, classes).mean(1)
            loss = cross_entropy(logits, labels)
        hits = logits.detach().topk(5).indices == labels[:, None]
        printed = [loss.item(), hits[:, 0].float().mean().item(), hits.float().sum(1).mean().item()]
        descent.descend(loss)
        return printed

    return model, step


class Absent(types.ModuleType):
    """``mmcv.ops`` without compiled operators, of which DeepLabV3+ uses none."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (nn.Module,), {}) if name[0].isupper() else lambda *_: "absent"


def mmseg(task: Task) -> tuple[Any, Step]:
    """DeepLabV3+ as mmsegmentation builds it, by its `train_step` and mmengine's wrappers."""
    configs = Path(str(importlib.import_module("mmseg").__file__)).parent / ".mim" / "configs"
    config = importlib.import_module("mmengine.config").Config
    registry = importlib.import_module("mmengine.registry")
    optim = importlib.import_module("mmengine.optim")
    name = "deeplabv3plus/deeplabv3plus_r50-d8_4xb2-80k_cityscapes-512x1024.py"
    stated = config.fromfile(configs / name).model
    stated.pretrained = None
    # Of one process upstream's is this one, too.
    for part in (stated.backbone, stated.decode_head, stated.auxiliary_head):
        part.norm_cfg.type = "BN"
    # The tensors are normalised already, as ours.
    stated.data_preprocessor = {"type": "mmengine.BaseDataPreprocessor"}
    registry.init_default_scope("mmseg")
    model = registry.MODELS.build(stated)
    model.init_weights()
    model = model.to(task.device).train()
    model.data_preprocessor.to(task.device)
    structures = importlib.import_module("mmengine.structures")
    labels = torch.randint(19, (task.batch, 1, *task.size), device=task.device)
    labels[:, :, -(task.size[0] // 16) :] = 255
    samples = []
    for label in labels:
        samples.append(importlib.import_module("mmseg.structures").SegDataSample())
        samples[-1].gt_sem_seg = structures.PixelData(data=label)
    data = {
        "inputs": torch.randn(task.batch, 3, *task.size, device=task.device),
        "data_samples": samples,
    }
    sgd = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
    wrapper = (
        optim.OptimWrapper(sgd)
        if task.amp == "none"
        else optim.AmpOptimWrapper(loss_scale=512.0, dtype=DTYPES[task.amp], optimizer=sgd)
    )

    def step() -> list[float]:
        # RuntimeInfoHook reads every value after each iteration.
        return [value.item() for value in model.train_step(data, wrapper).values()]

    return model, step


def gpt2(task: Task) -> tuple[Any, Step]:
    """transformers' GPT-2, without dropout and with the activation in one kernel, as ours."""
    transformers = importlib.import_module("transformers")
    layers, length = task.size
    no = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = transformers.GPT2Config(
        n_layer=layers, activation_function="gelu_pytorch_tanh", use_cache=False, **no
    )
    model = transformers.GPT2LMHeadModel(config).to(task.device).train()
    tokens = torch.randint(config.vocab_size, (task.batch, length), device=task.device)
    adamw = torch.optim.AdamW(model.parameters(), 6e-4, (0.9, 0.95), weight_decay=0.1)
    descent = Descent(task, adamw, clip=1.0)

    def step() -> float:
        with descent.autocast():
            loss = model(input_ids=tokens, labels=tokens).loss
        value = float(loss.item())
        descent.descend(loss)
        return value

    return model, step


PEERS: dict[str, tuple[Callable[[Task], tuple[Any, Step]], str, tuple[str, ...]]] = {
    "mmseg": (mmseg, "mmseg.models", ("mmseg", "mmengine", "mmcv")),
    "timm": (timm_resnet50, "timm.loss", ("timm",)),
    "torchvision": (torchvision_resnet50, "torchvision.models", ("torchvision",)),
    "tsm": (tsm, "torchvision.models", ("torchvision",)),
    "gpt2": (gpt2, "transformers.models.gpt2.modeling_gpt2", ("transformers",)),
}
"""Peer → its maker, the module it imports, its packages."""


def imported(peer: str) -> dict[str, str]:
    """Import what a peer needs, and say the versions."""
    operators = Absent("mmcv.ops")
    operators.__path__ = []
    sys.modules["mmcv.ops"] = operators
    _, module, packages = PEERS[peer]
    importlib.import_module(module)
    versions = {name: str(importlib.import_module(name).__version__) for name in packages}
    return {"torch": torch.__version__, **versions}


def timed(task: Task, step: Step, warmup: int, steps: int) -> float:
    """Mean seconds of a step; the device is idle before and after."""
    rest: Step = torch.cuda.synchronize if task.device == "cuda" else lambda: None
    for _ in range(warmup):
        step()
    rest()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    rest()
    return (time.perf_counter() - began) / steps


def main() -> None:
    """Answer by JSON on stdout, which nothing else reaches."""
    peer, task = sys.argv[1], Task(**json.loads(sys.argv[2]))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps({"packages": imported(peer)}), file=answers)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = peer != "gpt2"
    model: Any = None
    step: Step | None = None
    for line in sys.stdin:
        if step is None:
            model, step = PEERS[peer][0](task)
        seconds = timed(task, step, *map(int, line.split()))
        torch.cuda.empty_cache()  # ours needs the room meanwhile
        parameters = sum(each.numel() for each in model.parameters())
        print(json.dumps({"seconds": seconds, "parameters": parameters}), file=answers)


if __name__ == "__main__":
    main()

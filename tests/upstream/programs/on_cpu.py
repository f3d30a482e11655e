"""Runs a program made for GPUs on CPUs: ``on_cpu.py PROGRAM WORD...``.

Three changes, of which the program knows nothing: its process needs no GPU of its own, its
gradients are averaged without GPUs' numbers, and ``mmcv.ops`` is there without its compiled part.
"""

import runpy
import sys
import types
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel


class Absent(types.ModuleType):
    """Fake module: classes refuse instantiation, functions return no version."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].islower():
            return lambda *_: "absent"
        return type(name, (torch.nn.Module,), {"__init__": refused})


def refused(self: object, *_: object, **__: object) -> None:
    """Refuse to make an operator."""
    raise RuntimeError(f"mmcv.ops.{type(self).__name__} needs mmcv's compiled operators")


def averaged(self: Any, module: Any, device_ids: object = None, **options: Any) -> None:
    """Begin data parallelism without ``device_ids``, which a module on a CPU may not have."""
    begin(self, module, **options)


begin = DistributedDataParallel.__init__
DistributedDataParallel.__init__ = averaged
torch.cuda.set_device = lambda device: None
operators = Absent("mmcv.ops")
operators.__path__ = []
sys.modules["mmcv.ops"] = operators

del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")

"""Start-up hook of Python: adds the stub's operators to PyTorch."""

import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class AfterTorch(importlib.abc.MetaPathFinder):
    """Finds PyTorch as others do, and loads the operators behind it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """PyTorch's own spec; None of any other module."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_both(module: ModuleType) -> None:
            load(module)
            importlib.import_module("tests.harness.cuda_stub.operators")

        spec.loader.exec_module = load_both  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, AfterTorch())

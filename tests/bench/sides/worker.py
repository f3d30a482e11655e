"""One side of a comparison, as a process of its own: ``worker SIDE FRAMEWORK TRAINER OPTIONS…``.

SIDE is ``ours`` or ``plain``. The process speaks with the bench through `gate` until it is told to
end. Both sides import the same modules before their memory is first looked at.
"""

from __future__ import annotations

import importlib
import sys
import warnings

from tests.bench.sides.gate import Gate


def main() -> None:
    """Run one side; ends with the process."""
    side, framework, trainer, *options = sys.argv[1:]
    gate = Gate()
    warnings.simplefilter("ignore")
    name = "torch_side" if framework == "pytorch" else "paddle_side"
    module = importlib.import_module(f"tests.bench.sides.{name}")
    gate.ready()
    getattr(module, side)(gate, trainer, options)


if __name__ == "__main__":
    main()

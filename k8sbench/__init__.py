"""Measurement of training jobs on GPU clusters, with PyTorch and Paddle.

Imports nothing, so that ``k8sbench --help`` and the trainers start at once: ``Client`` is imported
when it is asked for (its type stands in ``__init__.pyi``). ``docs/architecture.md`` shows the
packages and what each may import.
"""

__version__ = "0.5.1"


def __getattr__(name: str) -> object:
    if name == "Client":
        import importlib  # noqa: PLC0415 - see above

        return importlib.import_module("k8sbench.client").Client
    raise AttributeError(f"module 'k8sbench' has no attribute {name!r}")

"""Commands as processes that tell which modules they have imported.

This module imports little itself, as it counts.
"""

import atexit
import importlib.abc
import io
import json
import sys
from collections.abc import Collection
from contextlib import redirect_stderr, redirect_stdout


def run(*words: str) -> None:
    """Run a command in silence; prints its exit code and the top-level modules."""
    from k8sbench.cli.main import main

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        code = main(list(words))
    print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))


def complete() -> None:
    """Complete what the environment says; ends with all modules, on stderr."""
    atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
    from k8sbench.cli.main import main

    sys.exit(main())


class _Absent(importlib.abc.MetaPathFinder):
    """Finds that some libraries are not installed."""

    def __init__(self, libraries: Collection[str]) -> None:
        self._libraries = libraries

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for a module of the libraries."""
        if name.partition(".")[0] in self._libraries:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def measure_without(libraries: Collection[str], log: str, family: str, gpus: int) -> None:
    """Measure a log by the reader alone; prints its throughput in samples/s."""
    sys.meta_path.insert(0, _Absent(libraries))
    from k8sbench.reader import log_files
    from k8sbench.reader.measuring.expectation import Expectation
    from k8sbench.reader.measuring.measuring import measure

    found = measure(log_files.opened({log: None}), Expectation(format=family, gpus=gpus))
    print(found.rate)


def refuse_answers() -> None:
    """Have no API server answer from now on."""
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.model.errors import Unreachable

    def answer(*_: object, **__: object) -> None:
        raise Unreachable("It does not answer.", "")

    Api.check_answers = answer  # type: ignore[method-assign]

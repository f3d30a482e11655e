"""Commands as processes that tell which modules they have imported.

This module imports little itself, as it counts.
"""

import atexit
import importlib
import importlib.abc
import io
import json
import pkgutil
import sys
from collections.abc import Collection
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path


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


def rows_without(libraries: Collection[str], root: str) -> None:
    """Import every module of the results, and group the runs of a store's folders by them.

    Prints the throughput of each row, in samples/s.
    """
    sys.meta_path.insert(0, _Absent(libraries))
    from k8sbench import results
    from k8sbench.results.groups.grouping import groups
    from k8sbench.results.groups.speedup import results as rows
    from k8sbench.results.report import document
    from k8sbench.store import run_folder

    for module in pkgutil.walk_packages(results.__path__, f"{results.__name__}."):
        importlib.import_module(module.name)
    names = sorted(run_folder.run_ids(Path(root)))
    runs = [run_folder.RunFolder(Path(root, "runs", name)).run() for name in names]
    print(json.dumps([document.row(row)["throughput"] for row in rows(groups(runs))]))


def refuse_answers() -> None:
    """Have no API server answer from now on."""
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.model.errors import Unreachable

    def answer(*_: object, **__: object) -> None:
        raise Unreachable("It does not answer.", "")

    Api.check_answers = answer  # type: ignore[method-assign]

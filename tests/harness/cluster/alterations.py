"""Alterations of a k8sbench that tests start, before its command runs.

Every command of a shell of tests imports this module, so each function imports what it alters.
"""

import itertools
import os


def shorten(changes: dict[str, float]) -> None:
    """Have other limits of time."""
    from k8sbench import limits

    limits.now = limits.Limits(**changes)  # type: ignore[arg-type]


def number_runs() -> None:
    """Make run ids ``resnet50-1`` etc., from the number in ``FIRST_RUN``."""
    from k8sbench.model.benchmark_object import Benchmark

    numbers = itertools.count(int(os.environ.get("FIRST_RUN", "1")))

    def run_id(asked: Benchmark, _: object) -> str:
        return f"{asked.spec.benchmark}-{next(numbers)}"

    setattr(Benchmark, "run_id", run_id)  # noqa: B010


def name_objects(ends: str) -> None:
    """Name new objects ``resnet50-a`` etc., by one letter after the other."""
    from k8sbench.app import objects

    letters = iter(ends)

    def name(benchmark: str) -> str:
        return f"{benchmark}-{next(letters)}"

    setattr(objects, "drawn_name", name)  # noqa: B010


def need_newer_objects() -> None:
    """Make the installed CRD older than the program."""
    from k8sbench.adapters.kubernetes import benchmark_objects
    from k8sbench.model import benchmark_object

    setattr(benchmark_objects, "SCHEMA", benchmark_object.SCHEMA + 1)  # noqa: B010

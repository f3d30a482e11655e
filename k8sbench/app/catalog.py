"""Benchmarks, images, data sets and settings from files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from k8sbench.lifecycle.context import BENCHMARK, Note
from k8sbench.model.errors import BenchError, Interrupted, JobFailed, UsageError
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import LoadedSpec
from k8sbench.model.spec import BenchmarkSpec
from k8sbench.model.times import LOOK_SECONDS
from k8sbench.model.training import KnownDataSet, data_set
from k8sbench.threads import Threads

if TYPE_CHECKING:
    from k8sbench.lifecycle.context import Stop
    from k8sbench.model.image import ListedImage
    from k8sbench.ports import Store


EVERY = "all"
"""Stands for every built-in benchmark."""
PROGRAM = "k8sbench.trainers.check_data"
"""Draws and checks data sets, in a process beside us."""


class DataSetList(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``data list -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    data_sets: tuple[KnownDataSet, ...]
    """In the order of the table of ``k8sbench data list``."""


def settings() -> dict[str, dict[str, Any]]:
    """Read existing config files, the project's first: path → values."""
    from k8sbench.adapters.files import config_files

    return config_files.load(os.environ)


def benchmarks() -> list[LoadedSpec]:
    """Return the built-in catalog."""
    from k8sbench.adapters.files import catalog

    return list(catalog.load_all())


def names() -> list[str]:
    """Return the names of the built-in benchmarks, without reading them."""
    from k8sbench.adapters.files import catalog

    return catalog.names()


def benchmark(name: str) -> LoadedSpec:
    """Return one benchmark by its name, or by the path of its file."""
    from k8sbench.adapters.files import catalog

    return catalog.find(name)


def named(name: str) -> list[LoadedSpec]:
    """Return the benchmark of a name or a file's path; ``all``: every built-in one."""
    return benchmarks() if name == EVERY else [benchmark(name)]


def images(spec: BenchmarkSpec) -> tuple[ListedImage, ...]:
    """Return the images that the variants of a benchmark run in."""
    from k8sbench.adapters.files import catalog

    return tuple(catalog.image_table().of_benchmark(spec))


def finder(store: Store, note: Note) -> Callable[[RunPlan], BenchmarkSpec | None]:
    """Return a function that finds the catalog entry of a plan.

    Each file is read once, on first use. If a user's file is gone or now holds another benchmark,
    the run's copy is read instead.
    """
    known: dict[tuple[str, str], BenchmarkSpec | None] = {}

    def find(plan: RunPlan) -> BenchmarkSpec | None:
        if not plan.spec_source:
            return None  # an imported log of no benchmark
        name = plan.benchmark if plan.spec_source == "built-in" else plan.spec_source
        if (name, plan.benchmark) not in known:
            known[name, plan.benchmark] = _entry(plan, name, store, note)
        return known[name, plan.benchmark]

    return find


def _entry(plan: RunPlan, name: str, store: Store, note: Note) -> BenchmarkSpec | None:
    from k8sbench.adapters.files import catalog

    try:
        spec = benchmark(name).spec
        if spec.name == plan.benchmark:
            return spec
        why = f"it holds {spec.name}, not {plan.benchmark}."
    except BenchError as error:
        why = error.message
    try:
        if copy := store.kept(plan.run_id, BENCHMARK):
            return catalog.copied(copy, f"{plan.run_id}/{BENCHMARK}")
    except BenchError:
        pass  # a run of elsewhere: what is wrong with the file itself says more
    note(f"warning: the catalog entry {name} cannot be used: {why}")
    return None


def work_on_data(
    action: Literal["check", "make-sample"],
    name: str,
    place: str,
    words: Sequence[str],
    stop: Stop,
    tell: Callable[[str], None],
) -> int:
    """Check or draw a data set, report progress, return the exit code.

    The code is 0 if the data are complete, 2 if data are missing or the input is wrong, and 3 if
    the program could not finish. Raises :class:`Interrupted`, or another :class:`BenchError` if the
    program did not exit normally.
    """
    from k8sbench.adapters import processes

    data_set(name)
    if place.startswith("pvc:"):
        raise UsageError(
            f"{place} is a claim, and data {action} works on folders of this machine.",
            "Give the command in a pod that mounts the claim, with the path there"
            " (docs/training.md#on-a-claim).",
        )
    given = (action, name, str(Path(place).absolute()), *words)
    with stop, processes.running(PROGRAM, given) as process:
        code = None
        reading = Threads().start(lambda: processes.read_lines(process, tell), "data")
        while code is None and stop.cause is None:
            with contextlib.suppress(TimeoutError):
                code = reading.result(LOOK_SECONDS)
    if code is None:
        raise Interrupted(f"{stop.cause}; the program on this machine was ended.")
    if code not in {0, 2, 3}:
        raise JobFailed(f"The program ended with exit code {code}.", "The lines above say why.")
    return code

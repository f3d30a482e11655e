"""The catalog entries of recorded runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from k8sbench.catalog import spec_files
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.lifecycle.context import Note
from k8sbench.lifecycle.run_artifacts import BENCHMARK
from k8sbench.model.errors import BenchError
from k8sbench.model.facts import Facts

if TYPE_CHECKING:
    from k8sbench.store.interface import Store


def spec_finder(store: Store | None, note: Note) -> Callable[[Facts], BenchmarkSpec | None]:
    """Return a function that finds the catalog entry of a case.

    Each file is read once, on first use. If a user's file is gone or now holds another benchmark,
    the run's copy is read instead; of an operator's run, whose ``store`` is None, there is none.
    """
    known: dict[tuple[str, str], BenchmarkSpec | None] = {}

    def find(facts: Facts) -> BenchmarkSpec | None:
        if not facts.spec_source:
            return None  # an imported log of no benchmark
        name = facts.benchmark if facts.spec_source == "built-in" else facts.spec_source
        if (name, facts.benchmark) not in known:
            known[name, facts.benchmark] = _entry(facts, name, store, note)
        return known[name, facts.benchmark]

    return find


def _entry(facts: Facts, name: str, store: Store | None, note: Note) -> BenchmarkSpec | None:
    try:
        spec = spec_files.load_spec(name).spec
        if spec.name == facts.benchmark:
            return spec
        why = f"it holds {spec.name}, not {facts.benchmark}."
    except BenchError as error:
        why = error.message
    try:
        if store is not None and (copy := store.read_artifact(facts.run_id, BENCHMARK)):
            return spec_files.load_copy(copy, f"{facts.run_id}/{BENCHMARK}")
    except BenchError:
        pass  # a run of elsewhere: what is wrong with the file itself says more
    note(f"warning: the catalog entry {name} cannot be used: {why}")
    return None

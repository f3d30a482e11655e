"""Sets whose runs differ in one fact, and their explanation."""

from collections.abc import Sequence
from typing import Any

from k8sbench.model.compared import Comparison
from k8sbench.model.run import Run
from k8sbench.results.groups import causes, comparison
from tests.results.groups.grouped import grouped
from tests.results.groups.sides import side
from tests.results.report.factory import START, repeats


def a_set(name: str, at: float, *cases: tuple[float, dict[str, Any]]) -> list[Run]:
    """Return a set with three runs of each case: its rate and what its runs report."""
    return [
        one
        for n, (rate, environment) in enumerate(cases, 1)
        for one in repeats(
            [rate, rate * 1.001, rate * 0.999],
            case=f"1x{n}",
            set_name=name,
            at=START + at,
            measured={"environment": environment},
        )
    ]


def explained(before: list[Run], after: list[Run], between: Sequence[Run] = ()) -> Comparison:
    found = comparison.compare(side("a", before), side("b", after))
    runs = {one.run_id: one for one in (*before, *after)}
    return causes.explained(found, runs, grouped([*before, *between, *after]))


OLD = {"driver": "550", "kernel": "5.15", "cuda": "12.1", "python": "3.11"}

"""What commands read from the operator, beside the local store.

The operator has two seconds for each answer. If it is unreachable, a note says so and the local
runs are shown alone; ``--store cluster`` makes that an error.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from k8sbench import limits
from k8sbench.app import connections
from k8sbench.model import kube, times
from k8sbench.model.errors import BenchError, Unreachable
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Baseline, Run

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy

T = TypeVar("T")

LOG_SECONDS = 30.0
"""Until the next piece of a log must come."""
SOURCE = kube.OPERATOR
"""The source of its runs."""


def asked(
    access: ClusterAccess,
    read: Callable[[OperatorProxy], T],
    note: Callable[[str], None],
    *,
    insist: bool = False,
    missing: Callable[[], str] = lambda: "the runs of an operator",
) -> T | None:
    """Read from the operator; None if there is none that can be read.

    A failure is noted together with what is ``missing`` from the output. With ``insist`` it raises
    :class:`Unreachable`.
    """
    if not insist and not connections.configured(access):
        return None
    try:
        with opened(
            access, limits.now.operator_insist if insist else limits.now.operator_answer
        ) as operator:
            if operator is not None:
                return read(operator)
        if insist:
            raise Unreachable(
                "There is no operator in the namespace.",
                "Name its namespace with -n, or install it with the chart.",
            )
    except BenchError as wrong:
        if insist:
            action = wrong.action
            raise Unreachable(f"The operator cannot be read: {wrong.message}", action) from wrong
        note(f"note: without {missing()}: {wrong.message}")
    return None


def runs(
    access: ClusterAccess,
    note: Callable[[str], None],
    *,
    insist: bool = False,
    **query: str | None,
) -> list[Run]:
    """Return its runs, oldest first; note if older ones are missing.

    ``query`` is the benchmark or the framework that they have.
    """
    found: dict[str, Run] = {}

    def read(there: OperatorProxy) -> None:
        given = {name: value for name, value in query.items() if value is not None}
        for run in there.runs(given, math.inf if insist else limits.now.operator_answer):
            found[run.run_id] = run

    def missing() -> str:
        if not found:
            return "the runs of an operator"
        oldest = min(run.created_at for run in found.values())
        return (
            f"some runs of an operator, those created before {times.utc(oldest)} (--store"
            " cluster waits for all, --benchmark asks for fewer)"
        )

    asked(access, read, note, insist=insist, missing=missing)
    return sorted(found.values(), key=lambda run: (run.created_at, run.run_id))


def run(
    access: ClusterAccess, text: str, note: Callable[[str], None], *, insist: bool = False
) -> Run | None:
    """Return the run with this id or unique id prefix, if there is one."""
    return asked(access, lambda there: there.run(text), note, insist=insist)


def baselines(
    access: ClusterAccess, note: Callable[[str], None], *, insist: bool = False
) -> list[Baseline]:
    """Return its baselines; none of an operator that knows no such."""
    found = asked(
        access,
        lambda there: there.baselines(),
        note,
        insist=insist,
        missing=lambda: "the baselines of an operator",
    )
    return found or []


def copied(
    access: ClusterAccess, run_id: str, folder: Path, *kinds: Literal["logs", "gpu", ""]
) -> list[Path]:
    """Copy a run's files from an operator into a folder; return the copies."""
    with opened(access, LOG_SECONDS) as operator:
        return [] if operator is None else operator.copy(run_id, folder, kinds)


@contextlib.contextmanager
def opened(
    access: ClusterAccess, seconds: float = limits.now.operator_answer
) -> Iterator[OperatorProxy | None]:
    """Give the operator of a namespace; None where it has none."""
    from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy

    with contextlib.closing(connections.connect(access)) as api:
        connections.check_answers(api, seconds)
        api.retry_s = seconds
        operator = OperatorProxy(api)
        yield operator if operator.is_there() else None

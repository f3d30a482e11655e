"""Sweeps: cases that fit the cluster, and resuming of a set."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.lifecycle import submitting
from k8sbench.lifecycle.context import PlannedCase, Reporter, RunContext
from k8sbench.model.errors import BenchError, DoesNotFit
from k8sbench.model.identity import case_key
from k8sbench.model.planning import describe
from k8sbench.model.run import Run

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.model.kube import KubeObject


def that_fit(
    planned: Sequence[PlannedCase], api: Api, note: Callable[[str], None]
) -> tuple[PlannedCase, ...]:
    """Drop cases that need more nodes than the pool has.

    Each is noted. If nodes may not be listed, all cases stay. Raises :class:`DoesNotFit` if no case
    is left.
    """
    from k8sbench.adapters.kubernetes import listing
    from k8sbench.diagnose.preflight import nodes

    if all(case.draft.replicas == 1 for case in planned):
        return tuple(planned)
    pool = planned[0].draft.pool
    try:
        of_pool: Sequence[KubeObject] = listing.nodes(api, pool.selector)
    except BenchError as error:
        note(f"Whether pool {pool.name} holds every case is not known: {error.message}")
        return tuple(planned)
    fitting: list[PlannedCase] = []
    why = DoesNotFit("There is not a case.")
    for case in planned:
        plan = case.draft
        room = nodes.room(of_pool, plan)
        if plan.replicas <= room:
            fitting.append(case)
            continue
        text = f"pool {pool.name} has room for {room} of its {plan.replicas} replicas"
        why = DoesNotFit(
            f"{plan.benchmark} {plan.case}: {text}.",
            "Give --wait where an autoscaler adds nodes, or choose another --node-pool.",
        )
        note(f"left out: {plan.benchmark} {plan.framework} {plan.case}: {text}.")
    if not fitting:
        raise why
    return tuple(fitting)


def resumed(
    planned: Sequence[PlannedCase], context: RunContext, set_name: str, reporter: Reporter
) -> tuple[list[Run], list[PlannedCase]]:
    """Return a set's valid runs, and the cases to join or start.

    Counts at most ``repeats`` runs per case, and notes what exists.
    """
    has = submitting.repeats(context, set_name)
    finished: list[Run] = []
    to_do: list[PlannedCase] = []
    for case in planned:
        found = has.get(case_key(case.draft), submitting.Repeats())
        done = found.finished[: case.repeats]
        open_runs = (*found.open, *found.broken_off)[: case.repeats - len(done)]
        missing = case.repeats - len(done) - len(open_runs)
        reporter.note(describe(case.draft))
        exist = "exists" if len(done) == 1 else "exist"
        goes_on = f", {len(open_runs)} to be followed or continued" if open_runs else ""
        nothing = "" if missing or open_runs else ": nothing to do"
        reporter.note(f"  {len(done)} of {case.repeats} {exist} already{goes_on}{nothing}")
        finished += done
        to_do += [msgspec.structs.replace(case, joins=run.run_id) for run in open_runs]
        to_do += [case] * missing
    return finished, to_do


def singly(planned: Sequence[PlannedCase]) -> Iterator[PlannedCase]:
    """Yield each case as often as it is to be run."""
    return itertools.chain.from_iterable([case] * case.repeats for case in planned)

"""``nodes``: measure one case on each node of a pool, and compare the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import cases, connections, submit, targets
from k8sbench.app.targets import RunTarget
from k8sbench.catalog import spec_files
from k8sbench.lifecycle.context import Reporter
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import FEW, BenchError, NotFound, UsageError
from k8sbench.model.kube import name_of
from k8sbench.model.names import checked_set_name
from k8sbench.model.request import SubmitRequest

if TYPE_CHECKING:
    from k8sbench.app.results import RunRows
    from k8sbench.results.groups.node_check import JudgedNodes


def measure_nodes(
    request: SubmitRequest,
    reporter: Reporter,
    stop: Stop,
    *,
    selector: str = "",
) -> tuple[JudgedNodes, RunRows]:
    """Measure a case on each node; return verdicts and rows.

    ``selector`` is kubectl's ``-l``, in addition to the labels of the pool. Raises
    :class:`Interrupted` at a stop request before all runs are closed.
    """
    from k8sbench.app.results import RunRows, joined
    from k8sbench.results.groups import grouping, node_check
    from k8sbench.results.report import group_words

    loaded = spec_files.load_spec(request.benchmark)
    submit.check_names(request)
    target = targets.choose_target(request, may_be_local=False)
    if target.api is None:
        raise UsageError(
            f"nodes compares the nodes of a cluster, and there is none ({target.why}).",
            "Name one with --context or --kubeconfig.",
        )
    planned = cases.plan_cases([loaded], request, target.site, reporter.note)
    if len(planned) != 1:
        raise UsageError(
            "nodes runs one case on each node.", "Name one framework, and one batch size."
        )
    set_name = checked_set_name(request.resume or request.set_name or connections.new_set_name())
    chosen, left_out = _chosen(planned[0], target, selector)
    for node, why in left_out.items():
        reporter.note(f"left out: node {node}: {why}.")
    pinned = _pinned(planned[0], chosen)
    if request.resume is None:
        request = msgspec.structs.replace(request, set_name=set_name)
    rows = submit.run(submit.resolve(pinned, request, target, chosen), reporter, stop)
    assert isinstance(rows, RunRows), "nodes are never detached"

    def judged(rows: RunRows) -> JudgedNodes:
        groups = grouping.groups(rows.runs)
        return node_check.check(node_check.figures(chosen, groups, rows.runs))

    found = judged(rows)
    if found.to_confirm:
        reporter.note(f"Once more, as one run may be slow: {', '.join(found.to_confirm)}.")
        case = msgspec.structs.replace(planned[0], repeats=planned[0].repeats + 1)
        twice = _pinned(case, found.to_confirm)
        request = msgspec.structs.replace(request, resume=set_name, set_name=None)
        again = submit.run(submit.resolve(twice, request, target, found.to_confirm), reporter, stop)
        assert isinstance(again, RunRows), "nodes are never detached"
        rows = joined(rows, again)
        found = judged(rows)
    remarked = tuple(group_words.remarked(rows.report.results, found))
    report = msgspec.structs.replace(rows.report, results=remarked)
    return found, msgspec.structs.replace(rows, report=report)


def _pinned(case: PlannedCase, nodes: Sequence[str]) -> list[PlannedCase]:
    """Return the same case once for each node alone."""
    return [case.on_node(node) for node in nodes]


def _chosen(
    case: PlannedCase, target: RunTarget, selector: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the nodes to be measured, by name, and why others are not."""
    from k8sbench.adapters.kubernetes import listing
    from k8sbench.diagnose.preflight.nodes import refusal

    assert target.api is not None
    pool = case.draft.pool
    labelled = listing.nodes(target.api, pool.selector, selector)
    refusals = {name_of(node): refusal(node, case.draft) for node in labelled}
    left_out = {name: why for name, why in sorted(refusals.items()) if why is not None}
    fitting = sorted(refusals.keys() - left_out.keys())
    if not fitting:
        raise _none(pool.name, selector, left_out)
    return tuple(fitting), left_out


def _none(pool: str, selector: str, left_out: dict[str, str]) -> BenchError:
    also = f" that -l {selector} selects" if selector else ""
    few = "; ".join(f"{node}: {why}" for node, why in [*left_out.items()][:FEW])
    return NotFound(
        f"No node of pool {pool}{also} takes the case{f' ({few})' if few else ''}.",
        "Choose another --node-pool, or --gpus that a node has;"
        " 'kubectl get nodes --show-labels' shows them.",
    )

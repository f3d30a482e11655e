"""Which nodes of a pool are slow: one case, measured on each node, against the others.

The rule, for the n nodes that were measured alike (same GPU model, precision and estimator):

- The *centre* is the median of their throughputs, the *noise* 1.4826 × the median absolute
  deviation from it, relative to it: the standard deviation, if the nodes were equal and their
  differences normal. Nodes that are slow move neither while they are fewer than half.
- A node is *slow* where it is below the centre by more than the limit:
  max(3 %, z × (1 + 4/n) × noise), where z is the normal quantile of 1 − α/n. So the slowest of n
  equal nodes is beyond it in about α of all sweeps; 4/n makes up for a noise that was itself
  estimated from n nodes. α is 5 %.

Fewer than five nodes show no noise, and none of them is judged. A node whose GPUs reported an XID
error or an uncorrected ECC error, or were throttled by heat or a power brake, is *faulty* whatever
its throughput. Smoke runs claim no speed: there are faults, and no slow nodes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from k8sbench.model.counts import counted
from k8sbench.model.gpu_metrics import METRICS
from k8sbench.model.group import Group
from k8sbench.model.measurement import GpuOfRun, Measurement
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run

FEWEST = 5
"""Nodes from which their noise can be estimated."""
LEAST = 0.03
"""No smaller difference is worth a cordon; runs of one node differ by 1 % and more."""
FALSE_ALARMS = 0.05
"""Share of sweeps over equal nodes in which any is called slow, at most about."""
NORMAL = 1.4826
"""Standard deviation ÷ median absolute deviation of a normal distribution."""
SMALL_POOL = 4.0
"""Chosen by simulation, so that small pools have no more false alarms than large ones."""

State = Literal["ok", "slow", "faulty", "not-judged", "not-measured"]


class NodeGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of a node in the latest run that has metrics of it."""

    index: str | None
    """The driver's index; None if the source does not report it."""
    uuid: str | None
    """The driver's UUID; None as above."""
    model: str | None
    """As the driver names it; None as above."""
    figures: dict[str, float]
    """By metric."""


class NodeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured on one node."""

    node: str
    """Its name."""
    throughput: float | None = None
    """Of the job, the median over the node's valid runs; None without a valid run."""
    gpus: tuple[NodeGpu, ...] = ()
    """Its GPUs, from the latest run that has GPU metrics."""
    xid: tuple[int, ...] | None = None
    """XID codes that appeared; None if no source reports them."""
    missing: dict[str, str] = {}
    """GPU metric → why there is no figure of it."""
    reason: str | None = None
    """Why there is no throughput; None where there is."""
    faults: tuple[str, ...] = ()
    """What its GPUs reported, a sentence each."""
    alike: tuple[str, ...] = ()
    """GPU model, precision in effect and estimator: only nodes with equal ones are compared."""
    smoke: bool = False
    """Whether its runs were smoke runs."""


class NodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes that were measured alike were held to."""

    alike: tuple[str, ...]
    """GPU model, precision in effect and estimator of the nodes that were compared."""
    nodes: int
    """How many nodes were compared."""
    centre: float
    """Median throughput."""
    noise: float | None
    """Relative; None for fewer than :data:`FEWEST` nodes."""
    limit: float | None
    """How far below the centre a node is slow, 0.03 for 3 %; None as above."""
    reason: str | None = None
    """Why nodes were not judged; None where they were."""


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node in ``nodes -o json``."""

    node: str
    """Its name."""
    state: str
    """``ok``, ``slow``, ``faulty``, ``not-judged`` or ``not-measured``."""
    throughput: float | None
    """Of the job, the median over the node's valid runs; None without a valid run: ``why`` has the
    reason."""
    to_pool: float | None
    """Throughput ÷ the pool's median − 1; None as above, and for smoke runs."""
    why: tuple[str, ...]
    """A sentence for each reason of the state."""
    gpus: tuple[NodeGpu, ...]
    """Its GPUs, from the latest run that has GPU metrics."""
    xid: tuple[int, ...] | None
    """XID codes that appeared; None if no source reports them."""
    missing: dict[str, str]
    """GPU metric → why there is no figure of it."""


class NodeCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on all nodes, in the order of the nodes."""

    nodes: tuple[NodeRow, ...]
    limits: tuple[NodeLimits, ...]

    @property
    def to_cordon(self) -> tuple[str, ...]:
        """Names of the nodes that are slow or faulty."""
        return tuple(row.node for row in self.nodes if row.state in ("slow", "faulty"))


def check(figures: Sequence[NodeFigures]) -> NodeCheck:
    """Judge nodes by the rule above."""
    kinds: dict[tuple[str, ...], list[float]] = {}
    for node in figures:
        if node.throughput is not None and not node.smoke:
            kinds.setdefault(node.alike, []).append(node.throughput)
    limits = {alike: _limits(alike, rates) for alike, rates in kinds.items()}
    verdicts = tuple(_verdict(node, limits) for node in figures)
    return NodeCheck(nodes=verdicts, limits=tuple(limits.values()))


def _limits(alike: tuple[str, ...], rates: Sequence[float]) -> NodeLimits:
    centre, count = statistics.median(rates), len(rates)
    if count < FEWEST:
        measured = counted(count, "node", ("was", "were"))
        few = f"fewer than {FEWEST} do not show how much equal nodes differ"
        return NodeLimits(
            alike=alike,
            nodes=count,
            centre=centre,
            noise=None,
            limit=None,
            reason=f"{measured} measured alike; {few}.",
        )
    noise = NORMAL * statistics.median(abs(rate / centre - 1) for rate in rates)
    quantile = statistics.NormalDist().inv_cdf(1 - FALSE_ALARMS / count)
    limit = max(LEAST, quantile * (1 + SMALL_POOL / count) * noise)
    return NodeLimits(alike=alike, nodes=count, centre=centre, noise=noise, limit=limit)


def _verdict(node: NodeFigures, limits: Mapping[tuple[str, ...], NodeLimits]) -> NodeRow:
    state: State = "ok"
    to_pool, why = None, node.faults
    if node.throughput is None:
        state, why = "not-measured", (node.reason,) if node.reason else ()
    elif node.smoke:
        state, why = "not-judged", ("A smoke run checks the path, not the speed.",)
    else:
        held = limits[node.alike]
        to_pool = node.throughput / held.centre - 1
        if held.limit is not None and -to_pool > held.limit:
            state = "slow"
            text = f"It is {-to_pool:.1%} below the median of {held.nodes} nodes; the limit is"
            why = (*why, f"{text} {held.limit:.1%}.")
        elif held.reason is not None:
            state, why = "not-judged", (held.reason,)
    if node.faults:
        slow = state == "slow"
        state, why = "faulty", why if slow else node.faults
    return NodeRow(
        node=node.node,
        state=state,
        throughput=node.throughput,
        to_pool=to_pool,
        why=why,
        gpus=node.gpus,
        xid=node.xid,
        missing=node.missing,
    )


FAULTS = ("gpu-throttled", "xid-error")
"""Ids of the reasons that are of the node's GPUs, whatever the throughput."""
OF_GPUS = tuple(metric.id for metric in METRICS if metric.is_of_nodes)
"""The metrics that are shown of a node's GPUs."""


def figures(
    nodes: Sequence[str], groups: Sequence[Group], runs: Sequence[Run]
) -> tuple[NodeFigures, ...]:
    """Say of each node what was measured, and what its GPUs did in the latest run that knows it."""
    return tuple(
        _figures(
            node,
            [group for group in groups if group.key.node == node],
            [run for run in runs if run.plan.node == node],
        )
        for node in nodes
    )


def _figures(node: str, groups: Sequence[Group], runs: Sequence[Run]) -> NodeFigures:
    group = next((candidate for candidate in groups if candidate.spread is not None), None)
    measured = [run.measurement for run in runs if run.measurement is not None]
    latest = next((m for m in reversed(measured) if m.gpu_metrics is not None), None)
    known = NodeFigures(
        node=node,
        faults=tuple(dict.fromkeys(_faults(runs))),
        missing=_missing(latest or (measured[-1] if measured else None)),
    )
    if latest is not None and (metrics := latest.gpu_metrics) is not None:
        xid = metrics.figures.get("xid")
        known = msgspec.structs.replace(
            known, gpus=tuple(map(_gpu, metrics.gpus)), xid=None if xid is None else xid.codes
        )
    if group is None or group.spread is None:
        return msgspec.structs.replace(known, reason=_why_not(groups, runs))
    return msgspec.structs.replace(
        known,
        throughput=group.spread.median,
        alike=(group.key.gpu_model, group.key.precision_effective, group.estimator),
        smoke=group.smoke,
    )


def _faults(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        if (measured := run.measurement) is None:
            continue
        for reason in measured.reasons:
            if reason.id in FAULTS and not reason.accepted:
                yield reason.sentence
        for gpu in measured.gpu_metrics.gpus if measured.gpu_metrics is not None else ():
            if errors := gpu.figures.get("ecc_errors"):
                name = gpu.gpu.index or gpu.gpu.uuid
                yield f"GPU {name} had {errors:.0f} memory errors that ECC could not correct."


def _why_not(groups: Sequence[Group], runs: Sequence[Run]) -> str:
    """Say why a node has no figure: the first reason of its runs."""
    for group in groups:
        for member in group.members:
            for reason in member.reasons:
                if reason.severity == "reject" and not reason.accepted:
                    return f"{reason.id}: {reason.sentence}"
    for run in runs:
        if run.phase is not Phase.SUCCEEDED:
            return f"{run.phase}: {run.history[-1].cause}"
    return "No run of it was started."


def _gpu(gpu: GpuOfRun) -> NodeGpu:
    figures = {name: gpu.figures[name] for name in OF_GPUS if name in gpu.figures}
    return NodeGpu(index=gpu.gpu.index, uuid=gpu.gpu.uuid, model=gpu.gpu.model, figures=figures)


def _missing(measured: Measurement | None) -> dict[str, str]:
    """Say which metrics a node has no figure of, and why."""
    if measured is None:
        return dict.fromkeys(OF_GPUS, "It was not measured.")
    if measured.gpu_metrics is None:
        why = measured.missing.get("gpu_metrics")
        return dict.fromkeys(OF_GPUS, why or "No source of GPU metrics was queried.")
    return {
        name: measured.missing.get(f"gpu_metrics.{name}", "No source has it.")
        for name in OF_GPUS
        if name not in measured.gpu_metrics.figures
    }

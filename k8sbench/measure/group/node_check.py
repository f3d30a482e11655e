"""Which nodes of a pool are slow: one case, measured on each node, against the others.

The rule, for the n nodes that were measured alike (same GPU model, precision and estimator):

- The *centre* is the median of their throughputs, the *noise* 1.4826 × the median absolute
  deviation from it, relative to it: the standard deviation, if the nodes were equal and their
  differences normal. Nodes that are slow move neither while they are fewer than half.
- A node is *slow* where it is below the centre by more than the limit:
  max(3 %, z × (1 + 4/n) × noise), where z is the normal quantile of 1 − α/n. So the slowest of n
  equal nodes is beyond it in about α of all sweeps; 4/n makes up for a noise that was itself
  estimated from n nodes. α is 5 %.
- Normal noise or not, a node is slow only if each of two or more runs is below the limit: one run
  of equal nodes whose noise has heavy tails is beyond it in half of all sweeps over 100 nodes.

Fewer than five nodes show no noise, and none of them is judged. A node whose GPUs reported an XID
error or an uncorrected ECC error, or were throttled by heat or a power brake, is *faulty* whatever
its throughput. Smoke runs claim no speed: there are faults, and no slow nodes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from k8sbench.model.counts import counted
from k8sbench.model.gpu_metrics import METRICS
from k8sbench.model.group import Group
from k8sbench.model.measurement import SCHEMA, GpuOfRun, Measurement
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

UNCONFIRMED = "One run does not tell a slow node from a slow run."

State = Literal["ok", "slow", "faulty", "not-judged", "not-measured"]


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node in ``nodes -o json``."""

    node: str
    """Its name."""
    state: State = "ok"
    """``ok``, ``slow``, ``faulty``, ``not-judged`` or ``not-measured``."""
    throughput: float | None = None
    """Of the job, the median over the node's valid runs; None without a valid run: ``why`` has the
    reason."""
    fastest: float | None = None
    """Throughput of the fastest of several valid runs; None where there are not several."""
    alike: tuple[str, ...] = ()
    """GPU model, precision in effect and estimator: only nodes with equal ones are compared; empty
    without a throughput, and of smoke runs."""
    to_pool: float | None = None
    """Throughput ÷ the median of the nodes that it is compared with − 1; None where it is with
    none."""
    why: tuple[str, ...] = ()
    """A sentence for each reason of the state."""
    gpus: tuple[GpuOfRun, ...] = ()
    """Its GPUs, from the latest run that has GPU metrics."""
    xid: tuple[int, ...] | None = None
    """XID codes that appeared; None if no source reports them."""
    missing: dict[str, str] = {}
    """GPU metric → why there is no figure of it."""

    def values(self, metric: str) -> list[float]:
        """Return a metric of those of its GPUs that have it."""
        return [one.figures[metric] for one in self.gpus if metric in one.figures]


class NodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes that were measured alike were held to."""

    alike: tuple[str, ...]
    """GPU model, precision in effect and estimator of the nodes that were compared."""
    nodes: int
    """How many nodes were compared."""
    centre: float
    """Median throughput."""
    noise: float | None = None
    """Relative; None for fewer than :data:`FEWEST` nodes."""
    limit: float | None = None
    """How far below the centre a node is slow, 0.03 for 3 %; None as above."""
    reason: str | None = None
    """Why nodes were not judged; None where they were."""


class NodesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What ``nodes -o json`` prints."""

    schema: int = SCHEMA
    """Version of the document."""
    set_name: str
    """The set of the runs."""
    unit: str
    """Of the throughputs: ``images/s``, …."""
    nodes: tuple[NodeRow, ...]
    """The nodes that were measured, by name."""
    limits: tuple[NodeLimits, ...]
    """What the nodes were held to, one for each GPU model."""
    to_cordon: tuple[str, ...]
    """Names of the slow and the faulty nodes."""
    to_confirm: tuple[str, ...]
    """Names of the nodes that would be slow, but have one valid run."""
    left_out: dict[str, str]
    """Node → why it was not measured."""


def check(
    rows: Sequence[NodeRow], *, set_name: str, unit: str, left_out: dict[str, str]
) -> NodesDocument:
    """Judge nodes by the rule above."""
    kinds: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        if row.throughput is not None and row.alike:
            kinds.setdefault(row.alike, []).append(row.throughput)
    limits = {alike: _limits(alike, rates) for alike, rates in kinds.items()}
    judged = tuple(_judged(row, limits.get(row.alike)) for row in rows)
    return NodesDocument(
        set_name=set_name,
        unit=unit if "/" in unit else f"{unit}/s",
        nodes=judged,
        limits=tuple(limits.values()),
        to_cordon=tuple(row.node for row in judged if row.state in ("slow", "faulty")),
        to_confirm=tuple(row.node for row in judged if UNCONFIRMED in row.why),
        left_out=left_out,
    )


def _limits(alike: tuple[str, ...], rates: Sequence[float]) -> NodeLimits:
    centre, count = statistics.median(rates), len(rates)
    if count < FEWEST:
        measured = counted(count, "node", ("was", "were"))
        few = f"fewer than {FEWEST} do not show how much equal nodes differ"
        why = f"{measured} measured alike; {few}."
        return NodeLimits(alike=alike, nodes=count, centre=centre, reason=why)
    noise = NORMAL * statistics.median(abs(rate / centre - 1) for rate in rates)
    quantile = statistics.NormalDist().inv_cdf(1 - FALSE_ALARMS / count)
    limit = max(LEAST, quantile * (1 + SMALL_POOL / count) * noise)
    return NodeLimits(alike=alike, nodes=count, centre=centre, noise=noise, limit=limit)


def _judged(row: NodeRow, held: NodeLimits | None) -> NodeRow:
    if held is None or row.throughput is None:
        return row
    to_pool = row.throughput / held.centre - 1
    row = msgspec.structs.replace(row, to_pool=to_pool)
    if held.limit is not None and -to_pool > held.limit:
        text = f"It is {-100 * to_pool:.1f} % below the median of {held.nodes} nodes; the limit is"
        why = (*row.why, f"{text} {100 * held.limit:.1f} %.")
        if row.state != "ok":
            return msgspec.structs.replace(row, why=why)
        if row.fastest is None:
            return msgspec.structs.replace(row, state="not-judged", why=(*why, UNCONFIRMED))
        if 1 - row.fastest / held.centre > held.limit:
            return msgspec.structs.replace(row, state="slow", why=why)
    if held.reason is not None and row.state == "ok":
        return msgspec.structs.replace(row, state="not-judged", why=(held.reason,))
    return row


FAULTS = ("gpu-throttled", "xid-error")
"""Ids of the reasons that are of the node's GPUs, whatever the throughput."""
OF_GPUS = tuple(metric.id for metric in METRICS if metric.is_of_nodes)
"""The metrics that are shown of a node's GPUs."""


def figures(nodes: Sequence[str], groups: Sequence[Group], runs: Sequence[Run]) -> list[NodeRow]:
    """Say of each node what was measured, and what its GPUs did in the latest run that knows it."""
    return [_figures(node, groups, runs) for node in nodes]


def _figures(node: str, groups: Sequence[Group], runs: Sequence[Run]) -> NodeRow:
    groups = [group for group in groups if group.key.node == node]
    runs = [run for run in runs if run.plan.node == node]
    group = next((candidate for candidate in groups if candidate.spread is not None), None)
    measured = [run.measurement for run in runs if run.measurement is not None]
    latest = next((m for m in reversed(measured) if m.gpu_metrics is not None), None)
    metrics = latest and latest.gpu_metrics
    xid = metrics and metrics.figures.get("xid")
    spread = group and group.spread
    alike: tuple[str, ...] = ()
    if group is not None and not group.smoke:
        alike = (group.key.gpu_model, group.key.precision_effective, group.estimator)
    state: State = "ok"
    why = tuple(dict.fromkeys(_faults(runs)))
    if why:
        state = "faulty"
    elif group is None:
        state, why = "not-measured", (_why_not(groups, runs),)
    elif group.smoke:
        state, why = "not-judged", ("A smoke run checks the path, not the speed.",)
    return NodeRow(
        node=node,
        state=state,
        throughput=spread.median if spread else None,
        fastest=spread.maximum if group and spread and group.counted > 1 else None,
        alike=alike,
        why=why,
        gpus=metrics.gpus if metrics else (),
        xid=xid.codes if xid else None,
        missing=_missing(latest or (measured[-1] if measured else None)),
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

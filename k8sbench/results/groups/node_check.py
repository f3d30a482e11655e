"""Slow nodes of a pool: one case, measured on each node.

The rule, for the n nodes that were measured alike (same GPU model, precision and estimator):

- A node counts by its fastest run. It is held against the nodes that are faster than it, if they
  are more than half. Their mean is the *centre*, their standard deviation, relative to it, the
  *noise*. Nodes that are slow move neither while they are fewer than half. A node that is above the
  median by 15 times the median absolute deviation is left out.
- A node is *slow* where each of two or more runs of it is below the centre by more than the limit:
  max(0.5 %, max(5, t) × √(1 + 1/m) × noise). m is the number of faster nodes, k that of the others,
  and t the quantile of Student's t with m − 1 degrees of freedom of 1 − α ÷ (n × k²), α = 0.85 %.
  Nodes slower than a slow node are slow.

t is for nodes that differ normally. The 5 and the second run are for runs with heavy tails: with
those of three degrees of freedom one run in 600 is slower by five times the noise, but only one of
400,000 pairs. So up to some thousand nodes fewer than 1 % of sweeps name a good node. Where nodes
themselves differ with such tails, it is more: a good node that is far slower than the others in
each run is named. A limit that spares it finds no node at eight times the noise.

Fewer than five nodes show no noise, and none of them is judged. A node whose GPUs reported an XID
error or an uncorrected ECC error, or were throttled by heat or a power brake, is *faulty* whatever
its throughput. Smoke runs claim no speed: there are faults, and no slow nodes.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from k8sbench.model.group import Group
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import counted
from k8sbench.model.run import Run
from k8sbench.results.groups.t_test import Estimate

FEWEST = 5
"""Nodes from which their noise can be estimated."""
FAR = 15.0
"""Distance above the median from which a node says nothing of the others.

A multiple of the median absolute deviation.
"""
LEAST = 0.005
"""Smallest limit: four times the noise of 93 hosts with public logs.

They differ by 0.12 %, and the runs of one host by 0.04 %.
"""
ALPHA = 0.0085
"""Share of sweeps over equal nodes in which one run of the slowest is below its limit.

Among eight nodes 1 % of sweeps then name a good one, with what the others add, and a node that is
slower by ten times the noise is found in 99 %.
"""
LEAST_NOISES = 5.0
"""Smallest limit, as a multiple of the noise.

From 32 nodes on a node that is slower by eight times the noise is still found in 99 %.
"""

UNCONFIRMED = "One run does not tell a slow node from a slow run."

SLOW_CLOCK = 0.95
"""Share of the fastest GPU's clock below which a GPU is named."""

State = Literal["ok", "slow", "faulty", "not-judged", "not-measured"]


class NodeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one node, and its verdict."""

    node: str
    state: State = "ok"
    throughput: float | None = None
    """Median throughput of the node's valid runs, of the job; None without one."""
    fastest: float | None = None
    """Throughput of the fastest of several valid runs; None where there are not several."""
    alike: tuple[str, ...] = ()
    """GPU model, effective precision and estimator; equal nodes are compared.

    Empty without a throughput, and for smoke runs.
    """
    why: tuple[str, ...] = ()
    """A sentence for each reason of the state."""
    slow_gpus: tuple[str, ...] = ()
    """A sentence for each of its GPUs that was slower than another."""


class NodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for nodes that were measured alike."""

    alike: tuple[str, ...]
    nodes: int
    """Number of compared nodes."""
    against: int
    """Number of the nodes that slower ones are held against."""
    centre: float
    """Their mean throughput."""
    noise: float | None = None
    """Their relative standard deviation; None for fewer than :data:`FEWEST` nodes."""
    limit: float | None = None
    """Limit below the centre, 0.005 for 0.5 %; None as above."""
    reason: str | None = None
    """Reason why nodes were not judged; None if they were."""


class JudgedNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a pool, and what they were held to."""

    nodes: tuple[NodeFigures, ...]
    limits: tuple[NodeLimits, ...]
    """One for each GPU model."""

    @property
    def to_cordon(self) -> tuple[str, ...]:
        """Names of the slow and the faulty nodes."""
        return tuple(one.node for one in self.nodes if one.state in ("slow", "faulty"))

    @property
    def to_confirm(self) -> tuple[str, ...]:
        """Names of the nodes that would be slow, but have one valid run."""
        return tuple(one.node for one in self.nodes if UNCONFIRMED in one.why)


def check(nodes: Sequence[NodeFigures]) -> JudgedNodes:
    """Judge nodes by the rule above."""
    kinds: dict[tuple[str, ...], list[float]] = {}
    for one in nodes:
        if one.throughput is not None and one.alike:
            # Of several runs the fastest: a run that was slow once makes no noise for others.
            kinds.setdefault(one.alike, []).append(one.fastest or one.throughput)
    limits = {alike: _limits(alike, rates) for alike, rates in kinds.items()}
    judged = tuple(_judged(one, limits.get(one.alike)) for one in nodes)
    return JudgedNodes(nodes=judged, limits=tuple(limits.values()))


def _limits(alike: tuple[str, ...], rates: Sequence[float]) -> NodeLimits:
    count = len(rates)
    if count < FEWEST:
        measured = counted(count, "node", ("was", "were"))
        few = f"fewer than {FEWEST} do not show how much equal nodes differ"
        why = f"{measured} measured alike; {few}."
        centre = statistics.fmean(rates)
        return NodeLimits(alike=alike, nodes=count, against=count, centre=centre, reason=why)
    ordered = _without_far_faster(rates)
    fastest = ordered[0]
    behind = [1 - rate / fastest for rate in ordered]
    sums = [*itertools.accumulate(behind)]
    squares = [*itertools.accumulate(share * share for share in behind)]
    for against in range(min(count // 2, len(ordered) - 2) + 1, len(ordered)):
        mean = sums[against - 1] / against
        centre = fastest * (1 - mean)
        spread = max(0.0, squares[against - 1] - against * mean**2) / (against - 1)
        estimate = Estimate(spread * (fastest / centre) ** 2 * (1 + 1 / against), against - 1)
        limit = max(LEAST, LEAST_NOISES * math.sqrt(estimate.variance))
        is_far = ordered[against] < centre * (1 - limit)
        if is_far or against == len(ordered) - 1:
            # The level is one-sided, and spent over the nodes that may be slow.
            level = 2 * ALPHA / count / (len(ordered) - against) ** 2
            limit = max(limit, estimate.critical(level))
        if is_far and ordered[against] < centre * (1 - limit):
            break
    return NodeLimits(
        alike=alike,
        nodes=count,
        against=against,
        centre=centre,
        noise=math.sqrt(estimate.variance / (1 + 1 / against)),
        limit=limit,
    )


def _without_far_faster(rates: Sequence[float]) -> list[float]:
    """Return the throughputs, largest first, without those that are far above the median."""
    median = statistics.median(rates)
    deviation = statistics.median(abs(rate - median) for rate in rates)
    most = median + max(FAR * deviation, LEAST * median)
    return sorted((rate for rate in rates if rate <= most), reverse=True)


def _judged(one: NodeFigures, held: NodeLimits | None) -> NodeFigures:
    if held is None or one.throughput is None:
        return one
    below = 1 - one.throughput / held.centre
    if held.limit is not None and below > held.limit:
        text = f"It is {100 * below:.1f} % below the mean of {held.against} other nodes;"
        why = (*one.why, f"{text} the limit is {100 * held.limit:.1f} %.")
        if one.state != "ok":
            return msgspec.structs.replace(one, why=why)
        if one.fastest is None:
            return msgspec.structs.replace(one, state="not-judged", why=(*why, UNCONFIRMED))
        if 1 - one.fastest / held.centre > held.limit:
            return msgspec.structs.replace(one, state="slow", why=why)
    if held.reason is not None and one.state == "ok":
        return msgspec.structs.replace(one, state="not-judged", why=(held.reason,))
    return one


FAULTS = ("gpu-throttled", "xid-error")
"""Ids of the reasons that are of the node's GPUs, whatever the throughput."""


def figures(
    nodes: Sequence[str], groups: Sequence[Group], runs: Sequence[Run]
) -> list[NodeFigures]:
    """Return each node's figures, with its faulty or slow GPUs."""
    return [_figures(node, groups, runs) for node in nodes]


def _figures(node: str, groups: Sequence[Group], runs: Sequence[Run]) -> NodeFigures:
    groups = [group for group in groups if group.key.node == node]
    runs = [run for run in runs if run.planned is not None and run.planned.node == node]
    group = next((candidate for candidate in groups if candidate.spread is not None), None)
    measured = [run.measurement for run in runs if run.measurement is not None]
    spread = group and group.spread
    alike: tuple[str, ...] = ()
    if group is not None and not group.smoke:
        alike = (group.key.gpu_model, group.key.precision_effective, group.estimator)
    state: State = "ok"
    why = tuple(dict.fromkeys(_faults(measured)))
    if why:
        state = "faulty"
    elif group is None:
        state = "not-measured"
        why = (_why_not(groups, runs),)
    elif group.smoke:
        state = "not-judged"
        why = ("A smoke run is a functional test, not a speed measurement.",)
    return NodeFigures(
        node=node,
        state=state,
        throughput=spread.median if spread else None,
        fastest=spread.maximum if group and spread and group.counted > 1 else None,
        alike=alike,
        why=why,
        slow_gpus=tuple(_slow_gpus(measured)),
    )


def _faults(measured: Sequence[Measurement]) -> Iterator[str]:
    for one in measured:
        for reason in one.reasons:
            if reason.id in FAULTS and not reason.accepted:
                yield reason.sentence
        for gpu in one.gpu_metrics.gpus if one.gpu_metrics is not None else ():
            if errors := gpu.figures.get("ecc_errors"):
                name = gpu.gpu.index or gpu.gpu.uuid
                yield f"GPU {name} had {errors:.0f} memory errors that ECC could not correct."


def _slow_gpus(measured: Sequence[Measurement]) -> Iterator[str]:
    """Yield slow GPUs of the node's latest run, by their clock."""
    gpus = next((m.gpu_metrics.gpus for m in reversed(measured) if m.gpu_metrics), ())
    clocks = {one.gpu.index or one.gpu.uuid: one.figures.get("sm_clock") for one in gpus}
    most = max((clock for clock in clocks.values() if clock is not None), default=0.0)
    for name, clock in clocks.items():
        if clock is not None and clock < SLOW_CLOCK * most:
            yield f"Its GPU {name} ran at {clock:.0f} MHz, another at {most:.0f} MHz."


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

"""Which nodes of a pool are slow: one case, measured on each node, against the others and before.

The rule, for the n nodes that were measured alike (same GPU model, precision and estimator):

- The *centre* is the median of their throughputs, the *noise* 1.4826 × the median absolute
  deviation from it, relative to it: the standard deviation, if the nodes were equal and their
  differences normal. Nodes that are slow move neither while they are fewer than half.
- A node is *slow* where it is below the centre by more than the limit:
  max(3 %, z × (1 + 4/n) × noise), where z is the normal quantile of 1 − α/n. So the slowest of n
  equal nodes is beyond it in about α of all sweeps; 4/n makes up for a noise that was itself
  estimated from n nodes. α is 5 %.
- Against a baseline the same is done with the ratios now ÷ before of the nodes that both have, and
  α is divided between the two. That the *whole pool* is slower than before (its median ratio below
  0.97) is said of the pool, and names no node.

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


class NodeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured on one node."""

    node: str
    rate: float | None = None
    """Throughput of the job, the median over its valid runs; None: see ``reason``."""
    reason: str | None = None
    """Why there is no rate."""
    before: float | None = None
    """The same in the baseline's set."""
    faults: tuple[str, ...] = ()
    """What its GPUs reported, a sentence each."""
    alike: tuple[str, ...] = ()
    """GPU model, precision in effect and estimator: only nodes with equal ones are compared."""
    smoke: bool = False


class NodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes that were measured alike were held to."""

    alike: tuple[str, ...]
    """GPU model, precision in effect and estimator of the nodes that were compared."""
    nodes: int
    """How many nodes were compared."""
    centre: float | None
    """Median throughput; None for no node."""
    noise: float | None
    """Relative; None for fewer than :data:`FEWEST` nodes."""
    limit: float | None
    """How far below the centre a node is slow, 0.03 for 3 %; None as above."""
    centre_before: float | None = None
    """Median of now ÷ before; None without a node that both sets have."""
    nodes_before: int = 0
    """Nodes that both sets have."""
    limit_before: float | None = None
    """As ``limit``, for now ÷ before; None for fewer than 5 such nodes."""
    reason: str | None = None
    """Why nodes were not judged; None where they were."""


class NodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One node, and what is to be said of it."""

    node: str
    state: State
    to_pool: float | None = None
    """Its throughput ÷ the pool's median − 1."""
    to_baseline: float | None = None
    """Its throughput ÷ that of the baseline − 1."""
    why: tuple[str, ...] = ()
    """A sentence for each reason of the state."""


class NodeCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on all nodes, in the order of the nodes."""

    nodes: tuple[NodeVerdict, ...]
    limits: tuple[NodeLimits, ...]
    slower_than_before: tuple[str, ...] = ()
    """A sentence for each kind of node that is slower as a whole than in the baseline."""

    @property
    def to_cordon(self) -> tuple[str, ...]:
        """Names of the nodes that are slow or faulty."""
        return tuple(node.node for node in self.nodes if node.state in ("slow", "faulty"))


def check(figures: Sequence[NodeFigures], *, against: str | None = None) -> NodeCheck:
    """Judge nodes by the rule above; ``against`` names the baseline's set for the sentences."""
    kinds: dict[tuple[str, ...], list[NodeFigures]] = {}
    for node in figures:
        if node.rate is not None and not node.smoke:
            kinds.setdefault(node.alike, []).append(node)
    tests = 2 if against is not None else 1
    limits = {alike: _limits(alike, some, tests) for alike, some in kinds.items()}
    slower = tuple(
        f"The pool as a whole is {1 - bounds.centre_before:.1%} slower than in {against}: look for"
        " what changed on all nodes (driver, image, power limit), not for one node."
        for bounds in limits.values()
        if bounds.centre_before is not None
        and bounds.limit_before is not None
        and bounds.centre_before < 1 - LEAST
    )
    return NodeCheck(
        nodes=tuple(_verdict(node, limits, against) for node in figures),
        limits=tuple(limits.values()),
        slower_than_before=slower,
    )


def limit(values: Sequence[float], tests: int = 1) -> tuple[float, float] | None:
    """Noise of at least :data:`FEWEST` values, and how far below the median one is an outlier.

    Both relative to the median; None for fewer values. With ``tests`` the false alarms are divided
    between so many.
    """
    if len(values) < FEWEST:
        return None
    centre, count = statistics.median(values), len(values)
    noise = NORMAL * statistics.median(abs(value / centre - 1) for value in values)
    quantile = statistics.NormalDist().inv_cdf(1 - FALSE_ALARMS / tests / count)
    return noise, max(LEAST, quantile * (1 + SMALL_POOL / count) * noise)


def _limits(alike: tuple[str, ...], some: Sequence[NodeFigures], tests: int) -> NodeLimits:
    rates = [node.rate for node in some if node.rate is not None]
    ratios = [ratio for node in some if (ratio := _ratio(node)) is not None]
    now, before = limit(rates, tests), limit(ratios, tests)
    reasons = []
    few = f"fewer than {FEWEST} do not show how much equal nodes differ"
    if now is None:
        measured = counted(len(rates), "node", ("was", "were"))
        reasons.append(f"{measured} measured alike; {few}.")
    if tests > 1 and before is None:
        known = counted(len(ratios), "node", ("has", "have"))
        reasons.append(f"{known} a figure in the baseline, too; {few}.")
    return NodeLimits(
        alike=alike,
        nodes=len(rates),
        centre=statistics.median(rates),
        noise=None if now is None else now[0],
        limit=None if now is None else now[1],
        centre_before=statistics.median(ratios) if ratios else None,
        nodes_before=len(ratios),
        limit_before=None if before is None else before[1],
        reason=" ".join(reasons) or None,
    )


def _verdict(
    node: NodeFigures, limits: Mapping[tuple[str, ...], NodeLimits], against: str | None
) -> NodeVerdict:
    held = limits.get(node.alike) if node.rate is not None and not node.smoke else None
    to_pool = to_baseline = None
    slow: list[str] = []
    if held is not None and node.rate is not None and held.centre is not None:
        to_pool = node.rate / held.centre - 1
        ratio = _ratio(node)
        to_baseline = None if ratio is None else ratio - 1
        slow = list(_slowness(node, held, against))
    state: State = "ok"
    why: tuple[str, ...] = (*node.faults, *slow)
    if node.faults:
        state = "faulty"
    elif slow:
        state = "slow"
    elif node.rate is None:
        state, why = "not-measured", (node.reason,) if node.reason else ()
    elif node.smoke:
        state, why = "not-judged", ("A smoke run checks the path, not the speed.",)
    elif held is not None and held.limit is None and held.limit_before is None:
        state, why = "not-judged", (held.reason,) if held.reason else ()
    return NodeVerdict(
        node=node.node, state=state, to_pool=to_pool, to_baseline=to_baseline, why=why
    )


def _slowness(node: NodeFigures, held: NodeLimits, against: str | None) -> Iterator[str]:
    assert node.rate is not None
    if held.limit is not None and held.centre is not None:
        below = 1 - node.rate / held.centre
        if below > held.limit:
            yield (
                f"It is {below:.1%} below the median of {held.nodes} nodes; the limit is"
                f" {held.limit:.1%}."
            )
    ratio = _ratio(node)
    if ratio is not None and held.limit_before is not None and held.centre_before is not None:
        below = 1 - ratio / held.centre_before
        if below > held.limit_before:
            yield (
                f"It is {1 - ratio:.1%} slower than in {against}, where the pool changed by"
                f" {held.centre_before - 1:+.1%}; the limit is {held.limit_before:.1%} beyond that."
            )


def _ratio(node: NodeFigures) -> float | None:
    return node.rate / node.before if node.rate is not None and node.before else None


FAULTS = ("gpu-throttled", "xid-error")
"""Ids of the reasons that are of the node's GPUs, whatever the throughput."""
OF_GPUS = tuple(metric.id for metric in METRICS if metric.is_of_nodes)
"""The metrics that are shown of a node's GPUs."""


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


class NodeGpus(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPUs of a node did."""

    gpus: tuple[NodeGpu, ...] = ()
    xid: tuple[int, ...] | None = None
    """XID codes that appeared; None: see ``missing``."""
    missing: dict[str, str] = {}
    """Metric → why there is no figure of it."""

    def values(self, metric: str) -> tuple[float, ...]:
        """The metric's figure of each GPU that has one."""
        return tuple(gpu.figures[metric] for gpu in self.gpus if metric in gpu.figures)


def figures(
    nodes: Sequence[str], groups: Sequence[Group], runs: Sequence[Run], earlier: Sequence[Group]
) -> tuple[NodeFigures, ...]:
    """Say of each node what was measured, its faults, and what it had in an earlier set."""
    return tuple(
        _figures(
            node,
            [group for group in groups if group.key.node == node],
            [run for run in runs if run.plan.node == node],
            earlier,
        )
        for node in nodes
    )


def _figures(
    node: str, groups: Sequence[Group], runs: Sequence[Run], earlier: Sequence[Group]
) -> NodeFigures:
    faults = tuple(dict.fromkeys([*_faults(runs)]))
    group = next((candidate for candidate in groups if candidate.spread is not None), None)
    if group is None or group.spread is None:
        return NodeFigures(node=node, reason=_why_not(groups, runs), faults=faults)
    before = next((candidate for candidate in earlier if _comparable(candidate, group)), None)
    return NodeFigures(
        node=node,
        rate=group.spread.median,
        before=before.spread.median if before is not None and before.spread is not None else None,
        faults=faults,
        alike=_alike(group),
        smoke=group.smoke,
    )


def _alike(group: Group) -> tuple[str, ...]:
    key = group.key
    return key.gpu_model, key.precision_effective, group.estimator


def _comparable(earlier: Group, group: Group) -> bool:
    """Whether an earlier group is of the same node and case, measured in the same way."""
    same = earlier.key.only("series") == group.key.only("series")
    return same and _alike(earlier) == _alike(group)


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


def gpus(nodes: Sequence[str], runs: Sequence[Run]) -> tuple[NodeGpus, ...]:
    """Say of each node what its GPUs did in the latest run that knows it."""
    return tuple(_gpus([run for run in runs if run.plan.node == node]) for node in nodes)


def _gpus(runs: Sequence[Run]) -> NodeGpus:
    measured = [run.measurement for run in runs if run.measurement is not None]
    with_metrics = [measurement for measurement in measured if measurement.gpu_metrics is not None]
    if not with_metrics:
        why = measured[-1].missing.get("gpu_metrics") if measured else None
        text = why or "No source of GPU metrics was queried."
        return NodeGpus(
            missing=dict.fromkeys(OF_GPUS, text if measured else "It was not measured.")
        )
    latest = with_metrics[-1]
    metrics = latest.gpu_metrics
    assert metrics is not None
    xid = metrics.figures.get("xid")
    return NodeGpus(
        gpus=tuple(
            NodeGpu(
                index=gpu.gpu.index,
                uuid=gpu.gpu.uuid,
                model=gpu.gpu.model,
                figures={name: gpu.figures[name] for name in OF_GPUS if name in gpu.figures},
            )
            for gpu in metrics.gpus
        ),
        xid=None if xid is None else xid.codes,
        missing={
            name: latest.missing.get(f"gpu_metrics.{name}", "No source has it.")
            for name in OF_GPUS
            if name not in metrics.figures
        },
    )

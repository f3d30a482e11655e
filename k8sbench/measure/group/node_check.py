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

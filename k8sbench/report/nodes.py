"""Results of the check of a pool's nodes, per node and in sum."""

from __future__ import annotations

from collections.abc import Iterator

from k8sbench.measure.group.node_check import Judged, NodeLimits
from k8sbench.model.counts import counted
from k8sbench.report import formats


def remarks(found: Judged) -> dict[str, str]:
    """Map each node to cordon or to measure again → state and reason."""
    named = {*found.to_cordon, *found.to_confirm}
    return {
        one.node: f"{one.node} is {one.state}: {' '.join([*one.why, *one.slow_gpus])}"
        for one in found.nodes
        if one.node in named
    }


def sentences(found: Judged) -> Iterator[str]:
    """Yield the reference, the nodes to cordon, and the nodes without a verdict."""
    lacking = [one.node for one in found.nodes if one.state == "not-measured"]
    for held in found.limits:
        yield _rule(held)
    if found.to_cordon:
        yield "Check these nodes. To keep pods away from them (nothing was cordoned yet):"
        yield f"  kubectl cordon {' '.join(found.to_cordon)}"
    elif not found.to_confirm and any(held.limit is not None for held in found.limits):
        yield f"No node {'that was measured ' if lacking else ''}is slow or faulty."
    # Why nodes of a limit are not judged stands with it.
    said = {held.reason for held in found.limits}
    not_judged = [one for one in found.nodes if one.state == "not-judged"]
    not_judged = [one for one in not_judged if one.node not in found.to_confirm]
    yield from dict.fromkeys(why for one in not_judged for why in one.why if why not in said)
    if lacking:
        yield f"Not measured, and so not judged: {', '.join(lacking)}."


def _rule(held: NodeLimits) -> str:
    kind = f"{held.alike[0]}: " if held.alike and held.alike[0] != "-" else ""
    parts = [f"{kind}median {formats.rate(held.centre)} of {counted(held.nodes, 'node')}"]
    if held.limit is not None and held.noise is not None:
        noise, limit = formats.percent(held.noise), formats.percent(held.limit)
        parts.append(f"noise {noise}, slow is more than {limit} below")
    text = ", ".join(parts) + "."
    return f"{text} {held.reason}" if held.reason else text

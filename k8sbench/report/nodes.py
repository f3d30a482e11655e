"""The table by node, and its CSV: throughput, differences, what the GPUs did, verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from k8sbench.measure.group.node_check import NodeLimits, NodeRow, NodesDocument
from k8sbench.model.counts import ABSENT, counted
from k8sbench.report import formats
from k8sbench.report.tables import Cell, Table, absent
from k8sbench.report.text_table import Column

SLOW_CLOCK = 0.95
"""Of the fastest GPU's clock, below which a GPU of the same node is named."""


def table(found: NodesDocument) -> Table:
    """Make the table for people: slowest first, those without a figure last."""
    numbers = (found.unit.upper(), "TO POOL", "MHZ", "WATT", "ECC")
    columns = [Column("NODE", whole=True), *(Column(title, right=True) for title in numbers)]
    columns += [Column("XID"), Column("VERDICT", stays=True)]
    rows = sorted(found.nodes, key=lambda row: (row.throughput is None, row.throughput or 0.0))
    return Table(title=None, columns=tuple(columns), rows=tuple(tuple(_cells(row)) for row in rows))


def _cells(row: NodeRow) -> Iterator[Cell]:
    yield Cell(row.node)
    if row.throughput is None:
        yield absent(" ".join(row.why))
    else:
        yield Cell(formats.rate(row.throughput))
    yield Cell(ABSENT if row.to_pool is None else formats.signed_percent(row.to_pool))
    yield _range(row, "sm_clock")
    yield _range(row, "power")
    yield _range(row, "ecc_errors", total=True)
    if row.xid is None:
        yield absent(row.missing.get("xid"))
    else:
        yield Cell(", ".join(map(str, row.xid)) or "none")
    yield Cell(row.state)


def _range(row: NodeRow, metric: str, *, total: bool = False) -> Cell:
    values = row.values(metric)
    if not values:
        return absent(row.missing.get(metric))
    if total:
        return Cell(f"{sum(values):.0f}")
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return Cell(low if low == high else f"{low}–{high}")


def sentences(found: NodesDocument) -> Iterator[str]:
    """Say below the table what the nodes were held to, which are to be cordoned, and why."""
    lacking = [row.node for row in found.nodes if row.state == "not-measured"]
    for held in found.limits:
        yield _rule(held)
    for row in found.nodes:
        if row.node in (*found.to_cordon, *found.to_confirm):
            yield f"{row.node} is {row.state}: {' '.join([*row.why, *_slow_gpus(row)])}"
    if found.to_cordon:
        yield "Check these nodes. To keep pods away from them (nothing was cordoned yet):"
        yield f"  kubectl cordon {' '.join(found.to_cordon)}"
    elif not found.to_confirm and any(held.limit is not None for held in found.limits):
        yield f"No node {'that was measured ' if lacking else ''}is slow or faulty."
    # Why nodes of a limit are not judged stands with it.
    said = {held.reason for held in found.limits}
    not_judged = [row for row in found.nodes if row.state == "not-judged"]
    not_judged = [row for row in not_judged if row.node not in found.to_confirm]
    yield from dict.fromkeys(why for row in not_judged for why in row.why if why not in said)
    if lacking:
        yield f"Not measured, and so not judged: {', '.join(lacking)}."


def _slow_gpus(row: NodeRow) -> Iterator[str]:
    """Name the GPUs of a node whose clock was well below that of its fastest."""
    clocks = {one.gpu.index or one.gpu.uuid: one.figures.get("sm_clock") for one in row.gpus}
    most = max((clock for clock in clocks.values() if clock is not None), default=0.0)
    for name, clock in clocks.items():
        if clock is not None and clock < SLOW_CLOCK * most:
            yield f"Its GPU {name} ran at {clock:.0f} MHz, another at {most:.0f} MHz."


def _rule(held: NodeLimits) -> str:
    kind = f"{held.alike[0]}: " if held.alike and held.alike[0] != "-" else ""
    parts = [f"{kind}median {formats.rate(held.centre)} of {counted(held.nodes, 'node')}"]
    if held.limit is not None and held.noise is not None:
        noise, limit = formats.percent(held.noise), formats.percent(held.limit)
        parts.append(f"noise {noise}, slow is more than {limit} below")
    text = ", ".join(parts) + "."
    return f"{text} {held.reason}" if held.reason else text


def flat(found: NodesDocument) -> tuple[Sequence[str], Iterator[Sequence[object]]]:
    """Make the header and the rows of CSV: of the GPUs' metrics the mean, of ECC errors the sum."""
    names = ("node", "state", "throughput", "to_pool")
    metrics: dict[str, Callable[[list[float]], float]]
    metrics = {"sm_clock": statistics.fmean, "power": statistics.fmean, "ecc_errors": sum}
    rows = (
        (
            *(getattr(row, name) for name in names),
            *(of(values) if (values := row.values(name)) else None for name, of in metrics.items()),
            None if row.xid is None else " ".join(map(str, row.xid)),
            " ".join(row.why),
        )
        for row in found.nodes
    )
    return (*names, *metrics, "xid", "why"), rows

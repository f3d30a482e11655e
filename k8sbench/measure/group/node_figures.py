"""From the runs that were pinned to nodes to what is judged of each node, and what its GPUs did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from k8sbench.measure.group.node_check import NodeFigures
from k8sbench.model.group import Group
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run

FAULTS = ("gpu-throttled", "xid-error")
"""Ids of the reasons that are of the node's GPUs, whatever the throughput."""
OF_GPUS = ("sm_clock", "power", "temperature", "throttled", "ecc_errors", "xid")
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
                yield reason.message
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
                    return f"{reason.id}: {reason.message}"
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

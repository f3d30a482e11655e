"""Deviations of groups from the figures that the catalog has of published reports.

A deviation is a number only where nothing that decides it differs; otherwise the ids stand there of
what does (:mod:`.comparable`).
"""

from __future__ import annotations

from k8sbench.measure.group import comparable
from k8sbench.measure.group.arithmetic import arithmetic
from k8sbench.measure.group.gpu_peaks import plain_name
from k8sbench.model import speed_options
from k8sbench.model.group import Deviation, Group
from k8sbench.model.identity import fields_for
from k8sbench.model.spec import BenchmarkSpec, Published, Variant


def deviations_of(group: Group, spec: BenchmarkSpec) -> tuple[Deviation, ...]:
    """Each source's figure that is nearest to the group, and our deviation from it."""
    variant = spec.variant(group.plan.framework, group.plan.variant)
    if variant is None:
        return ()
    nearest: dict[str, tuple[tuple[object, ...], Published]] = {}
    for index, figure in enumerate(variant.published):
        if figure.throughput is None:
            continue
        unlike = _unlike_published(group, figure, variant)
        rank = (len(unlike), "case" in unlike, "precision" in unlike, index)
        held = nearest.get(figure.source)
        if held is None or rank < held[0]:
            nearest[figure.source] = (rank, figure)
    return tuple(_deviation(group, figure, spec, variant) for _, figure in nearest.values())


def _deviation(group: Group, figure: Published, spec: BenchmarkSpec, variant: Variant) -> Deviation:
    assert figure.throughput is not None
    unlike = _unlike_published(group, figure, variant)
    ours = group.by_estimator.get(figure.estimator)
    notes = []
    if group.plan.impl != "upstream":
        notes.append(f"impl {group.plan.impl}")
    data = data_source(group.plan.data)
    if group.plan.data == "synthetic-host":
        notes.append("data synthetic-host")  # also where theirs is synthetic: loaders cost time
    elif data != figure.data:
        notes.append(f"data {data}")
    notes += speed_options.words(group.plan.options)
    if figure.aggregate == "mean":
        notes.append("published mean of runs, our median")
    if figure.anomalous:
        notes.append("published figure is anomalous")
    return Deviation(
        source=figure.source,
        title=spec.sources[figure.source].title if figure.source in spec.sources else figure.source,
        case=figure.case,
        precision=figure.precision,
        batch_size=figure.batch_size,
        gpu_model=figure.gpu_model,
        published=figure.throughput,
        estimator=figure.estimator,
        ours=ours,
        ratio=None if unlike or ours is None else ours / figure.throughput - 1,
        not_comparable=unlike,
        notes=tuple(notes),
        remark=figure.note,
    )


def _unlike_published(group: Group, figure: Published, variant: Variant) -> tuple[str, ...]:
    plan = group.plan
    found = ["smoke"] if group.smoke else []
    if group.spread is None:
        found.append("no-figure")
    same = {
        "case": f"{plan.replicas}x{plan.processes_per_replica}" == figure.case,
        "precision": plan.precision == figure.precision
        and (group.spread is None or _same_format(group, figure, variant)),
        "batch_size": plan.batch_size == figure.batch_size,
        # Where nothing was measured there is nothing that could differ in more than its plan.
        "gpu_model": group.spread is None
        or (not group.on_cpu and plain_name(group.key.gpu_model) == plain_name(figure.gpu_model)),
    }
    found += [comparable.id_of(name) for name in fields_for("published") if not same[name]]
    if group.spread is not None and figure.estimator not in group.by_estimator:
        # "unknown" is never among them: an estimator that is not stated cannot match.
        found.append("estimator")
    return tuple(found)


def _same_format(group: Group, figure: Published, variant: Variant) -> bool:
    theirs = "fp32" if figure.precision == "fp32" else variant.amp_dtype
    return theirs == arithmetic(group.plan, group.precision_effective, group.key.gpu_model)


def data_source(data: str) -> str:
    """``synthetic`` or ``real``; ``unknown`` where an imported log does not tell."""
    if data == "unknown":
        return data
    return "synthetic" if data.startswith("synthetic") else "real"

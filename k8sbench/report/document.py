"""Results as data: the JSON document, the flat rows of CSV, and DLPerf's result file.

One dictionary per group is the source of both: what the JSON nests, the CSV leaves out or spreads
over columns. A figure that is not there is null (empty in CSV), and ``missing`` says why under the
figure's name. ``docs/results.md`` describes every field; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from k8sbench.model.group import Deviation, Group, Parity, Result
from k8sbench.model.measurement import SCHEMA
from k8sbench.report import layout

UNKNOWN = ("unknown", "-")
"""What a group key has where something is not known or does not apply."""
_OF_GROUP: dict[str, Callable[[Group], Any]] = {
    "group": lambda g: g.key.id,
    "set": lambda g: g.key.set_name,
    "created_at": lambda g: g.latest,
    "benchmark": lambda g: g.key.benchmark,
    "framework": lambda g: g.key.framework,
    "variant": lambda g: g.key.variant,
    "impl": lambda g: g.key.impl,
    "case": lambda g: g.key.case,
    "replicas": lambda g: g.key.replicas,
    "processes_per_replica": lambda g: g.key.processes_per_replica,
    "gpus": lambda g: g.plan.world_size if g.plan.device != "cpu" else None,
    "precision": lambda g: g.key.precision,
    "precision_effective": lambda g: _known(g.key.precision_effective),
    "amp_dtype": lambda g: g.plan.amp_dtype,
    "batch_size_per_gpu": lambda g: g.key.batch_size,
    "preset": lambda g: g.key.preset,
    "mode": lambda g: g.key.mode,
    "data": lambda g: g.key.data,
    "window": lambda g: g.key.window,
    "options": lambda g: g.key.options if g.key.options != "-" else "",
    "backend": lambda g: g.key.backend,
    "pool": lambda g: g.key.pool,
    "device": lambda g: g.device or g.plan.device,
    "gpu_model": lambda g: _known(g.key.gpu_model),
    "image": lambda g: _known(g.key.image),
    "program": lambda g: g.key.program,
    "state": lambda g: g.state,
    "runs_valid": lambda g: g.counted,
    "runs_total": lambda g: len(g.members),
    "runs_in_progress": lambda g: g.in_progress,
    "throughput": lambda g: g.spread and g.spread.median,
    "unit": lambda g: g.unit,
    "estimator": lambda g: g.estimator,
    "mean": lambda g: g.spread and g.spread.mean,
    "minimum": lambda g: g.spread and g.spread.minimum,
    "maximum": lambda g: g.spread and g.spread.maximum,
    "cv": lambda g: g.spread and g.spread.cv,
    "interval_low": lambda g: g.spread and g.spread.low,
    "interval_high": lambda g: g.spread and g.spread.high,
    "interval_coverage": lambda g: g.spread and g.spread.coverage,
    "by_estimator": lambda g: g.by_estimator,
    "gpu_hours": lambda g: g.gpu_hours,
    "parameters": lambda g: g.parameters,
    "gmac": lambda g: g.gmac,
    "time_to_train_s": lambda g: g.time_to_train_s,
}
"""Fields of a JSON row that are the group's own."""
_SIDE = (
    *("group", "set", "impl", "batch_size_per_gpu", "data", "gpu_model", "precision_effective"),
    *("throughput", "unit", "estimator", "parameters", "gmac"),
)
"""What stands of each group in a Paddle : PyTorch pair."""
_DERIVED = ("speedup", "efficiency", "tflops_per_gpu", "peak_share")
_LAST = ("gpu_hours", "parameters", "gmac", "time_to_train_s")
PLAIN = (
    *(name for name in _OF_GROUP if name not in ("by_estimator", *_LAST)),
    *(*_DERIVED, "baseline", *_LAST),
)
"""Fields of a JSON row that are columns of the CSV, which has them without any row, too."""


def document(results: Sequence[Result], parities: Sequence[Parity]) -> dict[str, Any]:
    """All of it, as ``-o json`` prints it."""
    return {
        "schema": SCHEMA,
        "rows": [row(result) for result in results],
        "parity": [_parity(pair) for pair in parities],
    }


def row(result: Result) -> dict[str, Any]:
    """One group with what follows from the others."""
    group = result.group
    missing = _missing(group)
    fields = {name: field(group) for name, field in _OF_GROUP.items() if name not in _LAST}
    for name in _DERIVED:
        figure = getattr(result, name)
        fields[name] = figure.value
        if figure.value is None:
            missing[name] = figure.reason or "not measured"
    fields |= {
        "baseline": result.baseline,
        **{name: getattr(group, name) for name in _LAST},
        "accuracy": msgspec.to_builtins(group.accuracy),
        "notes": list(dict.fromkeys((*result.speedup.notes, *result.peak_share.notes))),
        "marks": list(layout.marks(group)),
        "reasons": msgspec.to_builtins(group.reasons),
        "members": msgspec.to_builtins(group.members),
        "published": None,
    }
    if result.baseline is None:
        missing["baseline"] = result.speedup.reason or "none"
    if result.deviations:
        fields["published"] = [_published(deviation) for deviation in result.deviations]
    else:
        missing["published"] = result.deviations_reason or "not asked for: --published"
    fields["missing"] = {
        name: why for name, why in sorted(missing.items()) if fields.get(name) is None
    }
    return fields


def _missing(group: Group) -> dict[str, str]:
    """Why a field of the group is null, for each that can be."""
    unknown = "the runs do not tell it"
    why = f"{group.state}: {', '.join(group.ids('reject')) or 'no reason known'}"
    alone = (group.spread and group.spread.interval_reason) or why
    missing = {
        "gpus": "CPU processes: no GPU was used",
        "precision_effective": unknown,
        "amp_dtype": "no AMP",
        "gpu_model": "no GPU was used" if group.plan.device == "cpu" else unknown,
        "image": "local run: no image",
        **dict.fromkeys(("throughput", "mean", "minimum", "maximum"), why),
        **dict.fromkeys(("cv", "interval_low", "interval_high", "interval_coverage"), alone),
    }
    of_valid_runs = ("time_to_train_s", "accuracy") if group.spread is None else ()
    return {**dict.fromkeys(of_valid_runs, "no valid figure"), **group.missing, **missing}


def _published(deviation: Deviation) -> dict[str, Any]:
    return msgspec.to_builtins(deviation)  # type: ignore[no-any-return]


def _parity(pair: Parity) -> dict[str, Any]:
    key = pair.paddle.key
    return {
        "benchmark": key.benchmark,
        "case": key.case,
        "precision": key.precision,
        "preset": key.preset,
        "paddle": _side(pair.paddle),
        "pytorch": _side(pair.pytorch),
        "ratio": pair.ratio,
        "not_comparable": list(pair.not_comparable),
        "notes": list(pair.notes),
    }


def _side(group: Group) -> dict[str, Any]:
    fields = {name: _OF_GROUP[name](group) for name in _SIDE}
    fields["precision_effective"] = group.precision_effective
    missing = _missing(group)
    missing["gpu_model"] = "no GPU was used" if group.on_cpu else "the runs do not tell it"
    return fields | {
        "missing": {k: v for k, v in sorted(missing.items()) if fields.get(k, 0) is None}
    }


def flat(
    results: Sequence[Result], parities: Sequence[Parity]
) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of the CSV: one row per group, a column for every figure.

    The reasons of empty figures are in ``missing``; each published source has two columns of its
    own, and the Paddle : PyTorch pair that a row belongs to has three.
    """
    rows = [row(result) for result in results]
    sources = sorted({d["source"] for r in rows for d in r["published"] or ()})
    header = [*PLAIN, "accuracy", "accuracy_metric", "accuracy_unit"]
    for source in sources:
        header += [f"published {source}", f"deviation {source}", f"deviation {source} notes"]
    header += ["parity_group", "parity_ratio", "parity_notes"]
    header += ["marks", "notes", "reasons", "missing"]
    paired = _pairs(parities)
    table = []
    for fields, result in zip(rows, results, strict=True):
        reached = fields["accuracy"] or {}
        line = [fields[name] for name in PLAIN]
        line += [reached.get("best"), reached.get("metric"), reached.get("unit")]
        by_source = {d.source: d for d in result.deviations or ()}
        for source in sources:
            line += _flat_deviation(by_source.get(source))
        line += paired.get(fields["group"], [None, None, None])
        line.append("; ".join(fields["marks"]))
        line.append("; ".join(fields["notes"]))
        line.append(
            "; ".join(
                told
                for kind in ("reject", "warn", "accepted")
                for told in layout.told(result.group, kind)
            )
        )
        line.append("; ".join(f"{name}: {why}" for name, why in fields["missing"].items()))
        table.append(line)
    return header, table


def _flat_deviation(deviation: Deviation | None) -> list[Any]:
    if deviation is None:
        return [None, None, None]
    notes = [*deviation.notes]
    if deviation.not_comparable:
        notes = [f"not comparable: {', '.join(deviation.not_comparable)}"]
    return [deviation.published, deviation.ratio, "; ".join(notes)]


def _pairs(parities: Sequence[Parity]) -> dict[str, list[Any]]:
    """Group id → its counterpart, the ratio and what is to say of it; the first pair of each."""
    found: dict[str, list[Any]] = {}
    for pair in parities:
        said = layout.parity_cell(pair).text if pair.ratio is None else ", ".join(pair.notes)
        found.setdefault(pair.paddle.key.id, [pair.pytorch.key.id, pair.ratio, said])
        found.setdefault(pair.pytorch.key.id, [pair.paddle.key.id, pair.ratio, said])
    return found


class DlperfResult(msgspec.Struct, frozen=True, kw_only=True):
    """DLPerf's result file, and what had to stay out of it."""

    content: dict[str, dict[str, dict[str, Any]]]
    left_out: tuple[str, ...]


def dlperf(results: Sequence[Result]) -> DlperfResult:
    """Results as the ResNet-50 report writes them: ``{model: {case: {average_speed, …}}}``.

    Cases are named as there (``1n8g``), speeds have two decimals. The file has no place for a
    mark, so what is not a speed of GPUs (smoke and CPU runs) is left out, and said. Where two
    rows share benchmark and case, the model's name also carries what tells them apart.
    """
    left_out = []
    kept: list[Result] = []
    for result in results:
        group = result.group
        if group.smoke or group.on_cpu:
            left_out.append(f"{group.key.id}: {'; '.join(layout.marks(group))}")
        elif group.spread is None:
            left_out.append(f"{group.key.id}: {group.state}")
        else:
            kept.append(result)
    names = _dlperf_names([result.group for result in kept])
    content: dict[str, dict[str, dict[str, Any]]] = {}
    for result in kept:
        group = result.group
        assert group.spread is not None
        case = f"{group.plan.replicas}n{group.plan.processes_per_replica}g"
        content.setdefault(names[group.key.id], {})[case] = {
            "average_speed": round(group.spread.mean, 2),
            "batch_size_per_device": group.plan.batch_size,
            "median_speed": round(group.spread.median, 2),
            "speedup": None if result.speedup.value is None else round(result.speedup.value, 2),
        }
    return DlperfResult(content=content, left_out=tuple(left_out))


def _dlperf_names(groups: Sequence[Group]) -> dict[str, str]:
    """Group id → model name: the benchmark, with as many further words as make cases unique."""
    unique = layout.unique_names(
        groups,
        lambda g: f"{g.key.case}/{g.key.benchmark}",
        (
            lambda g: g.key.framework,
            layout.precision,
            lambda g: f"batch {g.key.batch_size}",
            lambda g: g.key.variant,
            lambda g: g.key.impl,
            lambda g: g.key.data,
            lambda g: g.key.set_name,
        ),
    )
    return {group: name.split("/", 1)[1] for group, name in unique.items()}


def _known(value: str) -> str | None:
    return None if value in UNKNOWN else value

"""Results as data: the JSON document, the flat rows of CSV, and DLPerf's result file.

One dictionary per group is the source of both: what the JSON nests, the CSV leaves out or spreads
over columns. A figure that is not there is null (empty in CSV), and ``missing`` says why under the
figure's name. ``docs/results.md`` describes every field; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from k8sbench.model.group import Deviation, Group, Parity, Result
from k8sbench.model.measurement import SCHEMA
from k8sbench.report import layout

UNKNOWN = ("unknown", "-")
"""What a group key has where something is not known or does not apply."""
PLAIN = (
    "group",
    "set",
    "created_at",
    "benchmark",
    "framework",
    "variant",
    "impl",
    "case",
    "replicas",
    "processes_per_replica",
    "gpus",
    "precision",
    "precision_effective",
    "amp_dtype",
    "batch_size_per_gpu",
    "preset",
    "mode",
    "data",
    "window",
    "options",
    "backend",
    "pool",
    "device",
    "gpu_model",
    "image",
    "program",
    "state",
    "runs_valid",
    "runs_total",
    "runs_in_progress",
    "throughput",
    "unit",
    "estimator",
    "mean",
    "minimum",
    "maximum",
    "cv",
    "interval_low",
    "interval_high",
    "interval_coverage",
    "speedup",
    "efficiency",
    "tflops_per_gpu",
    "peak_share",
    "baseline",
    "gpu_hours",
    "parameters",
    "gmac",
    "time_to_train_s",
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
    missing = dict(group.missing)
    fields = _identity(group, missing)
    fields |= _figures(group, missing)
    for name in ("speedup", "efficiency", "tflops_per_gpu", "peak_share"):
        figure = getattr(result, name)
        fields[name] = figure.value
        if figure.value is None:
            missing[name] = figure.reason or "not measured"
    fields |= {
        "baseline": result.baseline,
        "gpu_hours": group.gpu_hours,
        "parameters": group.parameters,
        "gmac": group.gmac,
        "time_to_train_s": group.time_to_train_s,
        "accuracy": msgspec.to_builtins(group.accuracy),
        "notes": list(dict.fromkeys((*result.speedup.notes, *result.peak_share.notes))),
        "marks": list(layout.marks(group)),
        "reasons": msgspec.to_builtins(group.reasons),
        "members": msgspec.to_builtins(group.members),
        "published": None,
    }
    if result.baseline is None:
        missing["baseline"] = result.speedup.reason or "none"
    if group.spread is None:
        missing |= {name: missing.get(name, "no valid figure") for name in _OF_VALID_RUNS}
    if result.deviations:
        fields["published"] = [_published(deviation) for deviation in result.deviations]
    else:
        missing["published"] = result.deviations_reason or "not asked for: --published"
    fields["missing"] = {
        name: why for name, why in sorted(missing.items()) if fields.get(name) is None
    }
    return fields


_OF_VALID_RUNS = ("time_to_train_s", "accuracy")


def _identity(group: Group, missing: dict[str, str]) -> dict[str, Any]:
    key, plan = group.key, group.plan
    on_gpus = plan.device != "cpu"
    fields: dict[str, Any] = {
        "group": key.id,
        "set": key.set_name,
        "created_at": group.latest,
        "benchmark": key.benchmark,
        "framework": key.framework,
        "variant": key.variant,
        "impl": key.impl,
        "case": key.case,
        "replicas": key.replicas,
        "processes_per_replica": key.processes_per_replica,
        "gpus": plan.world_size if on_gpus else None,
        "precision": key.precision,
        "precision_effective": _known(key.precision_effective),
        "amp_dtype": plan.amp_dtype,
        "batch_size_per_gpu": key.batch_size,
        "preset": key.preset,
        "mode": key.mode,
        "data": key.data,
        "window": key.window,
        "options": key.options if key.options != "-" else "",
        "backend": key.backend,
        "pool": key.pool,
        "device": group.device or plan.device,
        "gpu_model": _known(key.gpu_model),
        "image": _known(key.image),
        "program": key.program,
    }
    missing["gpus"] = "CPU processes: no GPU was used"
    missing["precision_effective"] = "the runs do not tell it"
    missing["amp_dtype"] = "no AMP"
    missing["gpu_model"] = "the runs do not tell it" if on_gpus else "no GPU was used"
    missing["image"] = "local run: no image"
    return fields


def _figures(group: Group, missing: dict[str, str]) -> dict[str, Any]:
    spread = group.spread
    fields: dict[str, Any] = {
        "state": group.state,
        "runs_valid": group.counted,
        "runs_total": len(group.members),
        "runs_in_progress": group.in_progress,
        "throughput": spread.median if spread else None,
        "unit": group.unit,
        "estimator": group.estimator,
        "mean": spread.mean if spread else None,
        "minimum": spread.minimum if spread else None,
        "maximum": spread.maximum if spread else None,
        "cv": spread.cv if spread else None,
        "interval_low": spread.low if spread else None,
        "interval_high": spread.high if spread else None,
        "interval_coverage": spread.coverage if spread else None,
        "by_estimator": group.by_estimator,
    }
    why = f"{group.state}: {', '.join(group.ids('reject')) or 'no reason known'}"
    alone = (spread and spread.interval_reason) or why
    for name in ("throughput", "mean", "minimum", "maximum"):
        missing[name] = why
    for name in ("cv", "interval_low", "interval_high", "interval_coverage"):
        missing[name] = alone
    return fields


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
    missing: dict[str, str] = dict(group.missing)
    fields = {
        "group": group.key.id,
        "set": group.key.set_name,
        "impl": group.key.impl,
        "batch_size_per_gpu": group.key.batch_size,
        "data": group.key.data,
        "gpu_model": _known(group.key.gpu_model),
        "precision_effective": group.precision_effective,
        "throughput": group.spread.median if group.spread else None,
        "unit": group.unit,
        "estimator": group.estimator,
        "parameters": group.parameters,
        "gmac": group.gmac,
    }
    _figures(group, missing)
    missing["precision_effective"] = "the runs do not tell it"
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

"""``k8sbench measure``: logs that exist already, whoever wrote them.

Exit codes: 0 all valid, 5 any rejected, 2 any that cannot be read or recognised; those that could
be measured are printed all the same.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from k8sbench.app import measure as measuring
from k8sbench.app.measure import MeasureOptions
from k8sbench.cli.given_logs import log_options
from k8sbench.cli.output_format import format_option
from k8sbench.cli.terminal import output
from k8sbench.model.counts import ABSENT, counted
from k8sbench.model.errors import REJECTED_EXIT_CODE, InputError
from k8sbench.model.plain_text import clean
from k8sbench.report import formats, numbers

if TYPE_CHECKING:
    from k8sbench.model.measurement import Measurement, Throughput

_Column = Callable[["Measurement"], object]
WIDEST = 100
"""Columns of a report on a wide terminal, and of every report in a pipe."""


@click.command()
@log_options
@format_option(*formats.offered("table", "flat", "document"), show_default=True)
def command(
    logs: tuple[str, ...],
    options: MeasureOptions,
    output_format: str,
) -> int:
    """Measure existing logs, from any source.

    LOG is a file, a folder (all logs below it), a .gz of a log, or - for standard input.

    \b
    k8sbench measure train.log --format mmseg --gpus 8 --warmup 20
    k8sbench measure logs/ --benchmark resnet50 --gpus 8 -o json
    """
    outcome = measuring.measure(logs, options)
    _write(outcome.measurements, output_format)
    sys.stdout.flush()
    for error in outcome.failures:
        output.note(f"error: {error.message}" + (f"\n  {error.action}" if error.action else ""))
    if outcome.failures:
        return InputError.exit_code
    return REJECTED_EXIT_CODE if outcome.rejected else 0


def _write(found: Sequence[Measurement], output_format: str) -> None:
    width = max(min(shutil.get_terminal_size((WIDEST, 0)).columns, WIDEST), 40)
    view: formats.View = {
        "table": lambda: "\n".join(_report(each, width) for each in found),
        "flat": lambda: ([*CSV], [[column(m) for column in CSV.values()] for m in found]),
        "document": lambda: found,
    }
    output.write(formats.written(output_format, view))


def _figures(found: Measurement) -> Throughput | None:
    return found.throughput or found.unverified


def _report(found: Measurement, width: int) -> str:
    """One measurement for people: the figure, its estimator and verdict, then why."""
    from k8sbench.model.measurement import ESTIMATORS

    parts = [", ".join(found.files)]

    def line(text: str, indent: str = "  ") -> None:
        parts.extend(
            textwrap.wrap(
                clean(text), width, initial_indent=indent, subsequent_indent=indent + "  "
            )
        )

    figures = _figures(found)
    accepted = any(reason.accepted for reason in found.reasons)
    verdict = found.verdict + (", some reasons accepted" if accepted else "")
    if figures is None:
        line(f"no figure: {found.missing.get('throughput', 'not measured')}  {verdict}")
    else:
        value = _rate(getattr(figures, found.estimator))
        unsure = " (unverified)" if found.throughput is None else ""
        line(f"{value} {figures.unit} {found.estimator}{unsure}  {verdict}")
        others = [
            f"{name} {_rate(getattr(figures, name))}"
            for name in ESTIMATORS[1:]
            if name != "printed_steps" or figures.printed_steps is not None
        ]
        line(" · ".join(others), "    ")
    batch = found.batch_size_per_gpu
    line(
        " · ".join(
            str(part)
            for part in (
                found.format,
                found.impl,
                found.framework,
                found.precision_effective or found.precision,
                f"{found.gpus} {_processors(found, found.gpus)}" if found.gpus else None,
                "smoke run" if _preset(found) == "smoke" else None,
                f"batch {batch} per {_processors(found, 1)}" if batch else None,
                found.gpu_model,
            )
            if part
        )
    )
    window = found.window
    if window is not None:
        took = f", {numbers.plain(window.seconds, 6)} s" if window.seconds is not None else ""
        line(
            f"window: iterations {window.first_iteration} to {window.last_iteration}, "
            f"warm-up {found.warmup_iterations}; {found.iterations} iterations in "
            f"{found.records} records{took}"
        )
    facts = []
    if found.final_loss is not None:
        facts.append(f"final loss {_number(found.final_loss)}")
    if found.accuracy is not None:
        accuracy = found.accuracy
        unit = " %" if accuracy.unit == "%" else ""
        facts.append(
            f"{accuracy.metric} best {_number(accuracy.best)}{unit}, final "
            f"{_number(accuracy.final)}{unit} ({accuracy.evaluations} evaluations)"
        )
    if found.time_to_train_s is not None:
        facts.append(f"time to train {_number(found.time_to_train_s)} s")
    if facts:
        line(" · ".join(facts))
    if found.mode == "train":
        line(" · ".join(_trained(found)))
    for reason in found.reasons:
        mark = f"{reason.severity}, accepted" if reason.accepted else reason.severity
        line(f"{mark} {reason.id}: {reason.sentence}")
        for place in reason.evidence:
            line(f"{place.file}:{place.line}: {place.text}", "      ")
    return "\n".join(parts) + "\n"


def _trained(found: Measurement) -> Iterator[str]:
    """What a run of our own trainers was trained from, and to what end."""
    if found.target is not None:
        yield f"target {_number(found.target)} %"
    if found.ended_by == "target":
        yield "stopped at the target"
    if found.data_set is not None:
        yield f"data {found.data_set.name}, digest {(found.data_set.digest or ABSENT)[:12]}"
    weights = found.weights
    digest = "" if weights is None else f", digest {(weights.digest or ABSENT)[:12]}"
    yield "from scratch" if weights is None else f"weights {weights.file}{digest}"
    yield counted(found.restarts, "restart")


def _processors(found: Measurement, count: int) -> str:
    """What a job's GPUs are called: on CPUs they are processes."""
    one, many = ("CPU process", "CPU processes") if found.device == "cpu" else ("GPU", "GPUs")
    return one if count == 1 else many


def _preset(found: Measurement) -> object:
    return found.environment.get("preset")


def _rate(value: float | None) -> str:
    return ABSENT if value is None else numbers.rate(value)


def _number(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:.2f}" if abs(value) >= 1000 else f"{value:.4g}"


def _of(*names: str, part: str | None = None, prefix: str = "") -> dict[str, _Column]:
    """Columns of fields of a measurement, or of a part of it that may be None."""

    def column(name: str) -> _Column:
        return lambda m: getattr(getattr(m, part) if part else m, name, None)

    return {prefix + name: column(name) for name in names}


CSV: dict[str, _Column] = {
    "files": lambda m: " ".join(m.files),
    **_of("format", "impl", "framework", "gpus", "device"),
    "preset": _preset,
    **_of("precision", "precision_effective", "batch_size_per_gpu"),
    **_of("warmup_iterations", "iterations", "records"),
    **_of("time_weighted", "time_weighted_steady", "median", "arithmetic", part="throughput"),
    **_of("timestamps", "printed_steps", part="throughput"),
    "unit": lambda m: (figures := _figures(m)) and figures.unit,
    **_of("final_loss"),
    **_of("metric", "best", "final", "unit", part="accuracy", prefix="accuracy_"),
    **_of("time_to_train_s", "train_wall_s", "target", "restarts"),
    **_of("data_digest", "weights_digest", "gpu_model", "verdict"),
    "reasons": lambda m: " ".join(reason.id for reason in m.reasons),
}
"""Columns of ``-o csv``; figures of rejected logs stay out of it."""

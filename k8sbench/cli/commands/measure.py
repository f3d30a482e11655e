"""``k8sbench measure`` and ``k8sbench import``: existing logs of any source.

Exit codes: 0 all valid, 5 any rejected, 2 any unreadable or unrecognised; the other logs are still
printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k8sbench.app import imports
from k8sbench.app.imports import ImportedLogs
from k8sbench.catalog.measure_options import LOG_FLAGS, MeasureOptions
from k8sbench.cli import rows
from k8sbench.cli.options import (
    declared,
    format_option,
    grouped,
    rows_option,
    store_option,
)
from k8sbench.cli.terminal import output
from k8sbench.model.errors import REJECTED_EXIT_CODE, InputError, UsageError, list_few
from k8sbench.model.plain_text import counted
from k8sbench.model.request import ClusterAccess
from k8sbench.results.report import explanation, formats

if TYPE_CHECKING:
    from k8sbench.catalog.imported_logs import MeasuredLog
    from k8sbench.model.measurement import Measurement

F = TypeVar("F", bound=Callable[..., Any])

_LOGS = (
    click.argument("logs", metavar="LOG...", nargs=-1, required=True),
    *declared(MeasureOptions, LOG_FLAGS),
)


def log_options(function: F) -> F:
    """Add logs and their options; the command receives ``options``."""
    names = MeasureOptions.__struct_fields__
    return grouped(_LOGS, "options", lambda values: MeasureOptions(**values), names, function)


@click.command()
@log_options
@click.option(
    "--declare",
    is_flag=True,
    help="Write the template of a benchmark file for a LOG of unknown format.",
)
@format_option("table", "json", show_default=True)
def command(
    logs: tuple[str, ...], options: MeasureOptions, output_format: str, declare: bool
) -> int:
    """Measure existing logs, from any source.

    LOG is a file, a folder (all logs below it), a .gz of a log, or - for standard input. With
    --declare, the template of a benchmark file is written for it instead: a person answers its
    questions.

    \b
    k8sbench measure train.log
    k8sbench measure train.log --format mmseg --gpus 8 --warmup 20
    k8sbench measure logs/ --benchmark resnet50 --gpus 8 -o json
    k8sbench measure train.log --declare > mine.yaml
    """
    if declare:
        if output_format != "table":
            raise UsageError("--declare writes a benchmark file in YAML.", "Leave out -o.")
        output.write(imports.declare(logs, options))
        return 0
    measured, failures = imports.measure(logs, options)
    found = [log.measurement for log in measured]
    _write(found, output_format)
    _note_benchmarks(measured, "measured")
    _print_failures(failures, "error")
    if failures:
        return InputError.exit_code
    return REJECTED_EXIT_CODE if any(one.verdict == "rejected" for one in found) else 0


def _write(found: Sequence[Measurement], output_format: str) -> None:
    width = output.terminal_width()
    view: formats.View = {
        "table": lambda: "\n".join(
            explanation.text(explanation.of_measurement(each), width) for each in found
        ),
        "json": lambda: found,
    }
    output.write(formats.written(output_format, view))


@click.command()
@log_options
@click.option("--set", "set_name", metavar="SET", help="Set of the runs; default: a new one.")
@click.option(
    "--skip-unreadable", is_flag=True, help="Leave out, and name, logs that cannot be measured."
)
@click.option(
    "--from-names",
    is_flag=True,
    help="Take nodes, GPUs, batch and precision that a log does not state from its name: "
    "n4g8_amp_bs128.log.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the runs of the set that came from the same logs, or logs of the same names.",
)
@rows_option
@store_option
def import_command(
    logs: tuple[str, ...],
    options: MeasureOptions,
    output_format: str,
    **recording: Any,
) -> int:
    """Record existing logs as runs, and print their rows.

    LOG is a file, a folder (all logs below it), a .gz of a log, or - for standard input. Each log
    becomes a repeat of its case: GPUs, batch and precision are read from the log, by the
    expressions of the benchmark's file too, or given by options. All logs are recorded, or none; a
    copy of another log, or of one that is in the store already, is named. The command can be
    repeated: with --set the runs of the same logs are not changed.

    Without --benchmark and --format the family and the benchmark of each log are recognised.

    \b
    k8sbench import logs/
    k8sbench import logs/ --benchmark mine.yaml --gpu-model "Tesla V100-SXM2-16GB"
    k8sbench import logs/ --benchmark deeplabv3p --case 4x8 --precision fp32
    k8sbench import published/4n8g/ --set published --case 4x8 --batch-size 128
    """
    done = imports.import_logs(logs, options, output.note, **recording)
    if done.rows is not None:
        rows.write(done.rows, output_format)
    code = _note_outcome(done)
    if done.rows is not None:
        rows.note_own_store(recording["where"], ClusterAccess())
    return code


def _note_outcome(done: ImportedLogs) -> int:
    """Note the recorded and the rejected logs; return the exit code."""
    causes = _print_failures(done.failures, "error" if done.rows is None else "left out")
    if done.rows is None:
        output.error(f"Nothing was imported: {counted(causes, 'error')}.")
        return InputError.exit_code
    _note_benchmarks(done.recognised, "recorded")
    _note_possible(done.recognised)
    here = f"; {counted(len(done.there), 'run', ('was', 'were'))} there already"
    replaced = f"; {counted(len(done.replaced), 'earlier run', ('was', 'were'))} replaced"
    sets = list_few(sorted({run.set_name for run in (*done.added, *done.there)}))
    output.note(
        f"{counted(len(done.added), 'run')} imported into set {sets}"
        f"{replaced if done.replaced else ''}{here if done.there else ''}."
    )
    return rows.code_of_rows(done.rows)


def _note_benchmarks(measured: Sequence[MeasuredLog], done: str) -> None:
    """Note which benchmarks were recognised, one line for each, and how to choose another."""
    for text in dict.fromkeys(log.recognised for log in measured if log.recognised):
        logs = [log.origin.file for log in measured if log.recognised == text]
        output.note(f"{list_few(logs)}: {done} {text}")


def _note_possible(recorded: Sequence[MeasuredLog]) -> None:
    """Note which logs without a benchmark may be of the only one of their format."""
    found: dict[tuple[str, str], list[MeasuredLog]] = {}
    for log in recorded:
        if log.possible is not None:
            found.setdefault((log.measurement.format, log.possible), []).append(log)
    for (name, benchmark), logs in found.items():
        again = f"--benchmark {benchmark} --set {logs[0].set_name} --replace"
        files = list_few([log.origin.file for log in logs])
        output.note(
            f"{files}: recorded in the format {name}, without a benchmark: no line names a model."
            f" If the benchmark is {benchmark}, import again with {again}"
        )


def _print_failures(failures: Sequence[InputError], kind: str) -> int:
    """Print each cause once, with its logs and action; return the number of causes."""
    causes: dict[tuple[str, str], list[InputError]] = {}
    for error in failures:
        what = error.message.removeprefix(f"{error.file}: ")
        causes.setdefault((what, error.action), []).append(error)
    for (what, action), errors in causes.items():
        files = ", ".join(str(error.file) for error in errors)
        shown = errors[0].message if len(errors) == 1 else f"{files}: {what}"
        output.error(f"{kind}: {shown}\n  {action}".rstrip())
    return len(causes)

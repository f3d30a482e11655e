"""``k8sbench explain``: what a figure was made of, and which rule gives a published one."""

from __future__ import annotations

import shutil
import sys

import click

from k8sbench.app import explain
from k8sbench.cli.options import accept_option, store_option
from k8sbench.cli.output_format import format_option
from k8sbench.cli.terminal import output
from k8sbench.model.errors import UsageError
from k8sbench.model.explanation import FormatExplanation, GroupExplanation, RunExplanation
from k8sbench.report import explanation


@click.command()
@click.argument("target", metavar="RUN|GROUP|FILE.yaml")
@click.argument("log", metavar="[LOG]", required=False)
@accept_option
@format_option("text", "json")
@store_option
def command(
    target: str, log: str | None, accept: tuple[str, ...], output_format: str, where: str | None
) -> None:
    """Show how a figure was computed, or what a log format matches.

    For a run: the lines that count, the window and what was left out, each estimator's formula with
    its numbers, every reason with its evidence and what to do, and the published figures with the
    estimator that reproduces them. For a group (results -o wide shows its id): its runs, median,
    interval and speedup. For a benchmark's file and a LOG: the lines that each expression matches.

    \b
    k8sbench explain resnet50-261120-081500-x7k2qd
    k8sbench explain mine.yaml train.log
    """
    if log is not None:
        _print(explain.explain_format(target, log), output_format)
    elif target.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{target} is a benchmark's file: a log is needed beside it.",
            f"Name one: k8sbench explain {target} LOG",
        )
    else:
        _print(explain.explain(target, where, output.note, accept=accept), output_format)


def _print(
    found: RunExplanation | GroupExplanation | FormatExplanation, output_format: str
) -> None:
    if output_format == "json":
        output.write_json(found)
        return
    width = explanation.WIDTH
    if sys.stdout.isatty():
        width = max(min(shutil.get_terminal_size().columns, width), 40)
    output.write(explanation.text(found, width))

"""``k8sbench nodes``: the same case on each node of a pool; which node or GPU is slow."""

from __future__ import annotations

from typing import Any

import click

from k8sbench.app import nodes
from k8sbench.app.cases import CaseOptions
from k8sbench.app.connections import ClusterAccess
from k8sbench.app.nodes import Checked, NodesOptions
from k8sbench.app.submit import SubmitOptions
from k8sbench.cli import exit_codes, rows
from k8sbench.cli.form import form_option
from k8sbench.cli.options import (
    access_options,
    node_plan_options,
    prometheus_option,
    set_options,
)
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output, reporter
from k8sbench.report import formats
from k8sbench.runs.following import FollowOptions


@click.command()
@node_plan_options
@click.option("-l", "--selector", default="", help="Only nodes with these labels, as for kubectl.")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only N of the nodes; the name of the set determines which.",
)
@click.option("--against", metavar="SET", help="Also compare each node with its figure in a set.")
@access_options
@set_options
@form_option(
    *formats.offered("table", "markdown", "flat", "document", "names"),
    about="Format; name: the nodes to cordon.",
)
@prometheus_option
def command(
    options: CaseOptions,
    access: ClusterAccess,
    form: str,
    keep: bool,
    wait: bool,
    selector: str,
    sample: int | None,
    against: str | None,
    **asked: Any,
) -> int:
    """Run one case on each node of a pool, and name the slow nodes.

    One run is pinned to each node. A node is slow if its throughput is far below the median of the
    pool, or below its own earlier throughput; docs/nodes.md has the rule. No node is cordoned. Exit
    code: 0 no node is slow, 7 a node is slow or faulty, otherwise as submit.

    \b
    k8sbench nodes resnet50 --parallel 8               every node of the pool
    k8sbench nodes resnet50 -l rack=7 --against july   some, and against an earlier set
    """
    wanted = NodesOptions(
        submit=SubmitOptions(
            cases=options,
            access=access,
            follow=FollowOptions(keep=keep, wait=wait),
            command="nodes",
            **asked,
        ),
        selector=selector,
        sample=sample,
        against=against,
    )
    with reporter.reporting() as progress:
        found = nodes.nodes(wanted, progress, SignalStop())
    _print(found, form)
    return exit_codes.of_nodes(found)


def _print(found: Checked, form: str) -> None:
    from k8sbench.report import nodes as report
    from k8sbench.report import tables

    made = report.document(
        found.check,
        found.figures,
        found.gpus,
        set_name=found.set_name,
        against=found.against,
        unit=found.unit,
        left_out=found.left_out,
    )
    view: formats.View = {
        "table": lambda: rows.text_of([report.table(made)]),
        "markdown": lambda: tables.markdown([report.table(made)]),
        "flat": lambda: report.flat(made),
        "document": lambda: made,
        "names": lambda: made.to_cordon,
    }
    output.write(formats.written(form, view))
    for text in report.sentences(made):
        (output.note if not formats.FORMATS[form].for_people else _line)(text)


def _line(text: str) -> None:
    output.write(f"{text}\n")

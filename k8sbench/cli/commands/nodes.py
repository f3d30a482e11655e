"""``k8sbench nodes``: one case on each node, to find slow nodes and GPUs."""

from __future__ import annotations

import shlex

import click
import msgspec

from k8sbench.app import nodes
from k8sbench.cli import exit_codes, rows
from k8sbench.cli.options import format_option, request_options
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output, reporter
from k8sbench.model.request import CASE_FLAGS, SET_FLAGS, SubmitRequest
from k8sbench.report import formats


@click.command()
@request_options(CASE_FLAGS | SET_FLAGS)
@click.option("-l", "--selector", default="", help="Only nodes with these labels, as for kubectl.")
@format_option(
    *formats.offered("table", "wide", "markdown", "flat", "document", "names"),
    about="Format of the rows; name: the nodes to cordon.",
)
def command(request: SubmitRequest, output_format: str, selector: str) -> int:
    """Run one case on each node of a pool, and name the slow nodes.

    One run is pinned to each node. A node is slow if its throughput is far below the median of the
    pool; docs/nodes.md has the rule. No node is cordoned. Exit code: 0 no node is slow, 7 a node is
    slow or faulty, otherwise as submit.

    \b
    k8sbench nodes resnet50 --parallel 8   every node of the pool
    k8sbench nodes resnet50 -l rack=7      some of them
    """
    if selector:
        resuming = f"nodes --selector {shlex.quote(selector)}"
        request = msgspec.structs.replace(request, command=resuming)
    with reporter.reporting() as progress:
        found, measured = nodes.nodes(request, progress, SignalStop(), selector=selector)
    from k8sbench.report.group_words import sentences

    rows.write_report(measured.report, output_format, found.to_cordon)
    for text in sentences(found):
        if formats.FORMATS[output_format].for_people:
            output.write(f"{text}\n")
        else:
            output.note(text)
    return exit_codes.of_nodes(found.to_cordon, measured)

"""``k8sbench doctor``: is this cluster ready, and if not, what to do."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from k8sbench.app import doctor
from k8sbench.app.doctor import DoctorOptions, Preflight
from k8sbench.cli.options import access_options, prometheus_option
from k8sbench.cli.output_format import format_option
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output
from k8sbench.model.errors import Interrupted, JobFailed, TimedOut, Unreachable
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.phase import Phase
from k8sbench.report.text_table import Column, clean

if TYPE_CHECKING:
    from k8sbench.ports import JobEvent
    from k8sbench.runs.bandwidth import Outcome

COLUMNS = (Column("LEVEL", whole=True), Column("CHECK", whole=True), Column("FINDING"))
BANDWIDTH = (
    Column("BYTES", right=True),
    Column("TIME", right=True),
    Column("BUS BANDWIDTH", right=True),
    Column("SUM"),
)


@click.command()
@access_options
@click.option("--node-pool", metavar="NAME", help="Node pool; default: that of the pools file.")
@click.option("--pools", "pools_file", metavar="FILE", help="Pools file.")
@click.option(
    "--framework",
    type=click.Choice(["pytorch", "paddle"]),
    help="Framework that must be able to run; default: either.",
)
@click.option(
    "--replicas", type=click.IntRange(1), metavar="N", help="Nodes; default 1, all with --nccl."
)
@click.option(
    "--gpus",
    type=click.IntRange(1),
    metavar="G",
    help="GPUs per replica; default: all of a node's.",
)
@click.option("--image", metavar="NAME:TAG", help="Container image; default: the public ones.")
@click.option("--data", metavar="pvc:NAME[/SUB]", help="Volume claim that must be usable.")
@click.option("--queue", metavar="NAME", help="Kueue queue that must be usable.")
@click.option("--gang", is_flag=True, help="Gangs must be possible.")
@prometheus_option
@click.option(
    "--nccl", is_flag=True, help="After the checks measure an all-reduce over the pool's nodes."
)
@click.option(
    "--init-template",
    is_flag=True,
    help="Print an init container template for the operator that the restricted profile "
    "allows, and exit.",
)
@format_option("table", "json")
def command(
    init_template: bool,
    output_format: str,
    **asked: Any,
) -> int:
    """Say whether a cluster is ready, and if not, what to do.

    It only reads from the cluster. Exit code: 0 ready, perhaps with warnings; 6 for any failure.
    With --nccl it then runs a job that measures the bandwidth between the nodes, and deletes it;
    exit code 3 if that fails.
    """
    if init_template:
        output.write(doctor.init_template())
        return 0
    found = doctor.examine(
        DoctorOptions(**asked),
        SignalStop(),
        note=output.note,
        on_event=_note,
        on_checked=lambda found: _write_lines(found) if output_format == "table" else None,
    )
    if output_format == "json":
        _write_document(found)
    elif found.bandwidth is None:
        _write_lines(found)
    else:
        _write_bandwidth(found.bandwidth)
    if found.bandwidth is not None:
        return _bandwidth_code(found.bandwidth)
    return Unreachable.exit_code if found.failed else 0


def _note(event: JobEvent) -> None:
    if event.transition is not None:
        output.note(f"  {event.transition.phase}: {clean(event.transition.cause)}")
        if event.transition.action:
            output.note(f"    {clean(event.transition.action)}")
    elif event.note is not None:
        output.note(f"  {clean(event.note)}")


def _write_bandwidth(outcome: Outcome) -> None:
    """Print what the all-reduce measured."""
    if outcome.readings:
        rows = [
            (
                str(reading.bytes),
                f"{reading.seconds * 1e6:.1f} µs",
                f"{reading.bus_bytes_per_second / 1e9:.3f} GB/s",
                "right" if reading.correct else "WRONG",
            )
            for reading in outcome.readings
        ]
        output.write("\n")
        output.write_table(BANDWIDTH, rows)
        transports = ", ".join(outcome.transports) or "a way that NCCL did not log"
        output.write(f"\nThe ranks communicated by {transports}.\n")


def _bandwidth_code(outcome: Outcome) -> int:
    """Return the exit code that the all-reduce stands for; notes why it is no success."""
    for text in outcome.last_lines:
        output.note(f"  {clean(text)}")
    if outcome.end.phase is not Phase.SUCCEEDED:
        codes = {"interrupted": Interrupted.exit_code, "timeout": TimedOut.exit_code}
        return codes.get(outcome.end.cause_id or "", JobFailed.exit_code)
    if not outcome.readings:
        output.note("error: the job succeeded without a measurement.")
        return JobFailed.exit_code
    if not all(reading.correct for reading in outcome.readings):
        output.note("error: the sum was wrong: suspect the network or a GPU.")
        return JobFailed.exit_code
    return 0


def _write_lines(found: Preflight) -> None:
    lines = found.lines
    findings = [" ".join(filter(None, (line.message, line.action))) for line in lines]
    rows = [(line.level, line.id, text) for line, text in zip(lines, findings, strict=True)]
    output.write_table(COLUMNS, rows)
    for manifest in {line.manifest: line.id for line in lines if line.manifest}.items():
        output.write("\n# {1}\n{0}".format(*manifest))
    count = Counter(line.level for line in lines)
    counts = ", ".join(
        f"{count[level]} {level if count[level] == 1 or level == 'ok' else level + 's'}"
        for level in ("ok", "warning", "failure")
    )
    output.note(f"{'not ready' if found.failed else 'ready'}: {counts}")


def _write_document(found: Preflight) -> None:
    output.write_json(
        {
            "schema": SCHEMA,
            "server": found.place.server if found.place else None,
            "namespace": found.place.namespace if found.place else None,
            "ready": not found.failed,
            "checks": found.lines,
            "bandwidth": found.bandwidth,
        }
    )

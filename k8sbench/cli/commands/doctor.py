"""``k8sbench doctor``: is this cluster ready, and if not, what to do."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from k8sbench.app import doctor
from k8sbench.app.doctor import Preflight
from k8sbench.cli.options import format_option, request_options
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output
from k8sbench.model.errors import Interrupted, JobFailed, TimedOut, Unreachable
from k8sbench.model.finding import Severity
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import clean
from k8sbench.model.request import FLAGS as ALL_FLAGS
from k8sbench.model.request import SubmitRequest
from k8sbench.report.text_table import Column

if TYPE_CHECKING:
    from k8sbench.lifecycle.bandwidth import Bandwidth
    from k8sbench.ports import JobEvent

LEVELS: dict[Severity, str] = {"ok": "ok", "warn": "warning", "fail": "failure"}
"""Severity of a finding → its level in documents of schema 2."""
COLUMNS = (
    Column("LEVEL", lambda finding: finding.severity, whole=True),
    Column("CHECK", lambda finding: finding.id, whole=True),
    Column("FINDING", lambda one: " ".join(filter(None, (one.sentence, one.action)))),
)
BANDWIDTH = (
    Column("BYTES", lambda one: str(one.bytes), right=True),
    Column("TIME", lambda one: f"{one.seconds * 1e6:.1f} µs", right=True),
    Column("BUS BANDWIDTH", lambda one: f"{one.bus_bytes_per_second / 1e9:.3f} GB/s", right=True),
    Column("SUM", lambda one: "right" if one.correct else "WRONG"),
)
FLAGS = {
    name: ALL_FLAGS[name]
    for name in (
        *("framework", "replicas", "gpus", "image", "node_pool", "pools_file", "queue", "gang"),
        *("data", "prometheus", "job_kind"),
    )
}
"""Of the run that is planned."""


@click.command()
@request_options(FLAGS, benchmark="all-reduce")
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
def command(request: SubmitRequest, nccl: bool, init_template: bool, output_format: str) -> int:
    """Say whether a cluster is ready, and if not, what to do.

    The options are those of the submit that you plan. It only reads from the cluster. Exit code:
    0 ready, perhaps with warnings; 6 for any failure. With --nccl it then runs a job that measures
    the bandwidth between --replicas nodes (default: all), and deletes it; exit code 3 if that
    fails.
    """
    if init_template:
        output.write(doctor.init_template())
        return 0
    done, outcome = doctor.examine(request, output.note), None
    if output_format == "table":
        _write_findings(done)
    if nccl and done.is_ready and done.facts is not None:
        outcome = doctor.all_reduce(request, done.facts, SignalStop(), output.note, _note)
    if output_format == "json":
        _write_document(done, outcome)
    elif outcome is not None:
        _write_bandwidth(outcome)
    if outcome is not None:
        return _bandwidth_code(outcome)
    return 0 if done.is_ready else Unreachable.exit_code


def _note(event: JobEvent) -> None:
    if event.transition is not None:
        output.note(f"  {event.transition.phase}: {clean(event.transition.cause)}")
        if event.transition.action:
            output.note(f"    {clean(event.transition.action)}")
    elif event.note is not None:
        output.note(f"  {clean(event.note)}")


def _write_bandwidth(outcome: Bandwidth) -> None:
    """Print what the all-reduce measured."""
    if outcome.readings:
        output.write("\n")
        output.write_table(BANDWIDTH, outcome.readings)
        transports = ", ".join(outcome.transports) or "a way that NCCL did not log"
        output.write(f"\nThe ranks communicated by {transports}.\n")


def _bandwidth_code(outcome: Bandwidth) -> int:
    """Return the exit code that the all-reduce stands for; notes why it is no success."""
    for text in outcome.last_lines:
        output.note(f"  {clean(text)}")
    if outcome.end.phase is not Phase.SUCCEEDED:
        codes = {"interrupted": Interrupted.exit_code, "timeout": TimedOut.exit_code}
        return codes.get(outcome.end.cause_id or "", JobFailed.exit_code)
    if not outcome.readings:
        output.error("error: the job succeeded without a measurement.")
        return JobFailed.exit_code
    if not all(reading.correct for reading in outcome.readings):
        output.error("error: the sum was wrong: suspect the network or a GPU.")
        return JobFailed.exit_code
    return 0


def _write_findings(done: Preflight) -> None:
    output.write_table(COLUMNS, done.findings)
    count = Counter(finding.severity for finding in done.findings)
    counts = ", ".join(f"{count[severity]} {severity}" for severity in LEVELS)
    output.note(f"{'ready' if done.is_ready else 'not ready'}: {counts}")


def _write_document(done: Preflight, outcome: Bandwidth | None) -> None:
    checks = [
        {
            "id": finding.id,
            "level": LEVELS[finding.severity],
            "message": finding.sentence,
            "action": finding.action,
            "manifest": None,  # no release prints one any more; readers of schema 2 expect it
        }
        for finding in done.findings
    ]
    output.write_json(
        {
            "schema": SCHEMA,
            "server": done.location.server if done.location else None,
            "namespace": done.location.namespace if done.location else None,
            "ready": done.is_ready,
            "checks": checks,
            "bandwidth": outcome,
        }
    )

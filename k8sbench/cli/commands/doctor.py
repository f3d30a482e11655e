"""``k8sbench doctor``: readiness of a cluster, with a fix per failure."""

from __future__ import annotations

from collections import Counter

import click

from k8sbench.app import doctor
from k8sbench.app.doctor import Preflight
from k8sbench.cli.options import format_option, request_options
from k8sbench.cli.terminal import output
from k8sbench.model.errors import Unreachable
from k8sbench.model.finding import Severity
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.request import FLAGS as ALL_FLAGS
from k8sbench.model.request import SubmitRequest
from k8sbench.report.tables import Column

LEVELS: dict[Severity, str] = {"ok": "ok", "warn": "warning", "fail": "failure"}
"""Severity of a finding → its level in documents of schema 2."""
COLUMNS = (
    Column("LEVEL", lambda finding: finding.severity, whole=True),
    Column("CHECK", lambda finding: finding.id, whole=True),
    Column("FINDING", lambda one: " ".join(filter(None, (one.sentence, one.action)))),
)
FLAGS = {
    name: ALL_FLAGS[name]
    for name in (
        *("framework", "replicas", "gpus", "image", "node_pool", "pools_file", "queue"),
        *("data", "prometheus", "job_kind"),
    )
}
"""Options of the planned run."""


@click.command()
@request_options(FLAGS, benchmark=doctor.BENCHMARK)
@click.option(
    "--init-template",
    is_flag=True,
    help="Print an init container template for the operator that the restricted profile "
    "allows, and exit.",
)
@format_option("table", "json")
def command(request: SubmitRequest, init_template: bool, output_format: str) -> int:
    """Check whether a cluster is ready; name a fix for each failure.

    The options are those of the submit that you plan. It only reads from the cluster. Exit code:
    0 ready, perhaps with warnings; 6 for any failure.
    """
    if init_template:
        output.write(doctor.init_template())
        return 0
    done = doctor.examine(request, output.note)
    if output_format == "table":
        _write_findings(done)
    else:
        _write_document(done)
    return 0 if done.is_ready else Unreachable.exit_code


def _write_findings(done: Preflight) -> None:
    output.write_table(COLUMNS, done.findings)
    count = Counter(finding.severity for finding in done.findings)
    counts = ", ".join(f"{count[severity]} {severity}" for severity in LEVELS)
    output.note(f"{'ready' if done.is_ready else 'not ready'}: {counts}")


def _write_document(done: Preflight) -> None:
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
        }
    )

"""``k8sbench status``: state, plan, measurement and files of a run."""

from __future__ import annotations

import time

import click

from k8sbench.app import runs
from k8sbench.cli.options import access_options, format_option, store_option
from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.progress import figure_words
from k8sbench.model import times
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import clean, counted
from k8sbench.model.planning import describe
from k8sbench.model.request import ClusterAccess
from k8sbench.report import group_words
from k8sbench.report.environment import STATED
from k8sbench.report.run_document import RunStatus
from k8sbench.report.tables import Column, wrapped

REPLICAS = (
    Column("REPLICA", lambda one: one.replica, whole=True),
    Column("STATE", lambda one: one.phase),
    Column("NODE", lambda one: one.node),
    Column("RESTARTS", lambda one: str(one.restarts), right=True),
    Column("EXIT", lambda one: None if one.exit_code is None else str(one.exit_code), right=True),
    Column("DETAIL", lambda one: one.detail or None),
)


@click.command()
@click.argument("run", metavar="RUN")
@format_option("table", "json", "yaml")
@access_options
@store_option
def command(run: str, output_format: str, access: ClusterAccess, where: str | None) -> None:
    """Show the state, plan and result of a run.

    RUN is a run id or a unique beginning of one, in the store or, if it was submitted from another
    store, on the cluster. For an unfinished run on a cluster it also shows the present state of its
    job, and for a run that an operator in the namespace has finished what the operator has
    recorded; --store cluster asks only the operator. The exit code does not depend on the run's
    state: it is 0.
    """
    status = runs.status(run, where, access, output.note)
    if output_format == "table":
        _print(status)
    else:
        output.write_items(output_format, (), (), status)


def _print(status: RunStatus) -> None:
    plan = status.plan
    id_part = f" ({status.cause_id})" if status.cause_id else ""
    known = {} if status.measurement is None else status.measurement.environment
    environment = [f"{name} {value}" for name in STATED if (value := known.get(name)) is not None]
    files = status.artifacts or status.artifacts_missing
    if not status.recorded:
        files = f"none here; to follow the run into this store: k8sbench watch {status.run_id}"
    facts: list[tuple[str, str | None]] = [
        ("Run", status.run_id),
        ("Phase", f"{status.phase}{id_part}: {status.cause}"),
        ("Phase", status.action),
        *_on_cluster(status),
        *(
            ("To do", f"{wish.kind.capitalize()} its job with: k8sbench collect {status.run_id}")
            for wish in status.wishes
        ),
        ("Plan", describe(plan)),
        *(("Note", text) for text in plan.notes),
        ("Set", f"{plan.set_name}, repeat {plan.repeat}; group {status.group}"),
        ("Command", group_words.command(plan)),
        ("Times", _times(status, time.time())),
        *_verdict(status),
        ("Image", status.image_digest),
        ("Environment", ", ".join(environment)),
        ("Files", files),
        ("Source", None if status.source == "here" else status.source),
    ]
    if status.process is not None and status.process_alive is None and not status.phase.final:
        who = f"pid {status.process.pid} on {status.process.host}"
        facts.append(("Process", f"{who}; whether it still runs cannot be seen from here"))
    shown_facts = [(name, text) for name, text in facts if text]
    width = max(len(name) for name, _ in shown_facts) + 1
    last = ""
    for name, text in shown_facts:
        shown = "" if name == last else f"{name}:"
        line = f"{shown:<{width}} {clean(text)}"
        output.write(wrapped(line, output.terminal_width(), indent=" " * (width + 1)) + "\n")
        last = name
    output.write("\n")
    if status.on_cluster is not None:
        output.write_table(REPLICAS, status.on_cluster.replicas)
        output.write("\n")
    columns = (
        Column("TIME", lambda step: output.stamp(step.at), whole=True),
        Column("PHASE", lambda step: step.phase),
        Column("AFTER", lambda step: times.duration(step.at - status.created_at), right=True),
        Column("CAUSE", lambda one: f"{one.cause} ({one.cause_id})" if one.cause_id else one.cause),
    )
    output.write_table(columns, status.history)


def _on_cluster(status: RunStatus) -> list[tuple[str, str | None]]:
    """Return the job's state on the cluster if it differs from the record."""
    here = status.on_cluster
    if here is None or (here.phase, here.cause_id) == (status.phase, status.cause_id):
        return []
    id_part = f" ({here.cause_id})" if here.cause_id else ""
    close = f"Close the run with: k8sbench collect {status.run_id}" if here.phase.final else ""
    lines = (f"{here.phase}{id_part}: {here.cause}", here.action, close)
    return [("On cluster", line) for line in lines]


def _times(status: RunStatus, now: float) -> str:
    text = (
        f"created {output.stamp(status.created_at)} ({times.duration(now - status.created_at)} ago)"
    )
    if status.started_at is not None:
        until = now if status.ended_at is None else status.ended_at
        text += f", running for {times.duration(until - status.started_at)}"
    if status.ended_at is not None:
        text += f", ended {output.stamp(status.ended_at)}"
    if status.restarts:
        text += f", {counted(status.restarts, 'restart')}"
    return text


def _verdict(status: RunStatus) -> list[tuple[str, str | None]]:
    measured = status.measurement
    if measured is None:
        return [("Verdict", _not_measured(status))]
    lines: list[tuple[str, str | None]] = [("Verdict", figure_words(measured, status.plan))]
    for reason in measured.reasons:
        severity = "accepted" if reason.accepted else reason.severity
        lines.append(("Reasons", f"{severity} {reason.id}: {reason.sentence}"))
    return lines


def _not_measured(status: RunStatus) -> str:
    if not status.phase.final:
        return "not measured yet"
    if status.phase is not Phase.SUCCEEDED:
        return f"not measured: the run is {status.phase}"
    if status.plan.backend == "local":
        return f"not measured. Resume: {group_words.resuming(status.plan)}"
    return f"not measured; measure it with: k8sbench collect {status.run_id}"

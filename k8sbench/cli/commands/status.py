"""``k8sbench status``: what was planned, what became of it, what was measured, where it lies."""

from __future__ import annotations

import shlex
import time

import click

from k8sbench.app import status as app
from k8sbench.app.connections import ClusterAccess
from k8sbench.cli.options import access_options, store_option
from k8sbench.cli.terminal import output
from k8sbench.model import times
from k8sbench.model.phase import Phase
from k8sbench.model.planning import describe
from k8sbench.report.text_table import Column, clean
from k8sbench.runs.records import RunStatus


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    help="Format.",
)
@access_options
@store_option
def command(run: str, form: str, access: ClusterAccess, where: str | None) -> None:
    """Say what became of a run.

    RUN is a run id or a unique beginning of one, in the store or, submitted by somebody else, on
    the cluster alone. Of a run that goes on on a cluster it also says how its job is there now.
    The exit code is 0 whatever became of it.
    """
    said = app.status(run, where, access, output.note)
    if form == "json":
        output.write_json(said)
    elif form == "yaml":
        output.write_yaml(said)
    else:
        _print(said, time.time())


def _print(said: RunStatus, now: float) -> None:
    plan = said.plan
    id_part = f" ({said.cause_id})" if said.cause_id else ""
    facts: list[tuple[str, str]] = [
        ("Run", said.run_id),
        ("Phase", f"{said.phase}{id_part}: {said.cause}"),
        *([("Phase", said.action)] if said.action else []),
        *_now(said),
        ("Plan", describe(plan)),
        *(("Note", text) for text in plan.notes),
        ("Set", f"{plan.set_name}, repeat {plan.repeat}; group {said.group}"),
        ("Times", _times(said, now)),
        *_verdict(said),
        ("Files", _files(said)),
    ]
    if said.owner is not None and said.owner_alive is None and not said.phase.final:
        who = f"pid {said.owner.pid} on {said.owner.host}"
        facts.append(("Process", f"{who}; whether it still runs cannot be seen from here"))
    width = max(len(name) for name, _ in facts) + 1
    last = ""
    for name, text in facts:
        shown = "" if name == last else f"{name}:"
        output.write(f"{shown:<{width}} {clean(text)}\n")
        last = name
    output.write("\n")
    if said.on_cluster is not None:
        output.write_table(
            (
                Column("REPLICA", whole=True),
                Column("STATE"),
                Column("NODE"),
                Column("RESTARTS", right=True),
                Column("EXIT", right=True),
                Column("DETAIL"),
            ),
            [
                (
                    one.replica,
                    one.phase,
                    one.node,
                    str(one.restarts),
                    None if one.exit_code is None else str(one.exit_code),
                    one.detail or None,
                )
                for one in said.on_cluster.replicas
            ],
        )
        output.write("\n")
    output.write_table(
        (Column("TIME", whole=True), Column("PHASE"), Column("AFTER", right=True), Column("CAUSE")),
        [
            (
                output.stamp(step.at),
                step.phase,
                times.duration(step.at - said.created_at),
                step.cause if step.cause_id is None else f"{step.cause} ({step.cause_id})",
            )
            for step in said.history
        ],
    )


def _now(said: RunStatus) -> list[tuple[str, str]]:
    """Say how the job is on the cluster, where the record does not say the same."""
    here = said.on_cluster
    if here is None or (here.phase, here.cause_id) == (said.phase, said.cause_id):
        return []
    id_part = f" ({here.cause_id})" if here.cause_id else ""
    lines = [("On cluster", f"{here.phase}{id_part}: {here.cause}")]
    if here.action:
        lines.append(("On cluster", here.action))
    if here.phase.final:
        lines.append(("On cluster", f"Close the run with: k8sbench collect {said.run_id}"))
    return lines


def _times(said: RunStatus, now: float) -> str:
    text = f"created {output.stamp(said.created_at)} ({times.duration(now - said.created_at)} ago)"
    if said.started_at is not None:
        until = now if said.ended_at is None else said.ended_at
        text += f", running for {times.duration(until - said.started_at)}"
    if said.ended_at is not None:
        text += f", ended {output.stamp(said.ended_at)}"
    return text


def _verdict(said: RunStatus) -> list[tuple[str, str]]:
    measured = said.measurement
    if measured is None:
        return [("Verdict", _not_measured(said))]
    rate = measured.rate
    smoke = ", smoke: checks the path, not the speed" if said.plan.preset == "smoke" else ""
    if rate is not None and measured.throughput is not None:
        figure = f"{rate:.4g} {measured.throughput.unit} ({measured.estimator}{smoke})"
    else:
        figure = f"no figure{smoke}"
    lines = [("Verdict", f"{measured.verdict}, {figure}")]
    for reason in measured.reasons:
        severity = "accepted" if reason.accepted else reason.severity
        lines.append(("Reasons", f"{severity} {reason.id}: {reason.message}"))
        lines += [
            ("Reasons", f"  {place.file}:{place.line}: {place.text}")
            for place in reason.evidence[:3]
        ]
    return lines


def _not_measured(said: RunStatus) -> str:
    if not said.phase.final:
        return "not measured yet"
    if said.phase is not Phase.SUCCEEDED:
        return f"not measured: the run is {said.phase}"
    if not said.recorded:
        return f"not measured here; measure it with: k8sbench collect {said.run_id}"
    logs = " ".join(shlex.quote(path) for path in said.log_files) or "LOG"
    return (
        "not measured: k8sbench ended before it came to that; measure it with: k8sbench measure"
        f" {logs} --benchmark {said.plan.benchmark} --gpus {said.plan.world_size} --one-run"
    )


def _files(said: RunStatus) -> str:
    if not said.recorded:
        return (
            "none here: this store has no record of the run; to follow it into the store:"
            f" k8sbench watch {said.run_id}"
        )
    return said.artifacts or said.artifacts_missing or ""

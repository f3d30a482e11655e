"""``k8sbench list``, ``status``, ``watch``, ``logs``, ``cancel``, ``delete`` and ``collect``."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click
import msgspec

from k8sbench.app import collect, ending, follow, run_list, run_status
from k8sbench.app.answers import StoresRead
from k8sbench.app.follow import PrintedLine
from k8sbench.app.run_list import Listing
from k8sbench.catalog.planning import describe_case
from k8sbench.cli import rows
from k8sbench.cli.options import (
    accept_option,
    access_options,
    format_option,
    keep_option,
    look_options,
    prometheus_option,
    rows_option,
    since_option,
    store_option,
    wait_option,
)
from k8sbench.cli.rows import exit_code
from k8sbench.cli.running import SignalStop, reporting
from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.progress import figure_words
from k8sbench.model import plain_text, times
from k8sbench.model.errors import Interrupted, UsageError, list_few
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import clean, counted
from k8sbench.model.request import CollectOptions, FollowOptions
from k8sbench.model.run import Run
from k8sbench.results.report import formats, group_words
from k8sbench.results.report.account import STATED
from k8sbench.results.report.document import ListedRun, RunStatus
from k8sbench.results.report.formats import FOR_PEOPLE
from k8sbench.results.report.tables import Column, wrapped
from k8sbench.store.interface import RunFilter

WIDE = ("set", "repeat", "variant", "impl", "preset", "backend", "group", "cause")
"""Titles of the columns that a wide table has besides."""
SHORT = ("table", "wide")
"""Formats that end at the newest runs on a terminal."""
MOST_LISTED = 50
"""Newest runs that a terminal gets."""
NOT_RECORDED = "not recorded"
"""Verdict of a run that this store has no record of."""


@click.command()
@format_option("table", "wide", "csv", "json", "name")
@click.option("--set", "set_name", metavar="SET", help="Only runs of this set.")
@click.option("--benchmark", metavar="NAME", help="Only runs of this benchmark.")
@since_option("Only runs created since: 2h, 3d, 2026-11-20, …")
@look_options
def list_command(output_format: str, scope: StoresRead, **wanted: Any) -> int:
    """List the recorded runs, or all runs of a namespace.

    Oldest first, each with its throughput, or the reason why it has none; on a terminal the newest
    50, in a pipe all of them. A run whose process was
    killed is Lost. A run on a cluster that no k8sbench follows has its present state there. With
    -n, --context or --kubeconfig only the runs of that namespace are listed, including those that
    other people have submitted. One store answers; if an operator serves the namespace, the first
    line says which, and what the other holds.
    """
    is_short = output_format in SHORT and sys.stdout.isatty()
    limit = MOST_LISTED + 1 if is_short else None
    run_filter = RunFilter(**wanted, limit=limit)
    write = partial(_print_list, output_format=output_format, is_short=is_short, now=time.time())
    run_list.list_runs(run_filter, scope, output.note, write)
    return exit_code(scope)


def _print_list(listing: Listing, output_format: str, *, is_short: bool, now: float) -> None:
    fields = [field.name for field in msgspec.structs.fields(ListedRun)]

    def shown() -> Iterator[ListedRun]:
        if not is_short:
            return listing.rows()
        rows = list(listing.rows())
        if len(rows) > MOST_LISTED:
            output.note(f"The newest {MOST_LISTED} runs; for all of them: k8sbench list | less")
        return iter(rows[-MOST_LISTED:])

    def csv_rows() -> Iterator[list[object]]:
        return ([_csv_value(getattr(row, name)) for name in fields] for row in listing.rows())

    view: formats.View = {
        "table": lambda: _table(shown(), now, wide=False),
        "wide": lambda: _table(shown(), now, wide=True),
        "csv": lambda: (fields, csv_rows()),
        "json": listing.rows,
        "name": listing.run_ids,
    }
    output.write_pieces(formats.pieces(output_format, view))


def _table(rows: Iterator[ListedRun], now: float, *, wide: bool) -> Iterator[str]:
    """Lay out runs; ``wide`` keeps columns that narrow terminals drop."""
    first = next(rows, None)
    if first is None:
        return iter(())
    duration = functools.partial(Column, right=True, whole=True)
    columns = [
        Column("RUN", lambda row: row.run_id, whole=True),
        Column("BENCHMARK", lambda row: row.benchmark, optional=2),  # most ids begin with it
        Column("FRAMEWORK", lambda row: formats.or_absent(row.framework), optional=3),
        Column("CASE", lambda row: formats.or_absent(row.case), whole=True),
        Column("PRECISION", lambda row: formats.or_absent(row.precision), optional=5),
        Column("PHASE", lambda row: row.on_cluster or row.phase, states=True),
        Column("THROUGHPUT", _throughput, right=True),
        Column("VERDICT", _listed_verdict, optional=4, states=True),
        duration("TOOK", lambda row: _took(row, now), optional=6),
        duration("AGE", lambda row: times.duration(now - row.created_at)),
    ]
    if wide:
        columns = [msgspec.structs.replace(column, optional=0) for column in columns]
        for title in WIDE:
            cell = functools.partial(_text, "set_name" if title == "set" else title)
            is_whole = title in {"set", "group"}
            is_number = title == "repeat"
            columns.append(Column(title.upper(), cell, right=is_number, whole=is_whole))
    columns.append(Column("RESTARTS", _restarts, right=True, optional=7))
    columns.append(Column("SOURCE", lambda row: row.source, optional=1, usual="here"))
    return output.table_lines(columns, itertools.chain([first], rows), is_whole=wide)


def _restarts(row: ListedRun) -> str | None:
    return str(row.restarts) if row.restarts else None


def _listed_verdict(row: ListedRun) -> str | None:
    return row.verdict if row.recorded else NOT_RECORDED


def _throughput(row: ListedRun) -> str | None:
    return row.verdict if row.throughput is None else f"{formats.rate(row.throughput)} {row.unit}"


def _took(row: ListedRun, now: float) -> str | None:
    begun = row.started_at if row.started_at is not None else row.created_at
    # Of a job that is over there, its end is not known here; of an imported run, its beginning.
    is_over = row.ended_at is None and (row.on_cluster or row.phase).final
    if is_over or row.backend in {"imported", "observed"}:
        return None
    return times.duration((now if row.ended_at is None else row.ended_at) - begun)


def _text(field: str, row: ListedRun) -> str | None:
    value = getattr(row, field)
    return None if value is None else str(value)


def _csv_value(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


# -- status ----------------------------------------------------------------------------------------


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
@look_options
def status_command(run: str, output_format: str, scope: StoresRead) -> None:
    """Show the state, plan and result of a run.

    RUN is a run id, a unique beginning of one, or the name of a Benchmark with one run, in the
    store or in that of an operator in the namespace or, if it was submitted from another store, on
    the cluster. For an unfinished run on a cluster it also shows the present state of its job;
    --store cluster asks only the operator. The exit code does not depend on the run's state: it is
    0.
    """
    status = run_status.status(run, scope, output.note)
    if output_format == "table":
        _print_status(status)
    else:
        output.write_items(output_format, (), (), status)


def _print_status(status: RunStatus) -> None:
    id_part = f" ({status.cause_id})" if status.cause_id else ""
    known = {} if status.measurement is None else status.measurement.environment
    environment = [f"{name} {value}" for name in STATED if (value := known.get(name)) is not None]
    files = status.artifacts or status.artifacts_missing
    facts: list[tuple[str, str | None]] = [
        ("Run", status.run_id),
        ("Phase", f"{status.phase}{id_part}: {status.cause}"),
        ("Phase", status.action),
        *_on_cluster(status),
        *(
            ("To do", f"{wish.kind.capitalize()} its job with: k8sbench collect {status.run_id}")
            for wish in status.wishes
        ),
        *_planned(status),
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


def _planned(status: RunStatus) -> list[tuple[str, str | None]]:
    """Return what is known of the run's case, and its set."""
    plan = status.plan
    facts = status.facts
    of_set = ("Set", f"{facts.set_name}, repeat {facts.repeat}; group {status.group}")
    notes = [("Note", text) for text in facts.notes]
    return [
        ("Plan", describe_case(facts, plan)),
        *notes,
        of_set,
        ("Command", group_words.command(plan)),
    ]


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
    if not status.recorded:
        return "not measured here"
    if status.phase is not Phase.SUCCEEDED:
        return f"not measured: the run is {status.phase}"
    if status.plan is not None and status.plan.backend == "local":
        return f"not measured. Resume: {group_words.resuming(status.plan)}"
    return f"not measured; measure it with: k8sbench collect {status.run_id}"


# -- watch, logs, cancel and delete ----------------------------------------------------------------


@click.command()
@click.argument("run", metavar="RUN")
@keep_option
@wait_option
@rows_option
@access_options
@store_option
@prometheus_option
def watch_command(
    run: str, keep: bool, wait: bool, prometheus: str, output_format: str, **where: Any
) -> int:
    """Follow a run to its end and print its row.

    RUN is a run id, a unique beginning of one, or the name of a Benchmark with one run. If another
    k8sbench follows the run, its record is watched. Ctrl-C does not change the run. Exit codes are
    those of submit.
    """
    options = FollowOptions(keep=keep, wait=wait, prometheus=prometheus)
    with reporting() as reporter:
        followed = follow.watch(run, reporter=reporter, stop=SignalStop(), options=options, **where)
    rows.write(followed, output_format)
    return rows.code_of_rows(followed)


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--replica", metavar="NAME", help="Only this replica: master-0, worker-1, …")
@click.option(
    "--timestamps", is_flag=True, help="Begin each line with the time at which it was received."
)
@since_option("Only lines received since: 30m, 2026-11-20T08:15Z, …")
@click.option("-f", "--follow", "follows", is_flag=True, help="Continue until the run has ended.")
@look_options
def logs_command(run: str, timestamps: bool, since: float | None, **given: Any) -> None:
    """Print the logs of a run.

    RUN is a run id, a unique beginning of one, or the name of a Benchmark with one run, in the
    store or in that of an operator in the namespace or, if it was submitted from another store, on
    the cluster. Lines of several replicas are
    printed in the order of time, each after its replica's name. If no process of this store follows
    a run on a cluster, its lines are read from the cluster, and not archived. If an operator in the
    namespace has finished the run, its lines are read from the operator; --store cluster asks only
    the operator. What looks like a credential is printed as ***; the archived lines keep it.
    """
    sys.stdout.flush()
    # As bytes, because logs may hold invalid text.
    out = sys.stdout.buffer
    is_terminal = sys.stdout.isatty()
    lines = follow.logs(run, note=output.note, stop=SignalStop(), **given)
    with output.piped(), contextlib.closing(lines):
        for line in lines:
            if line is None:
                out.flush()
            elif since is None or line.at >= since:
                out.write(line_text(line, timestamps, is_terminal) + b"\n")


def line_text(line: PrintedLine, timestamps: bool, is_terminal: bool) -> bytes:
    """Write a line; a terminal gets text without control characters."""
    # Of the lines of an imported log nobody saw when they came.
    stamp = follow.stamp(line.at) + b" " if timestamps and line.at else b""
    replica = f"[{line.replica}] ".encode() if line.replica else b""
    text = stamp + replica + line.text
    return plain_text.clean(text.decode(errors="replace")).encode() if is_terminal else text


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@access_options
@store_option
def cancel_command(runs: tuple[str, ...], **where: Any) -> None:
    """Cancel runs that have not ended.

    RUN may be the name of a Benchmark: it and all of its runs are cancelled. The job is deleted
    from the cluster when its logs are archived; a local run's processes are ended by the k8sbench
    that started them. A run that has ended is not changed.
    """
    with reporting() as reporter:
        ending.end(runs, "cancel", reporter=reporter, stop=SignalStop(), **where)


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@access_options
@store_option
def delete_command(runs: tuple[str, ...], **where: Any) -> None:
    """Delete the objects of runs on the cluster.

    RUN may be the name of a Benchmark: it is deleted, with the objects of all of its runs. A run
    that has not ended is cancelled first. Only what k8sbench created is deleted. The records
    and logs in the store stay.
    """
    with reporting() as reporter:
        ending.end(runs, "delete", reporter=reporter, stop=SignalStop(), **where)


# -- collect ---------------------------------------------------------------------------------------


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--all", "every", is_flag=True, help="Every run of the namespace that needs collection."
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Make this store the owner of the jobs of RUN, this machine that of its Benchmark; asks"
    " first.",
)
@click.option("-y", "--yes", is_flag=True, help="Take over without asking.")
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Wait for runs that have not ended.",
)
@keep_option
@wait_option
@accept_option
@rows_option
@access_options
@store_option
@prometheus_option
def collect_command(
    runs: tuple[str, ...],
    every: bool,
    follow: bool,
    yes: bool,
    output_format: str,
    where: str | None,
    **asked: Any,
) -> int:
    """Archive, measure and print runs that have ended.

    RUN may be the name of a Benchmark, with all of its runs; its status is written. It also carries
    out recorded requests to cancel or delete jobs. A job belongs to the store that submitted it;
    one without an owner becomes this store's when it is named. --take-over changes the owner. The
    operator collects its own. The command can be repeated. A run that cannot be collected is
    reported and skipped. Ctrl-C does not change the jobs. Exit codes are those of submit.
    """
    if every == bool(runs):
        raise UsageError("Name runs, or all of them with --all.", "k8sbench list shows the runs.")
    if every and asked["take_over"]:
        raise UsageError("--take-over is for runs that are named.", "Name them instead of --all.")
    options = CollectOptions(runs=runs, until_over=follow, store=where, **asked)
    stop = SignalStop()
    with reporting() as reporter:
        result, made = collect.collect(options, reporter, stop, partial(_agrees, yes=yes))
    _note_runs(result.going_on, ("goes", "go"), "on; wait with --follow")
    _note_runs(result.followed, ("is", "are"), "followed by another k8sbench process: left to it")
    if every and not (result.closed or result.going_on or result.followed or result.failed):
        output.note("Nothing needs collection here.")
    # Data is whole also where there is none.
    if result.closed or output_format not in FOR_PEOPLE:
        rows.write(made, output_format)
    if stop.cause is not None and result.going_on:
        raise Interrupted(
            f"{stop.cause}: {counted(len(result.going_on), 'run', ('goes', 'go'))} on.",
            "Come back with the same command.",
        )
    codes = (rows.code_of_rows(made), rows.code_of_failures(result.failed.values()))
    return rows.worst_code(codes)


def _agrees(text: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(text, "To take it over without a question, give --yes.")
    output.error(text)
    return output.agreed("Take it over?")


def _note_runs(runs: Sequence[Run], verbs: tuple[str, str], what: str) -> None:
    """Note the state of runs by name."""
    if runs:
        verb = verbs[len(runs) > 1]
        output.note(f"  {list_few([run.run_id for run in runs])} {verb} {what}")

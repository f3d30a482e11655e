"""``k8sbench results``, ``report``, ``explain``, ``compare``, ``history`` and ``baseline``."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from k8sbench.app import comparisons, imports, reports, results
from k8sbench.app.answers import StoresRead
from k8sbench.cli import rows
from k8sbench.cli.configuration import RecordedName
from k8sbench.cli.options import (
    TYPED,
    answer_options,
    filter_options,
    format_option,
    look_options,
    since_option,
    store_option,
)
from k8sbench.cli.rows import exit_code
from k8sbench.cli.terminal import output
from k8sbench.messages import Lang
from k8sbench.model.errors import (
    REGRESSION_EXIT_CODE,
    REJECTED_EXIT_CODE,
    UNDECIDED_EXIT_CODE,
    NoSide,
    UsageError,
    list_few,
)
from k8sbench.model.group_filter import GroupFilter
from k8sbench.model.plain_text import counted
from k8sbench.results.groups.comparison import FLOOR
from k8sbench.results.groups.missing import GONE
from k8sbench.results.groups.selection import Sort, Wanted
from k8sbench.results.report import explanation, formats, group_words
from k8sbench.results.report.tables import Column

if TYPE_CHECKING:
    from k8sbench.model.compared import Comparison


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@format_option(
    "table", "wide", "markdown", "csv", "json", "report", "html", about="Format of the rows."
)
@filter_options()
@click.option("--set", "set_name", metavar="SET", help="Only this set.")
@click.option("--all", "every", is_flag=True, help="All sets of each case, not only the latest.")
@click.option(
    "--sort", type=click.Choice(get_args(Sort)), default="case", help="Order of the rows."
)
@since_option("All sets with a run since: 2h, 3d, 2026-11-20, …")
@click.option(
    "--published", is_flag=True, help="Show the published figures beside those of the rows."
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    default="en",
    help="Language of the titles, for table, wide, report, markdown and html.",
)
@click.option("--title", metavar="TEXT", help="Title of the page of -o html.")
@answer_options
def command(
    output_format: str,
    lang: Lang,
    title: str | None,
    published: bool,
    scope: StoresRead,
    **wanted: Any,
) -> int:
    """Print tables of the measured results.

    One row per case: the median of its valid runs in the latest set; with RUN (ids, or unique
    beginnings of them) the rows of these runs. A missing figure is –, and a line says why. One
    store answers; if an operator serves the namespace, the first line says which, and what the
    other holds. Exit code 6 if the operator cannot be read.

    The figure of a run is its samples ÷ the time of its window, unless a line names another
    estimator. ± is the coefficient of variation of the runs. k8sbench explain COLUMN says how any
    column is made.
    """
    if lang != "en" and output_format not in formats.FOR_PEOPLE:
        raise UsageError(
            f"--lang is for formats that people read, not for {output_format}.",
            "Leave it out, or choose table, wide, report, markdown or html.",
        )
    report = results.results(
        Wanted(**wanted),
        scope,
        output.note,
        published=published,
        over_sets=output_format == "html",
    )
    if output_format == "html":
        named = wanted["runs"]
        output.write(reports.page(report, named, scope.where, output.note, lang=lang, title=title))
    else:
        rows.write_report(report, output_format, lang=lang)
    if report.retired and output_format in formats.FOR_PEOPLE:
        names = list_few([group_words.case_name(group) for group in report.retired])
        count = counted(len(report.retired), "case", ("is", "are"))
        output.note(
            f"{count} not shown, because {GONE} usual intervals have passed without a set: {names};"
            " --all shows all sets."
        )
    if report.older and output_format in formats.FOR_PEOPLE:
        older = counted(report.older, "older row", ("is", "are"))
        output.note(f"{older} not shown; --all shows all sets.")
    return exit_code(scope)


@click.command()
@click.argument("sets", metavar="SET...", nargs=-1, required=True)
@click.option("-o", "--output", "folder", metavar="FOLDER", required=True, help="Where to.")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of the README."
)
@click.option("--title", metavar="TEXT", help="Title; default: the benchmarks' names.")
@click.option("--published", is_flag=True, help="Compare the rows with the published figures.")
@click.option(
    "--environment",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="YAML with facts that logs do not state; default: FOLDER/environment.yaml.",
)
@click.option(
    "--notes",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Markdown with your own chapters; default: FOLDER/notes.md.",
)
@click.option("--force", is_flag=True, help="Overwrite files that were changed by hand.")
@answer_options
def report_command(sets: tuple[str, ...], folder: str, scope: StoresRead, **given: Any) -> int:
    """Write a publishable report of sets.

    FOLDER gets a README with environment, commands, method, tables and charts, as the published
    reports have them, and beside it the data, the manifests and the logs of all runs. Written
    again, it replaces the report that is there, and changes nothing where nothing has changed.

    \b
    k8sbench report nightly -o report
    k8sbench report fp32 amp -o report --lang zh --published
    """
    made = reports.publish(sets, Path(folder), scope, output.note, **given)
    in_english = msgspec.structs.replace(made, lang="en")
    output.note(f"{folder} is written. {in_english.valid}.")
    output.note("Before you publish it: logs and manifests hold names of hosts, users and folders.")
    return exit_code(scope)


@click.command()
@click.argument("target", metavar="RUN|GROUP|ID|COLUMN|FILE.yaml")
@click.argument("log", metavar="[LOG]", required=False)
@answer_options
def explain_command(target: str, log: str | None, scope: StoresRead) -> int:
    """Explain a figure, an id such as gpu-count, a column, or a log format.

    For a run: the lines that count, the window and what was left out, the figure by each
    estimator, and every reason with its evidence and what to do. For a group (results -o wide shows
    its id): its runs, interval and speedup. For the ID of a reason, of a cause or of a check of
    doctor: what it means and what to do. For a state, remark, verdict or column of the results:
    what it means, or how it is made. '*' lists all. For a benchmark's file and a LOG: the lines
    that each expression matches.

    \b
    k8sbench explain gpu-count
    k8sbench explain resnet50-1120-x7k2qd-1
    k8sbench explain mine.yaml train.log
    """
    if log is not None:
        made = imports.explain_format(target, log)
    elif target.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{target} is a benchmark file: explain also needs a log.",
            f"Name one: k8sbench explain {target} LOG",
        )
    else:
        made = results.explain(target, scope, output.note)
    output.write(explanation.text(made, output.terminal_width() or explanation.WIDTH))
    return exit_code(scope)


# -- changes between sets --------------------------------------------------------------------------


BASELINES = (
    Column("NAME", lambda baseline: baseline.name, whole=True),
    Column("SAVED", lambda baseline: output.stamp(baseline.saved_at), whole=True),
    Column("BENCHMARKS", lambda baseline: ", ".join(baseline.benchmarks)),
    Column("SETS", lambda baseline: ", ".join(baseline.sets)),
    Column("RUNS", lambda baseline: str(baseline.runs), right=True),
    Column("SOURCE", lambda baseline: baseline.source),
)


def _share(_: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Read a share in percent; the limit of a regression is above 0 %."""
    if value is None:
        return None
    share = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,4})?) ?%", value.strip())
    least = "" if option.name == "floor" else "above 0% and "
    if share is None or (least and not float(share[1])):
        raise UsageError(
            f"{option.opts[0]} {value!r} is not a percentage.",
            f"Write a share such as 3% or 0.5%, {least}below 100%.",
        )
    return float(share[1]) / 100


@click.command()
@click.argument("a", metavar="[A", required=False, type=RecordedName(("set", "run")))
@click.argument("b", metavar="B]", required=False, type=RecordedName(("set", "run")))
@format_option("table", "markdown", "github", "csv", "json", "junit")
@filter_options()
@click.option(
    "--fail-on-regression",
    "limit",
    metavar="PERCENT",
    callback=_share,
    help="Exit code 7 if a case of B is found slower by more than this (3%). A case whose runs"
    " cannot show such a change is judged by what they can show.",
)
@click.option(
    "--fail-on-missing",
    is_flag=True,
    help="Exit code 7 if B lacks a case that A has a figure of, or there is no B.",
)
@click.option(
    "--fail-on-undecided",
    is_flag=True,
    help="Exit code 9 if a case cannot show a change of the limit, or at all without a limit.",
)
@click.option(
    "--floor",
    metavar="PERCENT",
    default=f"{100 * FLOOR:g}%",
    show_default=True,
    callback=_share,
    help="Smallest change of a case of which the store has fewer than four earlier sets.",
)
@answer_options
def compare_command(
    a: str | None,
    b: str | None,
    output_format: str,
    chosen: GroupFilter,
    limit: float | None,
    fail_on_missing: bool,
    fail_on_undecided: bool,
    floor: float,
    scope: StoresRead,
) -> int:
    """Compare two sides, or the newest night with the one before.

    Without A and B it compares all sets of the newest night (a day, UTC) with those of the night
    before, and says what to type next. A is the old side, B the new one. A side is a set, a group,
    a run, a baseline, or several of them with commas between. Write set:NAME if several things have
    that name. The first line says which cases differ. A line for each of these follows: both
    medians with their spread, the change with its 95 % interval by a t-test, and a verdict; ~ if no
    change is shown. Three runs on each side decide; where the store has four earlier sets of a
    case, their spread does, also for one run. What may explain the changes stands below, likeliest
    first.
    """
    try:
        compared = comparisons.compare(
            a, b, scope, output.note, limit=limit, floor=floor, chosen=chosen
        )
    except NoSide as error:
        if not fail_on_missing or error.side == a:
            raise
        output.note(f"missing: {error}")
        return REGRESSION_EXIT_CODE
    from k8sbench.results.report import compared_data as data
    from k8sbench.results.report import compared_words
    from k8sbench.results.report import comparing as report

    width = output.terminal_width()
    paint = output.paint()
    view: formats.View = {
        "table": lambda: report.text(compared, width=width, paint=paint),
        "markdown": lambda: report.markdown(compared),
        "github": lambda: report.github(compared),
        "json": lambda: data.document(compared),
        "csv": lambda: data.flat(compared),
        "junit": lambda: data.junit(compared),
    }
    output.write(formats.written(output_format, view))
    if limit is None and not fail_on_missing and not fail_on_undecided:
        return exit_code(scope)
    if output_format not in formats.FOR_PEOPLE:
        # CI's log has it, too, where the document goes to a file.
        output.note(compared_words.summary(compared))
    code = _code_of_changes(compared, missing=fail_on_missing, undecided=fail_on_undecided)
    return exit_code(scope) or code


def _code_of_changes(compared: Comparison, *, missing: bool, undecided: bool) -> int:
    """Return the exit code of a comparison that may fail.

    ``missing``, ``undecided``: whether such cases fail.
    """
    from k8sbench.results.report.compared_words import case_names, lacks_figure

    if len(compared.nights) == 1:
        return 0
    names = case_names(compared)
    gone = [
        name
        for case, name in zip(compared.cases, names, strict=True)
        if case.a and case.a.values and case.b is None
    ]
    unsure = _cases_that_cannot_show(compared, names)
    if unsure:
        limit = "a change"
        if compared.limit is not None:
            limit += f" of {100 * compared.limit:g} %"
        output.note(
            f"undecided: these runs cannot show {limit} ({list_few(unsure)}). Repeat more, or raise"
            " the limit."
        )
    if missing and gone:
        output.note(f"missing in B: {list_few(gone)}.")
        return REGRESSION_EXIT_CODE
    if compared.regressions:
        return REGRESSION_EXIT_CODE
    if lacking := sum(lacks_figure(case) for case in compared.cases):
        output.note(f"{counted(lacking, 'case', ('has', 'have'))} no valid run in B.")
        return REJECTED_EXIT_CODE
    if all(case.ratio is None for case in compared.cases):
        raise UsageError(
            "Nothing could be compared, so no regression could be seen.",
            "The lines below the table say why.",
        )
    return UNDECIDED_EXIT_CODE if undecided and unsure else 0


def _cases_that_cannot_show(compared: Comparison, names: Sequence[str]) -> list[str]:
    """Return the cases without a finding whose runs cannot show a change of the limit.

    Each with the smallest change that they can show: the case is judged by that.
    """
    limit = 1.0 if compared.limit is None else compared.limit

    def shown(least: float | None) -> str:
        return "one run on a side" if least is None else formats.percent_beside(least, limit)

    return [
        f"{name}: {shown(case.least)}"
        for case, name in zip(compared.cases, names, strict=True)
        if case.finding in ("no-difference", "undecided")
        and not (case.least and case.least <= limit)
    ]


@click.command()
@click.argument("benchmark", metavar="[BENCHMARK]", required=False)
@format_option("table", "markdown", "csv", "json")
@filter_options("framework", "precision", "case")
@since_option("Only sets with a run since: 2h, 3d, 2026-11-20, …")
@click.option(
    "--accept-level",
    is_flag=True,
    help="Accept the present level of these cases: what is open is closed.",
)
@click.option(
    "--range",
    "fix_range",
    is_flag=True,
    help="Fix the range of iterations of the benchmark's cases anew, by their newest four sets.",
)
@answer_options
def history_command(
    benchmark: str | None,
    output_format: str,
    since: float | None,
    accept_level: bool,
    fix_range: bool,
    chosen: GroupFilter,
    scope: StoresRead,
) -> int:
    """Show benchmarks over their sets, and what changed.

    Without a benchmark it compares the newest night with the one before, as compare does, and lists
    the changes of all cases, the newest first. With one it prints one table for each case: its
    sets, oldest first, each with its median and interval. A set is marked if it is too far from the
    level of its case: the sets since the last change, at most the newest 20. The next set decides:
    if two sets or more differ from those before, the level has changed. A drop is open until the
    case recovers or its level is accepted.
    """
    chosen = msgspec.structs.replace(chosen, benchmark=benchmark)
    if fix_range:
        _check_alone(accept_level=accept_level, since=since)
    if accept_level:
        _accept_levels(chosen, scope)
        return 0
    if fix_range:
        _fix_ranges(chosen, scope)
        return 0
    if benchmark is None:
        _write_overview(chosen, scope, output_format, since)
        return exit_code(scope)
    from k8sbench.results.report import history, noted_tables

    series = comparisons.history(chosen, scope, output.note, since=since)
    shown = history.tables(series)
    view = {
        "table": lambda: rows.text_of(shown),
        "markdown": lambda: noted_tables.markdown(shown),
        "json": lambda: history.document(series),
        "csv": lambda: history.flat(series),
    }
    output.write(formats.written(output_format, view))
    return exit_code(scope)


def _write_overview(
    chosen: GroupFilter, scope: StoresRead, output_format: str, since: float | None
) -> None:
    """Print the newest night of all cases, and the list of their changes."""
    from k8sbench.results.report import comparing, history, noted_tables

    newest, changed, alternating = comparisons.overview(chosen, scope, output.note, since=since)
    listed = [history.changes_table(changed, alternating)] if changed or alternating else []

    def as_text() -> Iterator[str]:
        if newest is not None:
            width = output.terminal_width()
            yield comparing.text(newest, width=width, paint=output.paint())
        if listed:
            yield rows.text_of(listed)

    def as_markdown() -> Iterator[str]:
        if newest is not None:
            yield comparing.markdown(newest)
        if listed:
            yield noted_tables.markdown(listed)

    view: formats.View = {
        "table": lambda: "\n".join(as_text()),
        "markdown": lambda: "\n".join(as_markdown()),
        "json": lambda: history.changes_document(changed, alternating, newest),
        "csv": lambda: history.flat_changes(changed),
    }
    output.write(formats.written(output_format, view))


def _accept_levels(chosen: GroupFilter, scope: StoresRead) -> None:
    """Accept the present level of the cases that were chosen, and name each."""
    if chosen.benchmark is None:
        raise UsageError(
            "--accept-level needs a benchmark.", "k8sbench history shows which cases are open."
        )
    accepted = comparisons.accept_levels(chosen, scope, output.note, at=time.time())
    for level in accepted:
        output.note(f"accepted: {level.case}, the level of {level.set_name}.")
    if not accepted:
        output.note("No change of these cases is open.")


def _check_alone(*, accept_level: bool, since: float | None) -> None:
    """Refuse options that mean nothing beside ``--range``."""
    source = click.get_current_context().get_parameter_source("output_format")
    others = {"--accept-level": accept_level, "-o": source in TYPED, "--since": since is not None}
    for name, is_given in others.items():
        if is_given:
            raise UsageError(
                f"--range and {name} exclude each other: --range prints no history.",
                "Type one command for each.",
            )


def _fix_ranges(chosen: GroupFilter, scope: StoresRead) -> None:
    """Fix the ranges of the cases that were chosen, and name each that changes."""
    if chosen.benchmark is None:
        raise UsageError("--range needs a benchmark.", "Name it: k8sbench history BENCH --range")
    fixed = comparisons.fix_ranges(chosen, scope, output.note)
    for each, lost in fixed:
        over = f"iterations {each.over.begin + 1} to {each.over.end}"
        output.note(f"range: {each.case} is compared over {over}, which {each.sets[-1]} has.")
        if lost:
            sets = counted(lost, "earlier set", ("is", "are"))
            output.note(f"{sets} not judged any more: k8sbench history names the reasons.")
    if not fixed:
        output.note("No range of these cases changes.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def baseline_command() -> None:
    """Save, list and remove baselines for compare."""


@baseline_command.command()
@click.argument("name", metavar="NAME")
@click.argument("what", metavar="SET|GROUP|RUN...", nargs=-1, required=True)
@click.option("--replace", is_flag=True, help="Replace a baseline of that name.")
@store_option
def save(name: str, what: tuple[str, ...], replace: bool, where: str | None) -> None:
    """Keep runs under a name.

    It keeps a copy of the runs that count, with plan and measurement: the baseline does not change
    when the runs are removed or measured again.
    """
    made = comparisons.save_baseline(
        name, what, where, output.note, replace=replace, at=time.time()
    )
    keys = (run.group_key for run in made.runs)
    cases = len({(key.only("series"), key.gpu_model) for key in keys})
    output.note(
        f"baseline {name}: {counted(len(made.runs), 'run')} of {counted(cases, 'case')}."
        f" Compare with: k8sbench compare baseline:{name} SET"
    )


@baseline_command.command("list")
@format_option("table", "json", "name")
@look_options
def list_(output_format: str, scope: StoresRead) -> int:
    """List the baselines of the store that answers."""
    known = comparisons.list_baselines(scope, output.note)
    if output_format == "table" and not known:
        output.note("No baseline to list; k8sbench baseline save NAME SET makes one.")
    else:
        output.write_items(output_format, BASELINES, known, known, [one.name for one in known])
    return exit_code(scope)


@baseline_command.command()
@click.argument("name", metavar="NAME")
@store_option
def remove(name: str, where: str | None) -> None:
    """Remove a baseline; the runs that it was made of stay."""
    comparisons.remove_baseline(name, where)
    output.note(f"baseline {name}: removed.")

"""``explain``: what a figure was made of; and what a declared format makes of a log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from k8sbench.app import catalog, context, results, stores
from k8sbench.app.stores import Note
from k8sbench.lifecycle import records
from k8sbench.model.errors import BenchError, FilesElsewhere, InputError, NotFound, UsageError
from k8sbench.model.explanation import (
    ExpressionExplained,
    FormatExplanation,
    GroupExplanation,
    MatchedLine,
    RunExplanation,
)
from k8sbench.model.measurement import Measurement
from k8sbench.model.planning import describe
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec, LogFormat
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.measure.run.log_facts import LogFacts
    from k8sbench.model.group import Group
    from k8sbench.parse import expressions

GROUP = "g-"
"""What the ids of groups begin with."""


def explain(
    text: str, where: str | None, note: Note, *, accept: Collection[str] = ()
) -> RunExplanation | GroupExplanation:
    """Explain a run, by its id or a unique beginning of one, or a group by its id."""
    from k8sbench.measure.group import comparison, grouping
    from k8sbench.measure.group import explaining as of_groups

    results.check_accepted(accept)
    with stores.to_read(where, note) as store:
        runs = records.listing(store, RunFilter(), alive=context.alive(), now=context.now())
        groups = grouping.groups(runs, accept=accept)
        find = catalog.finder(note)
        named = [each for each in groups if each.key.id.startswith(text)]
        if text.startswith(GROUP) and named:
            if len({each.key.id for each in named}) > 1:
                ids = ", ".join(each.key.id for each in named[: records.FEW])
                raise NotFound(f"{len(named)} groups begin with {text!r}: {ids}.", "Type more.")
            (result,) = comparison.results(named[:1], among=groups, find=find)
            members = {member.run_id for member in named[0].members}
            own = [run for run in runs if run.run_id in members]
            return of_groups.explained(result, own, find(named[0].plan))
        if text.startswith(GROUP):
            known = ", ".join(each.key.id for each in groups[: records.FEW])
            raise NotFound(
                f"There is no group {text!r}.",
                f"k8sbench results -o wide shows the groups' ids: {known}." if known else "",
            )
        is_run = any(run.run_id == text for run in runs)
        if not is_run and any(run.plan.set_name == text for run in runs):
            raise UsageError(
                f"{text!r} is a set, not a run or a group.",
                f"See their ids with: k8sbench results --set {text} -o wide",
            )
        run = context.find(store, text)
        group = next(each for each in groups if any(m.run_id == run.run_id for m in each.members))
        (alone,) = grouping.groups([run], accept=accept)
        return _of_run(store, run, group, alone, find(run.plan))


def _of_run(
    store: SqlStore, run: Run, group: Group, alone: Group, spec: BenchmarkSpec | None
) -> RunExplanation:
    """Explain a run of a group; ``alone`` is the group that it would be by itself."""
    from k8sbench.measure.group import explaining as of_groups
    from k8sbench.measure.run import explaining
    from k8sbench.model.measurement import ESTIMATORS

    found, notes = run.measurement, list[str]()
    log = _log(store, run, found, notes) if found is not None else None
    (member,) = (each for each in group.members if each.run_id == run.run_id)
    figures = explaining.figures(found) if found else None
    rules = {
        name: value for name in ESTIMATORS if (value := getattr(figures, name, None)) is not None
    }
    headline = getattr(figures, found.estimator, None) if found else None
    return RunExplanation(
        run_id=run.run_id,
        group=group.key.id,
        set_name=run.plan.set_name,
        title=describe(run.plan),
        phase=str(run.phase),
        # As its group sees it: that is what its row shows.
        verdict=None if found is None else "valid" if member.rate is not None else "rejected",
        estimator=found.estimator if found else None,
        throughput=headline if member.rate is not None else None,
        unverified=None if member.rate is not None else headline,
        unit=figures.unit if figures else None,
        lines=explaining.lines(found, log) if found else None,
        warmup_iterations=found.warmup_iterations if found else None,
        iterations=found.iterations if found else None,
        window=found.window if found else None,
        formulas=explaining.formulas(found, log) if found else (),
        training=explaining.training(found, log) if found else None,
        reasons=explaining.with_actions(member.reasons),
        published=of_groups.reproductions(alone, spec, rules),
        missing=found.missing if found else {},
        notes=tuple(notes),
    )


def _log(store: SqlStore, run: Run, found: Measurement, notes: list[str]) -> LogFacts | None:
    """Read a run's logs again, for what its measurement does not hold."""
    from k8sbench.adapters.files import line_limit
    from k8sbench.adapters.store import intake
    from k8sbench.measure.run import expectation, explaining, measuring

    try:
        names = {str(path): path.name for path in store.log_files(run.run_id)}
    except FilesElsewhere as wrong:
        notes.append(f"{wrong.message} What needs the logs is left out.")
        return None
    if run.is_imported:
        names = {path: intake.kept_name(run, path) for path in names}
    expected = expectation.of_logs_of(run.plan)
    try:
        if not names:
            raise InputError("The run's logs are not kept any more.")
        log = measuring.read(line_limit.opened(names, declared=expected.declared), expected)
        if explaining.agrees(found, measuring.of_log(log)):
            return log
        notes.append("The logs give other figures than those on record; they are left out.")
    except BenchError as wrong:
        notes.append(f"{wrong.message} What needs the logs is left out.")
    return None


def explain_format(name: str, log: str) -> FormatExplanation:
    """Say which lines of a log the expressions of a benchmark's file match."""
    from k8sbench.adapters.files import line_limit, log_files
    from k8sbench.measure.run import redaction
    from k8sbench.parse import expressions

    spec = catalog.benchmark(name).spec
    declared: dict[LogFormat, list[str]] = {}
    for variant in spec.variants:
        if isinstance(variant.log, LogFormat):
            declared.setdefault(variant.log, []).append(f"{variant.framework}/{variant.name}")
    if not declared:
        families = ", ".join(sorted({str(each.log) for each in spec.variants}))
        raise InputError(
            f"declares no log format: its variants name families ({families}).",
            f"See what they read with: k8sbench measure {log} --benchmark {name}",
            file=name,
        )
    some = [
        (variants, each)
        for log_format, variants in declared.items()
        for each in expressions.expressions(log_format)
    ]
    (source,) = line_limit.opened(log_files.names([log], [log]), declared=True)
    read = expressions.explain(source, [each for _, each in some])
    if not read:
        raise InputError("is empty.", "Give the log of a training run.", file=log)

    def matched(line: expressions.Matched) -> MatchedLine:
        return MatchedLine(
            place=redaction.place(source.name, line.number, line.text),
            groups={group: redaction.redact(text) for group, text in line.groups.items()},
            unread=line.unread,
        )

    return FormatExplanation(
        benchmark=spec.name,
        log=source.name,
        read=read,
        expressions=tuple(
            ExpressionExplained(
                variant=", ".join(variants),
                name=each.name,
                pattern=each.pattern,
                matched=each.matched,
                lines=tuple(matched(line) for line in _shown(each)),
                unread=each.unread,
                fits=each.fits,
                nearest=each.nearest and redaction.place(source.name, *each.nearest),
            )
            for variants, each in some
        ),
    )


def _shown(each: expressions.Expression) -> Sequence[expressions.Matched]:
    """The first lines that an expression matches, and the last."""
    last = [each.last] if each.last is not None and each.last not in each.first else []
    return [*each.first, *last]

"""``explain``: what a figure was made of; and what a declared format makes of a log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from k8sbench.app import catalog, context, results, stores
from k8sbench.app.stores import Note
from k8sbench.lifecycle import records
from k8sbench.model.errors import InputError, NotFound, UsageError
from k8sbench.model.explanation import (
    ExpressionExplained,
    FormatExplanation,
    GroupExplanation,
    MatchedLine,
    RunExplanation,
)
from k8sbench.model.spec import LogFormat
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.model.group import Group
    from k8sbench.parse import expressions

GROUP = "g-"
"""What the ids of groups begin with."""


def explain(
    text: str, where: str | None, note: Note, *, accept: Collection[str] = ()
) -> RunExplanation | GroupExplanation:
    """Explain a run, by its id or a unique beginning of one, or a group by its id."""
    from k8sbench.measure.group import comparison, explaining, grouping

    results.check_accepted(accept)
    with stores.to_read(where, note) as store:
        runs = records.listing(store, RunFilter(), alive=context.alive(), now=context.now())
        groups = grouping.groups(runs, accept=accept)
        find = catalog.finder(note)
        if text.startswith(GROUP):
            group = _named(text, groups)
            (result,) = comparison.results([group], among=groups, find=find)
            members = {member.run_id for member in group.members}
            own = [run for run in runs if run.run_id in members]
            return explaining.of_group(result, own, find(group.plan))
        is_run = any(run.run_id == text for run in runs)
        if not is_run and any(run.plan.set_name == text for run in runs):
            raise UsageError(
                f"{text!r} is a set, not a run or a group.",
                f"See their ids with: k8sbench results --set {text} -o wide",
            )
        run = context.find(store, text)
        group = next(each for each in groups if any(m.run_id == run.run_id for m in each.members))
        (alone,) = grouping.groups([run], accept=accept)
        return explaining.of_run(run, group, alone, find(run.plan))


def _named(text: str, groups: Sequence[Group]) -> Group:
    """The one group whose id begins with a text."""
    named = {group.key.id: group for group in groups if group.key.id.startswith(text)}
    if len(named) == 1:
        return named.popitem()[1]
    ids = ", ".join(list(named)[: records.FEW])
    if named:
        raise NotFound(f"{len(named)} groups begin with {text!r}: {ids}.", "Type more.")
    known = ", ".join(group.key.id for group in groups[: records.FEW])
    raise NotFound(
        f"There is no group {text!r}.",
        f"k8sbench results -o wide shows the groups' ids: {known}." if known else "",
    )


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
            )
            for variants, each in some
        ),
    )


def _shown(each: expressions.Expression) -> Sequence[expressions.Matched]:
    """The first lines that an expression matches, and the last."""
    last = [each.last] if each.last is not None and each.last not in each.first else []
    return [*each.first, *last]

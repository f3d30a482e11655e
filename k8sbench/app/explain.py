"""``explain``: what a figure was made of; and what a declared format makes of a log."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import TYPE_CHECKING

from k8sbench.app import catalog, context, records, results, stores
from k8sbench.app.stores import Note
from k8sbench.model.errors import InputError, NotFound, UsageError
from k8sbench.model.spec import LogFormat
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.report.explanation import Row


def explain(text: str, where: str | None, note: Note, *, accept: Collection[str] = ()) -> list[Row]:
    """Explain a run, by its id or a unique beginning of one, or a group by its id."""
    from k8sbench.measure.group import grouping, speedup
    from k8sbench.report import explanation

    results.check_accepted(accept)
    with stores.to_read(where, note) as store:
        runs = records.listing(store, RunFilter(), alive=context.alive(), now=context.now())
        groups = grouping.groups(runs, accept=accept)
        if text.startswith("g-"):  # as the ids of groups do
            named = [group for group in groups if group.key.id.startswith(text)]
            if len(named) != 1:
                count = f"{len(named)} groups begin with" if named else "There is no group"
                way = "k8sbench results -o wide shows the groups' ids."
                raise NotFound(f"{count} {text!r}.", way)
            (result,) = speedup.results(named, among=groups, find=catalog.finder(store, note))
            return list(explanation.of_group(result))
        is_run = any(run.run_id == text for run in runs)
        if not is_run and any(run.plan.set_name == text for run in runs):
            raise UsageError(
                f"{text!r} is a set, not a run or a group.",
                f"See their ids with: k8sbench results --set {text} -o wide",
            )
        run = context.find(store, text)
        group = next(each for each in groups if any(m.run_id == run.run_id for m in each.members))
        return list(explanation.of_run(run, group))


def explain_format(name: str, log: str) -> list[Row]:
    """Say which lines of a log the expressions of a benchmark's file match."""
    from k8sbench.adapters.files import log_files
    from k8sbench.measure.run import evidence
    from k8sbench.parse import declared
    from k8sbench.report import explanation

    spec = catalog.benchmark(name).spec
    formats: list[tuple[LogFormat, str]] = []
    for log_format in [v.log for v in spec.variants if isinstance(v.log, LogFormat)]:
        its = [f"{v.framework}/{v.name}" for v in spec.variants if v.log == log_format]
        if (log_format, ", ".join(its)) not in formats:
            formats.append((log_format, ", ".join(its)))
    if not formats:
        families = ", ".join(sorted({str(each.log) for each in spec.variants}))
        raise InputError(
            f"declares no log format: its variants name families ({families}).",
            f"See what they read with: k8sbench measure {log} --benchmark {name}",
            file=name,
        )
    (source,) = log_files.opened(log_files.names([log], [log]))
    quote = functools.partial(evidence.place, source.name)
    read, tried = declared.matches(source, formats, quote)
    if not read:
        raise InputError("is empty.", "Give the log of a training run.", file=log)
    return list(explanation.of_expressions(source.name, read, tried))

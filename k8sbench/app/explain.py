"""``explain`` and ``measure --declare``: what a figure was made of, and custom log formats."""

from __future__ import annotations

import functools
import itertools
import re
import string
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from k8sbench.app import catalog, results, stores
from k8sbench.app.stores import Note
from k8sbench.model.errors import InputError, NotFound
from k8sbench.model.request import ClusterAccess
from k8sbench.model.spec import LogFormat

if TYPE_CHECKING:
    from k8sbench.report.explanation import Row

FIRST_LINES = 100_000
"""Lines of a log that are read to guess its format."""


def explain(
    text: str,
    where: str | None,
    note: Note,
    *,
    access: ClusterAccess,
    accept: Collection[str] = (),
) -> list[Row]:
    """Explain a run (id or unique prefix) or a group (id)."""
    from k8sbench.measure.group import grouping, speedup
    from k8sbench.report import explanation

    results.check_accepted(accept)
    with stores.with_collector(where, access, note) as (store, runs):
        groups = grouping.groups(runs, accept=accept)
        if text.startswith("g-"):  # as the ids of groups do
            named = [group for group in groups if group.key.id.startswith(text)]
            if len(named) != 1:
                count = f"{len(named)} groups begin with" if named else "There is no group"
                way = "k8sbench results -o wide shows the groups' ids."
                raise NotFound(f"{count} {text!r}.", way)
            (result,) = speedup.results(named, among=groups, find=catalog.finder(store, note))
            return list(explanation.of_group(result))
        run_id = results.run_id(text, runs)
        run = next(run for run in runs if run.run_id == run_id)
        group = next(each for each in groups if any(m.run_id == run_id for m in each.members))
        return list(explanation.of_run(run, group))


def explain_format(name: str, log: str) -> list[Row]:
    """Return the lines of a log that the expressions of a benchmark's file match."""
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


def declare(logs: Sequence[str], batch_size: int | None) -> str:
    """Write a first benchmark file for logs of an unknown format."""
    from k8sbench.adapters.files import log_files, packaged
    from k8sbench.parse import declared, guessing, lines

    sources = log_files.opened(log_files.names(logs, log_files.find(logs)))
    given = (line for source in sources for block in source for line in lines.ended(block))
    some = (line.rstrip("\r\n") for line in itertools.islice(given, FIRST_LINES))
    texts = [p.text[: declared.MAX_LINE] for line in some for p in lines.pieces(line)]
    if (guessed := guessing.guess(texts)) is None:
        raise InputError(
            "has no line that comes again and again with a step and a rate or time.",
            "Print both in one line every few steps, as: step 120/250 loss 0.53 412.7 img/s",
            file=sources[0].name,
        )
    batch = re.search(r"(?i)\bbatch[ _-]?size\D{0,20}([1-9]\d{0,5})\b", "\n".join(texts))
    template = string.Template((packaged.PACKAGE / "first-benchmark.yaml").read_text())
    return template.substitute(guessed, batch=batch_size or (batch[1] if batch else 1))

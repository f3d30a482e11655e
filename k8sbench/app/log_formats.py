"""Custom log formats: test one on a log, or draft one."""

from __future__ import annotations

import functools
import itertools
import re
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

from k8sbench.app import catalog
from k8sbench.model.errors import InputError
from k8sbench.model.spec import LogFormat

if TYPE_CHECKING:
    from k8sbench.report.explanation import Row

FIRST_LINES = 100_000
"""Lines of a log that are read to guess its format."""


def explain(name: str, log: str) -> list[Row]:
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

"""Words and ids that are printed of runs and rows.

Ids of findings: reasons of the results, causes and checks of the runner. Words of the results:
states, remarks, verdicts and columns.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

from k8sbench.diagnose.job.causes import CAUSES
from k8sbench.diagnose.preflight.checks import CHECKS, OBSERVER_CHECKS
from k8sbench.model import rules
from k8sbench.model.errors import FORMER_IDS
from k8sbench.results.groups import rejections
from k8sbench.results.report import meanings
from k8sbench.results.report.explanation import Row
from k8sbench.results.report.words import english

REASONS = {**rules.ALL, **rejections.ALL}
DOCTORS = dict.fromkeys((*CHECKS, *OBSERVER_CHECKS))
"""Checks of doctor."""
ALL = sorted({*REASONS, *CAUSES, *(check.id for check in DOCTORS)})
_NAME = re.compile(r"(?<!\{)\{(?:\w+\.)*(\w+)(?:\[\w+\])?\}")
_EXAMPLES = {
    "{head}": "The pod of REPLICA is not created",
    "{what}": "No node for REPLICAS, no image or no volume",
    "{where}": " on node NODE",
    "{place}": ", number PLACE there",
    "{end}": "How the replica ended, with the line of its log that says why.",
    "{operator}": "the operator",
    **dict.fromkeys(("{code}", "{seen}", "{away}", "{reasons}", "{lacks}"), ""),
}
"""Placeholders that are not names."""


def matching(pattern: str) -> Iterator[Row]:
    """Explain the ids that match a pattern, such as ``gpu-*``."""
    for name in fnmatch.filter(ALL, FORMER_IDS.get(pattern, pattern)):
        if name in REASONS:
            reason = REASONS[name]
            yield 0, f"{name}: a reason ({reason.severity})"
            yield 1, reason.condition
            yield 1, f"what to do: {reason.action}"
        if name in CAUSES:
            cause = CAUSES[name]
            yield 0, f"{name}: a cause of a job's state (unrecoverable: {cause.unrecoverable})"
            yield 1, _named(cause.sentence)
            yield 1, f"what to do: {_named(cause.action)}"
        for check in DOCTORS:
            if check.id == name:
                yield 0, f"{name}: a check of doctor"
                for row in check.rows:
                    yield 1, f"{row.severity}: {_named(row.sentence)}"
                    if row.action:
                        yield 2, f"what to do: {_named(row.action)}"


def words(pattern: str) -> Iterator[Row]:
    """Explain the words of the results that match a pattern, in any case."""
    for meaning in meanings.every():
        if fnmatch.fnmatchcase(meaning.name.lower(), pattern.lower()):
            yield 0, f"{meaning.name}: {meaning.kind}"
            yield 1, english(meaning.said)


def completed(beginning: str) -> list[str]:
    """Return the ids and words that begin so."""
    names = {*ALL, *(meaning.name for meaning in meanings.every())}
    return sorted(name for name in names if name.lower().startswith(beginning.lower()))


def _named(text: str) -> str:
    """Write a name in capitals for each placeholder."""
    return _NAME.sub(lambda found: _EXAMPLES.get(found[0], found[1].upper()), text).rstrip()

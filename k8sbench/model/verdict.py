"""Verdicts from reasons, for a run alone and in its group; rules of findings.

A figure counts unless a rejection was not accepted by name. A figure that does not count is kept
apart as unverified, and is never part of another figure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

import msgspec

from k8sbench.messages import Note, note
from k8sbench.model.errors import FORMER_IDS, Finding, Severity
from k8sbench.model.group import Member
from k8sbench.model.measurement import Measurement, Verdict
from k8sbench.model.sample import Place

REJECTED = note("no-throughput-rejected")
"""Reason why a rejected measurement has no throughput."""
NO_EVALUATION = note("no-accuracy-no-evaluation")
NO_VALUE = note("no-accuracy-no-value")
"""Reasons why a measurement has no accuracy."""

_F = TypeVar("_F")


def mark_accepted(reasons: Iterable[Finding], accept: Collection[str]) -> tuple[Finding, ...]:
    """Mark the rejections that are accepted by id; earlier marks stay."""
    ids = {FORMER_IDS.get(name, name) for name in accept}
    return tuple(
        msgspec.structs.replace(reason, accepted=True)
        if reason.severity == "reject" and reason.id in ids
        else reason
        for reason in reasons
    )


def figure_counts(reasons: Iterable[Finding]) -> bool:
    """Return True unless a rejection was not accepted."""
    return not any(reason.severity == "reject" and not reason.accepted for reason in reasons)


def with_reasons(
    measurement: Measurement, reasons: Iterable[Finding], accept: Collection[str]
) -> Measurement:
    """Return the measurement with reasons, rejections first, and the verdict that follows."""
    marked = sorted(mark_accepted(reasons, accept), key=lambda reason: reason.severity != "reject")
    figures = measurement.throughput or measurement.unverified
    verdict, throughput, unverified = _decide(figures, valid=figure_counts(marked))
    if unverified is not None:
        measurement = measurement.without({"throughput": REJECTED})
    return msgspec.structs.replace(
        measurement,
        reasons=tuple(marked),
        verdict=verdict,
        throughput=throughput,
        unverified=unverified,
    )


def member_with_reasons(member: Member, reasons: Iterable[Finding]) -> Member:
    """Return a group's member with the verdict of its or the group's reasons."""
    figure = member.unverified if member.rate is None else member.rate
    verdict, rate, unverified = _decide(figure, valid=figure_counts(reasons))
    measured = member.verdict is not None
    return msgspec.structs.replace(
        member, verdict=verdict if measured else None, rate=rate, unverified=unverified
    )


def _decide(figure: _F | None, *, valid: bool) -> tuple[Verdict, _F | None, _F | None]:
    """Return the verdict, the figure that counts, and the one that does not."""
    return ("valid", figure, None) if valid else ("rejected", None, figure)


# -- rules ----------------------------------------------------------------------------------------
#
# What a check may find: the rules are tables, one of runs and one of groups of runs.

EVIDENCE = 3
"""Lines that a finding quotes."""


class IntegrityRule(msgspec.Struct, frozen=True):
    """A check's finding."""

    id: str
    """Stable: users type it after ``--accept``, and rows keep it."""
    severity: Severity
    """Usual severity of its findings."""
    condition: str
    """Meaning, in whole sentences."""
    action: str
    """Action, one sentence or more."""

    def finding(
        self,
        said: Note,
        evidence: Iterable[Place] = (),
        severity: Severity | None = None,
        action: str | None = None,
    ) -> Finding:
        """Build a finding; ``severity`` and ``action`` where they are not the rule's."""
        return Finding(
            id=self.id,
            severity=severity or self.severity,
            note=said,
            evidence=tuple(evidence)[:EVIDENCE],
            action=action or self.action,
        )


def reject(name: str, condition: str, action: str) -> IntegrityRule:
    """Build a rule whose findings usually reject the figures."""
    return IntegrityRule(name, "reject", condition, action)


def warn(name: str, condition: str, action: str) -> IntegrityRule:
    """Build a rule whose findings are warnings."""
    return IntegrityRule(name, "warn", condition, action)


def rules_in(module: Mapping[str, object]) -> dict[str, IntegrityRule]:
    """Return the rules of a module by their ids."""
    return {rule.id: rule for rule in module.values() if isinstance(rule, IntegrityRule)}

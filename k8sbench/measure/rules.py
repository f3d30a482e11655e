"""What a check may find: the rules are tables, one of runs and one of groups of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from k8sbench.model.finding import Finding, Severity
from k8sbench.model.sample import Place

EVIDENCE = 3
"""Lines that a finding quotes."""


class IntegrityRule(msgspec.Struct, frozen=True):
    """What a check may find; the string below each rule is its condition."""

    id: str
    """Stable: users type it after ``--accept``, and rows keep it."""
    severity: Severity
    """That of most of its findings."""
    action: str
    """What to do, one sentence or more."""

    def finding(
        self, sentence: str, evidence: Iterable[Place] = (), severity: Severity | None = None
    ) -> Finding:
        """Build a finding; ``severity`` where it is another one than the rule's."""
        return Finding(
            id=self.id,
            severity=severity or self.severity,
            sentence=sentence,
            evidence=tuple(evidence)[:EVIDENCE],
            action=self.action,
        )


def rules_in(module: Mapping[str, object]) -> dict[str, IntegrityRule]:
    """Return the rules of a module by their ids."""
    return {rule.id: rule for rule in module.values() if isinstance(rule, IntegrityRule)}

"""One check of the preflight: what it judges, and how its results become findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from k8sbench.diagnose.preflight.facts import PreflightFacts, UnknownFactError
from k8sbench.model.finding import Finding, Severity


class CheckResult(NamedTuple):
    """What a check says of the facts."""

    severity: Severity
    sentence: str
    action: str | None = None
    """What to do; None where nothing is to be done."""


def ok(sentence: str) -> CheckResult:
    """Nothing is wrong."""
    return CheckResult("ok", sentence)


def warn(sentence: str, action: str | None) -> CheckResult:
    """Something may spoil or slow a run, or could not be checked."""
    return CheckResult("warn", sentence, action)


def fail(sentence: str, action: str | None) -> CheckResult:
    """No run can succeed as it is asked for."""
    return CheckResult("fail", sentence, action)


class Check(NamedTuple):
    """One check."""

    id: str
    """Stable: the id of its findings."""
    judge: Callable[[PreflightFacts], Iterable[CheckResult]]
    looks_at: str | None = None
    """What was not seen where a fact is unknown, with ``{namespace}``, ``{pool}`` and ``{queue}``;
    None: another check says it."""
    is_essential: bool = False
    """Whether every user may ask for its facts: without them nothing is known of the cluster."""

    def findings(self, facts: PreflightFacts) -> Iterator[Finding]:
        """Yield what the check finds."""
        try:
            for severity, sentence, action in self.judge(facts):
                yield Finding(id=self.id, severity=severity, sentence=sentence, action=action)
        except UnknownFactError as unknown:
            if self.looks_at is not None:
                yield self._unseen(self.looks_at, facts, unknown.why)

    def _unseen(self, looks_at: str, facts: PreflightFacts, why: str) -> Finding:
        severity, words, action = _UNSEEN[self.is_essential]
        names = {"namespace": facts.request.namespace, "queue": facts.request.queue}
        what = looks_at.format(pool=facts.request.pool.name, **names)
        sentence = f"{words}: {what} ({why})."
        return Finding(id=self.id, severity=severity, sentence=sentence, action=action)


_UNSEEN: dict[bool, tuple[Severity, str, str]] = {
    True: (
        "fail",
        "Not known",
        "Every user may read this: check server and credentials of the kubeconfig, and proxies.",
    ),
    False: ("warn", "Not looked at", "Ask somebody with this permission, or continue without it."),
}
"""Whether a check is essential → its finding where a fact is unknown: severity, words, action."""

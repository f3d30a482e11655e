"""The checks of the preflight: from facts to lines that say what is wrong and what to do.

Each check is a function in :data:`CHECKS` that yields lines; the ids of its lines are stable. A
*failure* means that no run can succeed as asked, or that the cluster does not tell what it tells
every user. A *warning* is what may spoil or slow a run, and what could not be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from k8sbench.diagnose.preflight import (
    access_checks,
    capacity_checks,
    claim_checks,
    metrics_checks,
    operator_checks,
    surroundings_checks,
)
from k8sbench.diagnose.preflight.facts import Asked, Facts, Line, failure
from k8sbench.model.image import ImageTable

CHECKS: tuple[Callable[[Facts, Asked], Iterator[Line]], ...] = (
    *(access_checks.api_server, access_checks.namespace, access_checks.permissions),
    *(operator_checks.job_kinds, operator_checks.webhook, operator_checks.admission),
    *(operator_checks.deployment, operator_checks.rate),
    *(access_checks.pod_security, operator_checks.init_container),
    *(capacity_checks.quota, capacity_checks.limit_range, capacity_checks.nodes),
    metrics_checks.sources,
    *(claim_checks.claims, surroundings_checks.queueing),
)
"""The checks, in the order in which problems are best solved."""


def lines(facts: Facts, asked: Asked, images: ImageTable) -> list[Line]:
    """Judge the facts: every check's lines, in order."""
    return [
        *(line for check in CHECKS for line in check(facts, asked)),
        *surroundings_checks.kernels(facts, asked, images),
    ]


def unreachable(message: str, action: str) -> Line:
    """The one line of a cluster that does not answer."""
    return failure("api-server", message, action or None)

"""The checks of the preflight: from facts to lines that say what is wrong and what to do.

Each check is a function in :data:`CHECKS` that yields lines; the ids of its lines are stable. A
*failure* means that no run can succeed as asked. A *warning* is what may spoil or slow a run, and
what could not be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from k8sbench.diagnose.preflight.access_checks import (
    api_server,
    namespace,
    permissions,
    pod_security,
)
from k8sbench.diagnose.preflight.facts import Asked, Facts, Line, failure
from k8sbench.diagnose.preflight.operator_checks import (
    admission,
    deployment,
    init_container,
    job_kinds,
    rate,
    webhook,
)
from k8sbench.diagnose.preflight.room_checks import nodes, quota
from k8sbench.diagnose.preflight.surroundings_checks import (
    claims,
    kernels,
    metrics,
    queueing,
)
from k8sbench.model.image import ImageTable

CHECKS: tuple[Callable[[Facts, Asked], Iterator[Line]], ...] = (
    api_server,
    namespace,
    permissions,
    job_kinds,
    webhook,
    admission,
    deployment,
    rate,
    pod_security,
    init_container,
    quota,
    nodes,
    metrics,
    claims,
    queueing,
)
"""The checks, in the order in which one mends things."""


def lines(facts: Facts, asked: Asked, images: ImageTable) -> list[Line]:
    """Judge the facts: every check's lines, in order."""
    return [
        *(line for check in CHECKS for line in check(facts, asked)),
        *kernels(facts, asked, images),
    ]


def unreachable(message: str, action: str) -> Line:
    """The one line of a cluster that does not answer."""
    return failure("api-server", message, action or None)

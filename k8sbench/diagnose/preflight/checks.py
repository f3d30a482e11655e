"""The checks of the preflight: from facts to findings that say what is wrong and what to do.

The severity ``fail`` means that no run can succeed as it is asked for, or that the cluster does not
tell what it tells every user; ``warn`` is for what may spoil or slow a run, and for what could not
be looked at. A new check is a function and a line of :data:`CHECKS`, and its row in docs/doctor.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from k8sbench.diagnose.preflight import capacity_checks, cluster_checks, operator_checks
from k8sbench.diagnose.preflight.facts import PreflightFacts, Unknown, fail, warn
from k8sbench.model.finding import Finding


class Check(NamedTuple):
    """One check."""

    id: str
    """Stable: the id of its findings."""
    judge: Callable[[PreflightFacts], Iterable[Finding]]
    looks_at: str | None = None
    """What was not seen where a fact is unknown, with ``{namespace}``, ``{pool}`` and ``{queue}``;
    None: another check says it."""
    is_essential: bool = False
    """Whether every user may ask for its facts: without them nothing is known of the cluster."""

    def findings(self, facts: PreflightFacts) -> Iterator[Finding]:
        """Yield what the check finds."""
        try:
            for finding in self.judge(facts):
                yield msgspec.structs.replace(finding, id=self.id)
        except Unknown as unknown:
            if self.looks_at is not None:
                asked = facts.request
                names = {"namespace": asked.namespace, "queue": asked.queue}
                what = f"{self.looks_at.format(pool=asked.pool.name, **names)} ({unknown.why})."
                unseen = fail(f"Not known: {what}", EVERYBODY_S)
                if not self.is_essential:
                    unseen = warn(f"Not looked at: {what}", capacity_checks.NOT_PERMITTED)
                yield msgspec.structs.replace(unseen, id=self.id)


EVERYBODY_S = (
    "Every user may read this: check server and credentials of the kubeconfig, and proxies."
)
SERVED = "the kinds of object that are served"
OPERATOR = "the operator's Deployment, its flags and its version"
CHECKS = (
    Check("api-server", cluster_checks.api_server, "the version of Kubernetes", is_essential=True),
    Check("namespace", cluster_checks.namespace, "the namespace {namespace}"),
    Check("permissions", cluster_checks.permissions, "your permissions", is_essential=True),
    Check("job-kinds", operator_checks.job_kinds, SERVED, is_essential=True),
    Check("job-admission", operator_checks.admission),
    Check("operator", operator_checks.deployment, OPERATOR),
    Check("pod-security", cluster_checks.pod_security),
    Check("operator-init-container", operator_checks.init_container),
    Check("quota", capacity_checks.quota, "the quotas of {namespace}"),
    Check("nodes", capacity_checks.nodes, "the nodes of pool {pool} and their GPUs"),
    Check("device-plugin", capacity_checks.device_plugin),
    Check("node-size", capacity_checks.node_size),
    Check("gpu-metrics", cluster_checks.gpu_metrics),
    Check("data", capacity_checks.data),
    Check("queue", cluster_checks.queue, "the queue {queue}"),
    Check("queue-nodes", cluster_checks.queue_nodes, "the nodes that queue {queue} is for"),
    Check("gang", operator_checks.gang),
)
"""In the order in which problems are best solved."""


def findings(facts: PreflightFacts) -> tuple[Finding, ...]:
    """Judge the facts: every check's findings, in order."""
    return tuple(finding for check in CHECKS for finding in check.findings(facts))


def unreachable(message: str, action: str) -> Finding:
    """The one finding of a cluster that does not answer."""
    return Finding(id="api-server", severity="fail", sentence=message, action=action or None)

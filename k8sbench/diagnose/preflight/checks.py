"""The checks of the preflight: from facts to findings that say what is wrong and what to do.

The severity ``fail`` means that no run can succeed as it is asked for, or that the cluster does not
tell what it tells every user; ``warn`` is for what may spoil or slow a run, and for what could not
be looked at. A new check is a function and a line of :data:`CHECKS`, and its row in docs/doctor.md.
"""

from __future__ import annotations

from k8sbench.diagnose.preflight import (
    capacity_checks,
    claim_checks,
    cluster_checks,
    operator_checks,
)
from k8sbench.diagnose.preflight.facts import Check, PreflightFacts
from k8sbench.model.finding import Finding

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
    Check("data", claim_checks.claims),
    Check("queue", cluster_checks.queue, "the queue {queue}"),
    Check("gang", operator_checks.gang),
)
"""In the order in which problems are best solved."""


def findings(facts: PreflightFacts) -> tuple[Finding, ...]:
    """Judge the facts: every check's findings, in order."""
    return tuple(finding for check in CHECKS for finding in check.findings(facts))


def unreachable(message: str, action: str) -> Finding:
    """The one finding of a cluster that does not answer."""
    return Finding(id="api-server", severity="fail", sentence=message, action=action or None)

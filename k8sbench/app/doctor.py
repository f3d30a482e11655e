"""``doctor``: ask a cluster whether it is ready for a run."""

from __future__ import annotations

import contextlib
import time

import msgspec

from k8sbench import limits
from k8sbench.app import cases, catalog, connections
from k8sbench.lifecycle.context import Note
from k8sbench.model.errors import NotFound, Unreachable, few
from k8sbench.model.finding import Finding
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.model.run import Location


def proposed_pools(access: ClusterAccess) -> str:
    """Write a pools file for the nodes of a cluster.

    Raises :class:`Unreachable` where they may not be listed, :class:`NotFound` without any.
    """
    from k8sbench.adapters.kubernetes import listing
    from k8sbench.diagnose.preflight.nodes import left_out, proposed

    with contextlib.closing(connections.connect(access)) as api:
        nodes = listing.nodes(api, {})
    text = proposed(nodes)
    if not text and (away := left_out(nodes)):
        raise NotFound(
            f"No node with GPUs takes pods: {few(away)}.",
            "See why: kubectl describe nodes.",
        )
    if not text:
        raise NotFound(
            f"None of {len(nodes)} nodes offers GPUs.",
            "See whether the device plugin runs: kubectl describe nodes.",
        )
    return text


BENCHMARK = "deeplabv3p"
"""Benchmark of the dry-run jobs; it runs on both frameworks."""


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the checks."""

    findings: tuple[Finding, ...]
    location: Location | None = None
    """Location on the cluster; None if no cluster is configured."""

    @property
    def is_ready(self) -> bool:
        """Return True if no check failed."""
        return all(finding.severity != "fail" for finding in self.findings)


def examine(options: SubmitRequest, note: Note) -> Preflight:
    """Ask the cluster whether it is ready for a run, and judge its answers."""
    from k8sbench.adapters.kubernetes import preflight
    from k8sbench.diagnose.preflight import checks

    location = None
    wanted = msgspec.structs.replace(options, framework=options.framework or "all", force=True)
    try:
        with contextlib.closing(connections.connect(options.access)) as api:
            api.give_up_at = time.monotonic() + limits.now.doctor_checks
            location = api.place
            target = cases.target_on_cluster(api, options)
            note(target.why)
            planned = cases.prepare([catalog.benchmark(BENCHMARK)], wanted, target.site, note)
            plans = [case.plan("k8sbench-doctor", "doctor") for case in planned]
            jobs = [case.manifests(plan) for case, plan in zip(planned, plans, strict=True)]
            facts = preflight.ask(api, plans[0], jobs, options.prometheus)
    except Unreachable as error:
        return Preflight(
            findings=(checks.unreachable(error.message, error.action),), location=location
        )
    return Preflight(findings=checks.findings(facts), location=location)


def init_template() -> str:
    """Return the text of the init container that passes the restricted Pod Security Standard."""
    from k8sbench.adapters.kubernetes.client.faults import ROLE

    return ROLE.with_name("init-container.yaml").read_text(encoding="utf-8")


def crd() -> str:
    """Return the text of the CRD of ``Benchmark``."""
    from k8sbench.adapters.files import packaged

    return packaged.crd()

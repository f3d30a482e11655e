"""``doctor``: ask a cluster whether it is ready for a run."""

from __future__ import annotations

import contextlib
import time

import msgspec

from k8sbench import limits
from k8sbench.app import cases, connections, targets
from k8sbench.catalog import spec_files
from k8sbench.lifecycle.context import Note
from k8sbench.model.errors import Finding, Unreachable
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.model.run import Location

DOCTORS_BENCHMARK = "deeplabv3p"
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
            target = targets.target_on_cluster(api, options)
            note(target.why)
            planned = cases.plan_cases(
                [spec_files.load_spec(DOCTORS_BENCHMARK)], wanted, target.site, note
            )
            plans = [case.plan("k8sbench-doctor", "doctor") for case in planned]
            jobs = [case.manifests(plan) for case, plan in zip(planned, plans, strict=True)]
            facts = preflight.ask(api, plans[0], jobs, options.prometheus)
    except Unreachable as error:
        return Preflight(
            findings=(checks.unreachable(error.message, error.action),), location=location
        )
    return Preflight(findings=checks.findings(facts), location=location)


def examine_rights_to_observe(access: ClusterAccess) -> Preflight:
    """Ask the cluster which rights the user has that ``observe`` needs."""
    from k8sbench.adapters.kubernetes import preflight
    from k8sbench.diagnose.preflight import checks

    location = None
    try:
        with contextlib.closing(connections.connect(access)) as api:
            api.give_up_at = time.monotonic() + limits.now.doctor_checks
            location = api.place
            found = checks.findings(preflight.ask_as_observer(api))
    except Unreachable as error:
        found = (checks.unreachable(error.message, error.action),)
    return Preflight(findings=found, location=location)

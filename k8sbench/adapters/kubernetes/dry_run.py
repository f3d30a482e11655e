"""``--dry-run=server``: whether the cluster would accept a job, without creating it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k8sbench.adapters.kubernetes import kinds, preflight
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.diagnose.job import admission
from k8sbench.diagnose.preflight import checks
from k8sbench.diagnose.preflight.check import NOT_TRIED
from k8sbench.model.finding import Finding
from k8sbench.model.kinds import KINDS, kind_of
from k8sbench.model.plan import RunPlan
from k8sbench.ports import Manifest

_CHECKED = {"quota-exceeded": "quota", "pod-security": "pod-security"}
"""Cause of a pod's rejection → the check that reports the same for all pods together."""


def check(api: Api, plan: RunPlan, objects: Sequence[Manifest]) -> list[Finding]:
    """Have the API server and the operator's webhook check the objects; then check the rest.

    The operator creates the pods later: whether the namespace admits them, whether they fit on a
    node and what else the preflight finds is returned, without what is ok. Raises
    :class:`~k8sbench.model.errors.BenchError` for a rejection.
    """
    for manifest in objects:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            api.create(kinds.path(kind, api.place.namespace), manifest, dry_run=True)
        except ApiFault as fault:
            raise api.explained(fault, f"{kind} {name} be created") from fault
    request = preflight.request_of(plan, api.place.namespace)
    jobs = {manifest["kind"]: manifest for manifest in objects if manifest["kind"] in KINDS}
    try:
        facts = preflight.ask(api, request, jobs)
        of_pods = [finding for job in jobs.values() for finding in _pods(api, plan, job)]
    except ApiFault as fault:
        raise api.explained(fault, "the cluster be looked at") from fault
    # Where the pods were tried, the refusal names the limit range.
    is_tried = all(finding.id != NOT_TRIED for finding in of_pods)
    findings = [
        finding
        for finding in checks.findings(facts)
        if finding.severity != "ok" and not (is_tried and finding.id == "limit-range")
    ]
    reported = {finding.id for finding in findings}
    return [*findings, *(finding for finding in of_pods if finding.id not in reported)]


def _pods(api: Api, plan: RunPlan, job: Manifest) -> Iterator[Finding]:
    """Have one pod of each role checked by admission, if the user may create pods."""
    where = {"namespace": api.place.namespace}
    refusals: dict[str, list[str]] = {}
    for role, replica in job["spec"][kind_of(plan).replicas_key].items():
        name = f"{plan.job_name}-{role.lower()}-0"
        metadata = {**replica["template"].get("metadata", {}), "name": name}
        spec = replica["template"]["spec"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        try:
            api.create(kinds.path("Pod", api.place.namespace), pod, dry_run=True)
        except ApiFault as fault:
            if fault.denied:
                # The Role does not permit it: the operator creates the pods.
                denied = api.explained(fault, "the pods be tried").message
                yield Finding(
                    id=NOT_TRIED,
                    severity="warn",
                    sentence=f"The pods themselves were not tried: {denied}",
                    action="A webhook or a policy may still refuse them: then the job says so when"
                    " it is created.",
                )
                yield from _priority_class(api, plan)
                return
            if fault.passes or fault.status is None:
                raise
            refusals.setdefault(fault.message.replace(f'"{name}"', '"POD"'), []).append(role)
    for message, roles in refusals.items():
        why = admission.cause(message, f"No pod of {' and '.join(roles)} would be created", where)
        yield Finding(
            id=_CHECKED.get(why.id, "pods"),
            severity="warn" if why.id == "name-in-use" else "fail",
            sentence=why.sentence,
            action=why.action,
        )


def _priority_class(api: Api, plan: RunPlan) -> Iterator[Finding]:
    """Check that the priority class exists, where no pod can be tried."""
    name = plan.pool.priority_class
    if name is None:
        return
    try:
        priority_class = api.find(kinds.path("PriorityClass", name=name))
    except ApiFault as fault:
        if not fault.denied:
            raise
        yield Finding(
            id="pods",
            severity="warn",
            sentence=f"Not checked: whether PriorityClass {name} of pool {plan.pool.name} exists.",
            action="Ask an administrator: kubectl get priorityclasses",
        )
        return
    if priority_class is None:
        yield Finding(
            id="pods",
            severity="fail",
            sentence=f"There is no PriorityClass {name}, which the pool {plan.pool.name} names:"
            " no pod would be created.",
            action="Correct priority_class in the pool, or choose another with --node-pool.",
        )

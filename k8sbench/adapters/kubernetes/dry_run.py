"""``--dry-run=server``: whether the cluster would accept a job, without creating it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k8sbench.adapters.files import image_table
from k8sbench.adapters.kubernetes import kinds, preflight
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.diagnose.job import admission
from k8sbench.diagnose.preflight import checks
from k8sbench.diagnose.preflight.facts import NOT_TRIED, Line, failure, warning
from k8sbench.model.kinds import KINDS, kind_of
from k8sbench.model.plan import RunPlan
from k8sbench.ports import Manifest

_CHECKED = {"quota-exceeded": "quota", "pod-security": "pod-security"}
"""Cause of a pod's rejection → the check that reports the same for all pods together."""


def check(api: Api, plan: RunPlan, objects: Sequence[Manifest]) -> list[Line]:
    """Have the API server and the operator's webhook check the objects; then check the rest.

    The operator creates the pods later: whether the namespace admits them, whether they fit on a
    node and what else the preflight finds is returned as lines, without those that are ok. Raises
    :class:`~k8sbench.model.errors.BenchError` for a rejection.
    """
    for manifest in objects:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            api.create(kinds.path(kind, api.place.namespace), manifest, dry_run=True)
        except ApiFault as fault:
            raise api.explained(fault, f"{kind} {name} be created") from fault
    asked = preflight.asked_of(plan, api.place.namespace)
    jobs = {one["kind"]: one for one in objects if one["kind"] in KINDS}
    try:
        facts = preflight.ask(api, asked, jobs)
        pods = [line for job in jobs.values() for line in _pods(api, plan, job)]
    except ApiFault as fault:
        raise api.explained(fault, "the cluster be looked at") from fault
    # Where the pods were tried, the refusal names the limit range.
    is_tried = all(line.id != NOT_TRIED for line in pods)
    found = [
        line
        for line in checks.lines(facts, asked, image_table.load())
        if line.level != "ok" and not (is_tried and line.id == "limit-range")
    ]
    reported = {line.id for line in found}
    return [*found, *(line for line in pods if line.id not in reported)]


def _pods(api: Api, plan: RunPlan, job: Manifest) -> Iterator[Line]:
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
                yield warning(
                    NOT_TRIED,
                    f"The pods themselves were not tried: {denied}",
                    "A webhook or a policy may still refuse them: then the job says so when it is"
                    " created.",
                )
                yield from _priority_class(api, plan)
                return
            if fault.passes or fault.status is None:
                raise
            refusals.setdefault(fault.message.replace(f'"{name}"', '"POD"'), []).append(role)
    for message, roles in refusals.items():
        why = admission.cause(message, f"No pod of {' and '.join(roles)} would be created", where)
        yield Line(
            id=_CHECKED.get(why.id, "pods"),
            level="warning" if why.id == "name-in-use" else "failure",
            message=why.sentence,
            action=why.action,
        )


def _priority_class(api: Api, plan: RunPlan) -> Iterator[Line]:
    """Check that the priority class exists, where no pod can be tried."""
    name = plan.pool.priority_class
    if name is None:
        return
    try:
        found = api.find(kinds.path("PriorityClass", name=name))
    except ApiFault as fault:
        if not fault.denied:
            raise
        message = f"Not checked: whether PriorityClass {name} of pool {plan.pool.name} exists."
        yield warning("pods", message, "Ask an administrator: kubectl get priorityclasses")
        return
    if found is None:
        yield failure(
            "pods",
            f"There is no PriorityClass {name}, which the pool {plan.pool.name} names:"
            " no pod would be created.",
            "Correct priority_class in the pool, or choose another with --node-pool.",
        )

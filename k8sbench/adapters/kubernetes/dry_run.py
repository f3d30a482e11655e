"""``--dry-run=server``: what the cluster would say to a job, without creating it."""

from __future__ import annotations

from collections.abc import Sequence

from k8sbench.adapters import image_table
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.api import Api, ApiFault
from k8sbench.adapters.kubernetes.doctor import asking, checks
from k8sbench.adapters.kubernetes.doctor.facts import Asked, Line
from k8sbench.model.plan import RunPlan
from k8sbench.ports import Manifest


def check(api: Api, plan: RunPlan, objects: Sequence[Manifest]) -> list[Line]:
    """Have the API server and the operator's webhook check the objects; then look at the rest.

    Pods are made by the operator, later: whether the namespace will admit them, whether a node
    takes them and what else the preflight finds are the lines that are returned, without those
    that are well. Raises :class:`~k8sbench.model.errors.BenchError` for a refusal.
    """
    for manifest in objects:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            api.create(kinds.path(kind, api.place.namespace), manifest, dry_run=True)
        except ApiFault as fault:
            raise api.explained(fault, f"{kind} {name} be created") from fault
    asked = Asked(
        namespace=api.place.namespace,
        pool=plan.pool,
        frameworks=(plan.framework,),
        replicas=plan.replicas,
        gpus=plan.gpus_per_replica,
        image=plan.image,
        queue=plan.queue,
        gang=plan.gang,
    )
    jobs = {one["kind"]: one for one in objects if one["kind"] in kinds.JOBS}
    try:
        facts = asking.ask(api, asked, jobs)
    except ApiFault as fault:
        raise api.explained(fault, "the cluster be looked at") from fault
    return [line for line in checks.lines(facts, asked, image_table.load()) if line.level != "ok"]

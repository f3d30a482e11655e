"""What of a job is not as it was planned: someone changed it after it was created.

The figures of such a job are not those of the plan, whatever its logs say. Compared is what decides
them: the replicas, their GPUs and their image.
"""

from __future__ import annotations

from collections.abc import Iterator

from k8sbench.model.counts import counted
from k8sbench.model.kinds import kind_of
from k8sbench.model.kube import KubeObject
from k8sbench.model.plan import RunPlan

JOB_CHANGED = "job-changed"


def differences(job: KubeObject, plan: RunPlan) -> Iterator[str]:
    """Yield what of a job is unlike its plan."""
    kind = kind_of(plan)
    planned = dict(kind.replicas(plan.replicas))
    roles = (job.get("spec") or {}).get(kind.replicas_key)
    if roles is None:
        return  # it was not seen
    for role in dict.fromkeys([*planned, *roles]):
        spec = roles.get(role) or {}
        # The operator takes 1 where no number is given.
        count = spec.get("replicas", 1) if role in roles else 0
        if count != planned.get(role, 0):
            yield f"{counted(count, f'{role} replica')}, {planned.get(role, 0)} planned"
        for container in ((spec.get("template") or {}).get("spec") or {}).get("containers") or ():
            if container.get("name") == kind.container:
                yield from _container(role, container, plan)


def _container(role: str, container: KubeObject, plan: RunPlan) -> Iterator[str]:
    limits = (container.get("resources") or {}).get("limits") or {}
    gpus = str(limits.get(plan.pool.gpu_resource, 0))
    if gpus != str(plan.gpus_per_replica):
        yield f"{gpus} {plan.pool.gpu_resource} for each {role}, {plan.gpus_per_replica} planned"
    image = str(container.get("image"))
    if plan.image is not None and not _is_same(image, plan.image):
        yield f"image {image} for {role}, {plan.image} planned"


def _is_same(image: str, planned: str) -> bool:
    """Whether two names are those of one image: a webhook may name a mirror, or add the digest."""
    name, wanted = image.rpartition("/")[2], planned.rpartition("/")[2]
    return name == wanted or name.startswith(f"{wanted}@")

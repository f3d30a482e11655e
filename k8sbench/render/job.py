"""The Kubernetes job of a run plan.

The templates lay out the decisions made here. A plan that Kubernetes would reject is rejected here,
with an action.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from k8sbench.model import identity
from k8sbench.model.errors import UsageError
from k8sbench.model.kinds import kind_of
from k8sbench.model.kube import QUEUE_LABEL
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import OBJECT_NAME
from k8sbench.render.pod import fitting, pod, security
from k8sbench.render.trainer_sources import DIGEST_ANNOTATION, TrainerSources

SECURITY_ANNOTATION = f"{identity.LABEL_DOMAIN}/pod-security"
"""The strictest Pod Security Standard that the pods keep to."""
REASONS_ANNOTATION = f"{identity.LABEL_DOMAIN}/pod-security-reasons"


def job(plan: RunPlan, trainers: TrainerSources | None) -> dict[str, Any]:
    """Return the template values of the plan's job.

    ``trainers`` are the sources that its pods mount. Raises :class:`UsageError` if no job is
    possible.
    """
    kind = kind_of(plan)
    longest = 63 - len(kind.after_name.format(last=plan.replicas - 1))
    if len(plan.job_name) > longest:
        raise UsageError(
            f"A {kind.name} cannot be named {plan.job_name!r}: its pods' names would be too long.",
            f"Use at most {longest} characters for --run-id.",
        )
    own_labels = identity.labels(plan)
    keeps = plan.checkpoints is not None and plan.backend != "local"
    secured = security(plan.pool, writes=keeps)
    about: dict[str, str] = {SECURITY_ANNOTATION: secured.level}
    if secured.reasons:
        about[REASONS_ANNOTATION] = ", ".join(secured.reasons)
    if trainers is not None:
        about[DIGEST_ANNOTATION] = trainers.digest
    return {
        "kind": kind,
        "labels": own_labels | _queue_labels(plan),
        "annotations": fitting(about | {identity.PLAN_ANNOTATION: plan_text(plan)}),
        # A string, as the operator's field may also say ``auto``.
        "processes": str(plan.processes_per_replica),
        "replicas": kind.replicas(plan.replicas),
        "pod": pod(plan, labels=own_labels, about=about, security=secured, trainers=trainers),
    }


def mounted(plan: RunPlan, trainers: TrainerSources) -> TrainerSources | None:
    """Return the sources that ``plan`` mounts; None if the image has them.

    Raises :class:`UsageError` if the plan was made with other sources.
    """
    if plan.trainers_by != "configmap":
        return None
    if plan.trainers_digest != trainers.digest:
        raise UsageError(
            f"Run {plan.run_id} was planned with other trainers "
            f"({str(plan.trainers_digest)[:12]}) than this k8sbench has ({trainers.digest[:12]}).",
            "Submit it again: the row must name the sources that ran.",
        )
    return trainers


def plan_text(plan: RunPlan) -> str:
    """Return the plan as the job's annotation holds it."""
    try:
        return msgspec.json.encode(plan, order="deterministic").decode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"The plan holds text that is not valid Unicode: {error.object!r}.",
            "Give names, paths and commands in UTF-8.",
        ) from error


def _queue_labels(plan: RunPlan) -> dict[str, str]:
    if plan.queue is None:
        return {}
    if not re.match(OBJECT_NAME, plan.queue) or len(plan.queue) > 63:
        raise UsageError(
            f"{plan.queue!r} cannot name a Kueue queue.", "'kubectl get localqueues' lists them."
        )
    return {QUEUE_LABEL: plan.queue}

"""The job kinds, by the name of the kind: a new one is a module here and a row below.

Its framework's trainers, images and catalog entries are other matters; what the cluster, the
operator and the local backend need to know of the kind is in its entry.
"""

from __future__ import annotations

from k8sbench.model.errors import UsageError
from k8sbench.model.kinds import paddle_job, pytorch_job
from k8sbench.model.kinds.kind import JobKind
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import Framework

KINDS: dict[str, JobKind] = {
    kind.name: kind
    for kind in (
        pytorch_job.KIND,
        paddle_job.KIND,
    )
}


def default_kind(framework: Framework) -> JobKind:
    """Return the kind of a framework's runs whose plans name none."""
    return next(kind for kind in KINDS.values() if framework in kind.default_for)


def kind_of(plan: RunPlan) -> JobKind:
    """Return the kind of a plan's job; raises :class:`UsageError` for one that is not known."""
    if plan.kind is None:
        return default_kind(plan.framework)
    if plan.kind not in KINDS:
        raise UsageError(
            f"Run {plan.run_id} is a {plan.kind}, and this k8sbench knows {' and '.join(KINDS)}.",
            "Use the version of k8sbench that submitted it, or a newer one.",
        )
    return KINDS[plan.kind]


def kinds_of(frameworks: tuple[Framework, ...]) -> list[JobKind]:
    """Return the kinds of these frameworks' runs; all kinds where none is named."""
    return [default_kind(framework) for framework in frameworks] or list(KINDS.values())


def rank_order(replica: str) -> tuple[bool, str, int]:
    """Sort key of replica names: a leading one first, then each type by number, 10 after 9."""
    role, _, number = replica.rpartition("-")
    leads = {kind.lead.lower() for kind in KINDS.values() if kind.lead is not None}
    return role not in leads, role, int(number) if number.isdecimal() else 0

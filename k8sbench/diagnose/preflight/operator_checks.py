"""Checks of the training operator: installed, alive, and started as our jobs need it."""

from __future__ import annotations

from collections.abc import Iterator

from k8sbench.diagnose.job.causes import ACTIONS
from k8sbench.diagnose.preflight import operator
from k8sbench.diagnose.preflight.facts import (
    Asked,
    Facts,
    Line,
    Refusal,
    Unknown,
    failure,
    ok,
    warning,
)
from k8sbench.diagnose.preflight.findings import enforced_level, unknown, unseen
from k8sbench.model.image import TITLES
from k8sbench.model.kinds import KINDS, kinds_of

OPERATOR = (1, 9)
INSTALL = (
    "Install the training operator v1.9: kubectl apply --server-side -k"
    " 'github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.3'"
)


def job_kinds(facts: Facts, asked: Asked) -> Iterator[Line]:
    """The job kinds are served."""
    api_versions = " and ".join(dict.fromkeys(kind.api_version for kind in KINDS.values()))
    if isinstance(facts.groups, Unknown):
        yield unknown("job-kinds", "the kinds of object that are served", facts.groups)
        return
    if isinstance(facts.kinds, Unknown):
        yield unseen("job-kinds", f"the kinds of {api_versions}", facts.kinds)
        return
    there = [kind for kind in KINDS.values() if kind.plural in facts.kinds]
    if not there:
        message = f"The training operator is not installed: {api_versions} has no"
        message, action = f"{message} {' and no '.join(KINDS)}.", f"{INSTALL}."
        if trainer := facts.groups.get("trainer.kubeflow.org"):
            message = (
                f"Kubeflow Trainer v2 (trainer.kubeflow.org/{', '.join(trainer)}) is installed, the"
                f" training operator v1, whose {'s and '.join(KINDS)}s k8sbench makes, is not."
            )
            action = f"{INSTALL}; both can be installed side by side."
        yield failure("job-kinds", message, action)
        return
    for kind in kinds_of(asked.frameworks):
        if kind in there:
            continue
        titles = " and ".join(TITLES[framework] for framework in kind.default_for)
        yield Line(
            id="job-kinds",
            level="failure" if asked.frameworks else "warning",
            message=f"{kind.name} is not served by {kind.api_version}"
            + (f": nothing runs on {titles}." if titles else "."),
            action=f"{INSTALL}, without --enable-scheme or with that kind.",
        )
    names = " and ".join(kind.name for kind in there)
    yield ok("job-kinds", f"{names} are served as {api_versions}.")


def webhook(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    """The operator's webhook answers."""
    for kind, refusal in facts.wrong_jobs.items():
        yield _webhook_answer(kind, refusal)


def _webhook_answer(kind: str, refusal: Refusal | None) -> Line:
    """Judge what came of a job that the operator's webhook alone refuses."""
    check = "operator-webhook"
    if refusal is None:
        return warning(
            check,
            f"No webhook looks at a {kind}, so whether the operator runs cannot be seen.",
            "Look at its Deployment; from v1.8 on the operator checks jobs by a webhook.",
        )
    if "denied the request" in refusal.message and f'"{KINDS[kind].webhook}"' in refusal.message:
        return ok(check, f"The operator is alive: its webhook looks at a {kind}.")
    if "failed calling webhook" in refusal.message:
        dead = f"The operator does not answer, and without it no {kind} can be created"
        start = f"Start it; 'kubectl get deployments -A -l {operator.SELECTOR}' finds it."
        return failure(check, f"{dead}: {_message(refusal)}.", start)
    return warning(
        check,
        f"Whether the operator is alive could not be tried with a {kind}: {_message(refusal)}.",
        "Look at the operator's Deployment, or correct what refused the dry run.",
    )


def admission(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    """Nothing refuses a job like ours."""
    for kind, refusal in facts.own_jobs.items():
        if refusal is None:
            yield ok("job-admission", f"A {kind} of k8sbench is accepted.")
        elif (
            "failed calling webhook" in refusal.message
            or _is_forbidden(refusal)
            or facts.namespace is None
        ):
            continue  # reported by operator-webhook, permissions and namespace
        else:
            yield failure(
                "job-admission",
                f"A {kind} of k8sbench is refused: {_message(refusal)}.",
                "Change what refuses it, or use another namespace (-n).",
            )


def deployment(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    """The operator's pods run, and are of the version that is tested."""
    found = facts.operator
    if isinstance(found, Unknown):
        yield unseen("operator", "the operator's Deployment, its flags and its version", found)
        return
    if found is None:
        yield warning(
            "operator",
            f"No Deployment has the label {operator.SELECTOR}, so the operator's flags and"
            " version are not known.",
            "Nothing to do where the operator was installed in another way.",
        )
        return
    meta, wanted = found["metadata"], found["spec"].get("replicas", 1)
    available = found.get("status", {}).get("availableReplicas", 0)
    where = f"{meta['namespace']}/{meta['name']}"
    status = f"{available} of {wanted} replicas of {where} are available, {operator.image(found)}"
    if available < 1:
        yield failure(
            "operator",
            f"The training operator is not running: {status}.",
            f"See why: kubectl -n {meta['namespace']} describe pods -l {operator.SELECTOR}.",
        )
    elif operator.version(found) not in (None, OPERATOR):
        yield warning(
            "operator",
            f"k8sbench is tested with training operator 1.9, this is another: {status}.",
            f"{INSTALL}.",
        )
    else:
        yield ok("operator", f"The training operator runs: {status}.")


def rate(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    """The operator may ask the API server often enough."""
    if isinstance(facts.operator, Unknown) or facts.operator is None:
        return
    qps = operator.number(facts.operator, "kube-api-qps", operator.QPS)
    burst = operator.number(facts.operator, "kube-api-burst", operator.BURST)
    threads = operator.number(facts.operator, "controller-threads", operator.THREADS)
    flags = f"--kube-api-qps={qps} --kube-api-burst={burst} --controller-threads={threads}"
    if qps > operator.QPS:
        yield ok("operator-rate", f"The operator may ask often: {flags}.")
        return
    rate = operator.JOBS_PER_SECOND * qps / operator.QPS
    yield warning(
        "operator-rate",
        f"The operator may send few requests to the API server ({flags}): it creates the pods "
        f"of about"
        f" {rate:.1f} jobs of 4 pods per second, and reports their states late.",
        "For many jobs at once start it with --kube-api-qps=400 --kube-api-burst=800"
        " --controller-threads=8.",
    )


def init_container(facts: Facts, asked: Asked) -> Iterator[Line]:
    """The namespace lets the operator's init container in."""
    enforced = enforced_level(facts)
    with_init = [kind.name for kind in kinds_of(asked.frameworks) if kind.init_container]
    if enforced is None or not with_init:
        return
    if enforced != "restricted":
        yield ok(
            "operator-init-container",
            "The operator's init container is not refused here: restricted is not enforced.",
        )
        return
    action = (
        "Give the operator a template that passes: 'k8sbench doctor --init-template' prints it,"
        " docs/doctor.md says how."
    )
    if isinstance(facts.operator, Unknown) or facts.operator is None:
        why = "the operator's Deployment could not be read"
    elif isinstance(facts.init_template, Unknown):
        why = facts.init_template.why
    else:
        problem = operator.unrestricted(facts.init_template)
        if problem is None:
            passes = "The operator's init container passes the restricted profile."
            yield ok("operator-init-container", passes)
            return
        yield failure(
            "operator-init-container",
            f"The namespace {asked.namespace} enforces restricted and will refuse the workers"
            f" that the operator makes of a {with_init[0]}: {problem}.",
            action,
        )
        return
    yield warning(
        "operator-init-container",
        f"The namespace {asked.namespace} enforces restricted, which upstream's init"
        f" container for the workers of a {with_init[0]} does not pass; which one this operator"
        f" has is not known ({why}).",
        action,
    )


def gang(facts: Facts) -> Line:
    """The operator makes gangs."""
    if isinstance(facts.operator, Unknown) or facts.operator is None:
        why = facts.operator.why if isinstance(facts.operator, Unknown) else "it was not found"
        return warning(
            "gang",
            f"Whether the operator makes gangs cannot be seen from its Deployment ({why}).",
            "Nothing to do: where it makes none, submit sees that by the first pod and ends"
            " the job.",
        )
    refusal = operator.gang_refusal(facts.operator)
    if refusal is not None:
        return failure("gang", refusal, ACTIONS["gang-ignored"])
    scheduler = operator.gang_scheduler(facts.operator)
    message = f"The operator makes a pod group of every job, for the scheduler {scheduler}."
    return ok("gang", message)


def _message(refusal: Refusal) -> str:
    return refusal.message.strip().rstrip(".")


def _is_forbidden(refusal: Refusal) -> bool:
    # Quotas and admission plug-ins answer 403 as well, in words of their own.
    return refusal.status == 403 and "cannot create resource" in refusal.message

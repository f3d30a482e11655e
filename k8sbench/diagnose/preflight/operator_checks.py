"""Checks of the training operator: installed, alive, and started as our jobs need it.

The operator is the upstream program, v1.9. Its flags are read from its Deployment; their defaults
are those of its source (``cmd/training-operator.v1/main.go``, ``pkg/config/config.go``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from k8sbench.diagnose.job.causes import CAUSES
from k8sbench.diagnose.preflight.facts import (
    PreflightFacts,
    Unknown,
    fail,
    known,
    ok,
    warn,
)
from k8sbench.model.finding import Finding
from k8sbench.model.image import TITLES
from k8sbench.model.kinds import KINDS, JobKind, kinds_of
from k8sbench.model.kube import KubeObject

SELECTOR = "control-plane=kubeflow-training-operator"
"""Label of the Deployment in upstream's manifests."""
USUAL_PLACE = ("kubeflow", "training-operator")
"""Namespace and name of the Deployment there."""
TEMPLATE_FILE = "/etc/config/initContainer.yaml"
_UNANSWERED = "failed calling webhook"
OPERATOR = (1, 9)
INSTALL = (
    "Install the training operator v1.9: kubectl apply --server-side -k"
    " 'github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.3'"
)


def job_kinds(facts: PreflightFacts) -> Iterator[Finding]:
    """The job kinds are served: each framework's own, or one that all frameworks have."""
    served, frameworks = known(facts.kinds), facts.request.frameworks
    there = [kind for kind in KINDS.values() if kind.plural in served]
    if not there:
        missing = ", and ".join(
            f"{version} has no " + " and no ".join(kind.name for kind in kinds)
            for version, kinds in _by_version(KINDS.values()).items()
        )
        yield fail(
            f"No operator of training jobs is installed: {missing}.",
            f"{INSTALL}; or Kubeflow Trainer v2.",
        )
        return
    if all(kind.default_for for kind in there):
        for kind in kinds_of(frameworks):
            if kind not in there and kind.default_for:
                titles = " and ".join(TITLES[framework] for framework in kind.default_for)
                yield (fail if frameworks else warn)(
                    f"{kind.name} is not served by {kind.api_version}: nothing runs on {titles}.",
                    f"{INSTALL}, without --enable-scheme or with that kind.",
                )
    for version, kinds in _by_version(there).items():
        verb = "is" if len(kinds) == 1 else "are"
        yield ok(f"{' and '.join(kind.name for kind in kinds)} {verb} served as {version}.")


def _by_version(kinds: Iterable[JobKind]) -> dict[str, list[JobKind]]:
    found: dict[str, list[JobKind]] = {}
    for kind in kinds:
        found.setdefault(kind.api_version, []).append(kind)
    return found


def _is_served(facts: PreflightFacts) -> bool:
    """Whether jobs of the training operator v1 are, as far as that is known."""
    served = facts.kinds
    plurals = [kind.plural for kind in KINDS.values() if kind.default_for]
    return isinstance(served, Unknown) or any(plural in served for plural in plurals)


def admission(facts: PreflightFacts) -> Iterator[Finding]:
    """The operator's webhook answers, and nothing refuses a job like ours."""
    for kind, refusal in facts.own_jobs.items():
        if refusal is None:
            yield ok(f"A {kind} of k8sbench is accepted.")
            continue
        message = refusal.message.strip().rstrip(".")
        if _UNANSWERED in message:
            yield fail(
                f"The operator does not answer; without it no {kind} can be created: {message}.",
                f"Start it; 'kubectl get deployments -A -l {SELECTOR}' finds it.",
            )
        # Else permissions or namespace reports it. Quotas and admission plug-ins answer 403 as
        # well, in words of their own.
        elif facts.namespace is not None and "cannot create resource" not in message:
            yield fail(
                f"A {kind} of k8sbench is refused: {message}.",
                "Change what refuses it, or use another namespace (-n).",
            )


def deployment(facts: PreflightFacts) -> Iterator[Finding]:
    """The operator's pods run, and are of the version that is tested."""
    operator = known(facts.operator)
    if not _is_served(facts):
        return
    if operator is None:
        yield warn(
            f"No Deployment has the label {SELECTOR}: flags and version are not known.",
            "Nothing to do where the operator was installed in another way.",
        )
        return
    meta, replicas = operator["metadata"], operator["spec"].get("replicas", 1)
    available = operator.get("status", {}).get("availableReplicas", 0)
    where = f"{meta['namespace']}/{meta['name']}"
    status = f"{available} of {replicas} replicas of {where} are available, {image(operator)}"
    if available < 1:
        yield fail(
            f"The training operator is not running: {status}.",
            f"See why: kubectl -n {meta['namespace']} describe pods -l {SELECTOR}.",
        )
    elif version(operator) not in (None, OPERATOR):
        yield warn(
            f"k8sbench is tested with training operator 1.9, this is another: {status}.",
            f"{INSTALL}.",
        )
    else:
        yield ok(f"The training operator runs: {status}.")


def init_container(facts: PreflightFacts) -> Iterator[Finding]:
    """The namespace lets the operator's init container in."""
    operator = facts.operator
    kinds = [kind.name for kind in kinds_of(facts.request.frameworks) if kind.init_container]
    if facts.enforced_level is None or not kinds or not _is_served(facts):
        return
    enforces = f"The namespace {facts.request.namespace} enforces restricted"
    upstream = f"upstream's init container of the workers of a {kinds[0]} does not pass"
    action = "Give the operator the template of 'k8sbench doctor --init-template' (docs/doctor.md)."
    if facts.enforced_level != "restricted":
        yield ok("The operator's init container is not refused here: restricted is not enforced.")
    elif operator is None or isinstance(operator, Unknown):
        yield warn(
            f"{enforces}, which {upstream}; which one this operator has is not known.", action
        )
    elif has_init_template(operator):
        yield ok("The operator was given a template of its own for its init container.")
    else:
        yield fail(f"{enforces}, which {upstream}: they will be refused.", action)


def gang(facts: PreflightFacts) -> Iterator[Finding]:
    """The operator makes gangs, where one is asked for."""
    if not facts.request.gang:
        return
    operator = facts.operator
    if operator is None or isinstance(operator, Unknown):
        why = "it was not found" if operator is None else operator.why
        yield warn(
            f"Whether the operator makes gangs cannot be seen from its Deployment ({why}).",
            "Nothing to do: where it makes none, submit sees that by the first pod.",
        )
    elif (scheduler := gang_scheduler(operator)) is None:
        # Such an operator ignores a job's scheduling policy in silence.
        yield fail(
            "The training operator makes no pod groups (it runs without --gang-scheduler-name): it"
            " would ignore --gang, and the replicas would be placed one by one.",
            CAUSES["gang-ignored"].action,
        )
    else:
        yield ok(f"The operator makes a pod group of every job, for the scheduler {scheduler}.")


# -- the Deployment ------------------------------------------------------------------------------


def flags(deployment: KubeObject) -> dict[str, str]:
    """Flags of the operator's process, by name without dashes; one without a value is ``true``."""
    container = _container(deployment)
    words = [*container.get("command", ()), *container.get("args", ()), "-"]
    values: dict[str, str] = {}
    for word, following in pairwise(words):
        if re.match(r"--?[a-z]", word):
            name, has_value, value = word.lstrip("-").partition("=")
            is_switch = following.startswith("-")
            values[name] = value if has_value else "true" if is_switch else following
    return values


def gang_scheduler(deployment: KubeObject) -> str | None:
    """The scheduler that the operator makes pod groups for; None: it makes none."""
    return flags(deployment).get("gang-scheduler-name") or None


def image(deployment: KubeObject) -> str:
    """The operator's image."""
    return str(_container(deployment).get("image", "unknown"))


def version(deployment: KubeObject) -> tuple[int, int] | None:
    """Version by the image's tag; None for upstream's own tags, which name a commit."""
    tag = re.search(r":v?(\d+)\.(\d+)", image(deployment))
    return (int(tag[1]), int(tag[2])) if tag else None


def has_init_template(deployment: KubeObject) -> bool:
    """Whether the operator reads the template of its init container from a ConfigMap.

    It takes its own, which has no security context, where there is no such file.
    """
    file = flags(deployment).get("pytorch-init-container-template-file", TEMPLATE_FILE)
    volumes = deployment["spec"]["template"]["spec"].get("volumes", ())
    config_maps = {volume["name"] for volume in volumes if "configMap" in volume}
    return any(
        mount["name"] in config_maps
        and mount["mountPath"].rstrip("/") in (file, file.rpartition("/")[0])
        for mount in _container(deployment).get("volumeMounts", ())
    )


def _container(deployment: KubeObject) -> Mapping[str, Any]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    named = (container for container in containers if container["name"] == "training-operator")
    operator: Mapping[str, Any] = next(named, containers[0])
    return operator

"""Checks of the operators: installed, alive, and started as our jobs need it.

Flags are read from an operator's Deployment; their defaults are those of the source of the training
operator v1.9 (``cmd/training-operator.v1/main.go``, ``pkg/config/config.go``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
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
from k8sbench.model.kinds import KINDS, kinds_of
from k8sbench.model.kube import KubeObject
from k8sbench.model.operators import OPERATORS, TRAINING_OPERATOR, Operator

TEMPLATE_FILE = "/etc/config/initContainer.yaml"
_UNANSWERED = "failed calling webhook"


def job_kinds(facts: PreflightFacts) -> Iterator[Finding]:
    """The job kinds are served."""
    groups, served, frameworks = known(facts.groups), known(facts.kinds), facts.request.frameworks
    there = [operator for operator in facts.operators if operator.group in groups]
    if not there:
        others = [one.name for one in OPERATORS.values() if one.group in groups]
        beside = f" ({' and '.join(others)} is)" if others else ""
        actions = [operator.install for operator in facts.operators]
        if len(actions) == 1:
            yield fail(
                f"{facts.operators[0].title} is not installed{beside}.",
                f"Install {actions[0]}{'; or leave --job-kind out' if others else ''}.",
            )
        else:
            names = " nor ".join(operator.name for operator in facts.operators)
            yield fail(f"Neither {names} is installed.", f"Install {'; or '.join(actions)}.")
    for operator in there:
        for needed in operator.needs:
            if needed.group not in groups:
                yield _spoils(facts, operator)(
                    f"{needed.title} is not installed; without it {operator.name} makes no pods.",
                    f"Install {needed.install}.",
                )
        kinds = kinds_of(operator, frameworks)
        for kind in kinds:
            if kind.plural not in served:
                titles = " and ".join(TITLES[framework] for framework in kind.default_for)
                nothing = f": nothing runs on {titles}" if titles else ""
                yield (_spoils(facts, operator) if frameworks else warn)(
                    f"{kind.name} is not served by {kind.api_version}{nothing}.",
                    f"Install {operator.install}, without --enable-scheme or with that kind.",
                )
        found = [kind for kind in kinds if kind.plural in served]
        if found:
            names = " and ".join(kind.name for kind in found)
            are = "are" if len(found) > 1 else "is"
            yield ok(f"{names} {are} served as {found[0].api_version}.")


def _spoils(facts: PreflightFacts, operator: Operator) -> Callable[[str, str | None], Finding]:
    """Return what a fault of an operator is: jobs are made for the first alone."""
    return fail if operator == facts.operators[0] else warn


def admission(facts: PreflightFacts) -> Iterator[Finding]:
    """The operator's webhook answers, and nothing refuses a job like ours."""
    for kind, refusal in facts.own_jobs.items():
        operator = KINDS[kind].operator
        if refusal is None:
            yield ok(f"A {kind} of k8sbench is accepted.")
            continue
        message = refusal.strip().rstrip(".")
        if _UNANSWERED in message:
            yield _spoils(facts, operator)(
                f"The operator does not answer; without it no {kind} can be created: {message}.",
                f"Start it; 'kubectl get deployments -A -l {operator.selector}' finds it.",
            )
        # Else permissions or namespace reports it. Quotas and admission plug-ins answer 403 as
        # well, in words of their own.
        elif facts.namespace is not None and "cannot create resource" not in message:
            yield _spoils(facts, operator)(
                f"A {kind} of k8sbench is refused: {message}.",
                "Change what refuses it, or use another namespace (-n).",
            )


def deployment(facts: PreflightFacts) -> Iterator[Finding]:
    """The operators' pods run, and are of the versions that are tested."""
    unknown = [each for each in facts.deployments.values() if isinstance(each, Unknown)]
    for operator in facts.operators:
        for program in (operator, *operator.needs):
            found = facts.deployments.get(program.name)
            if program.name in facts.deployments and not isinstance(found, Unknown):
                yield _runs(program, found, _spoils(facts, operator))
    if unknown:
        known(unknown[0])


def _runs(
    program: Operator, found: KubeObject | None, spoils: Callable[[str, str | None], Finding]
) -> Finding:
    if found is None:
        return warn(
            f"No Deployment has the label {program.selector}: flags and version are not known.",
            f"Nothing to do where {program.name} was installed in another way.",
        )
    meta, replicas = found["metadata"], found["spec"].get("replicas", 1)
    available = found.get("status", {}).get("availableReplicas", 0)
    where = f"{meta['namespace']}/{meta['name']}"
    image = _container(found, program).get("image", "unknown")
    status = f"{available} of {replicas} replicas of {where} are available, {image}"
    if available < 1:
        return spoils(
            f"{program.title} is not running: {status}.",
            f"See why: kubectl -n {meta['namespace']} describe pods -l {program.selector}.",
        )
    if version(found, program) not in (None, program.version):
        return warn(
            f"k8sbench is tested with {program.tested} of {program.name}, not with this: {status}.",
            f"Install {program.install}.",
        )
    return ok(f"{program.title} runs: {status}.")


def init_container(facts: PreflightFacts) -> Iterator[Finding]:
    """The namespace lets the operator's init container in."""
    operator, kinds_there = facts.deployment, kinds_of(facts.operators[0], facts.request.frameworks)
    kinds = [kind.name for kind in kinds_there if kind.init_container]
    if facts.enforced_level is None or not kinds:
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
    program, found = facts.operators[0], facts.deployment
    if program.gang_flag is None:
        yield fail(
            f"{program.title} makes no pod groups: it would ignore --gang, and the replicas would"
            " be placed one by one.",
            "Name a queue with --queue in place of --gang: Kueue admits all replicas or none.",
        )
    elif found is None or isinstance(found, Unknown):
        why = "it was not found" if found is None else found.why
        yield warn(
            f"Whether the operator makes gangs cannot be seen from its Deployment ({why}).",
            "Nothing to do: where it makes none, submit sees that by the first pod.",
        )
    elif not (scheduler := flags(found).get(program.gang_flag)):
        # Such an operator ignores a job's scheduling policy in silence.
        yield fail(
            f"{program.title} makes no pod groups (it runs without --{program.gang_flag}): it"
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


def version(deployment: KubeObject, program: Operator) -> tuple[int, int] | None:
    """Version by the image's tag; None for upstream's own tags, which name a commit."""
    image = str(_container(deployment, program).get("image", ""))
    tag = re.search(r":v?(\d+)\.(\d+)", image)
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


def _container(deployment: KubeObject, program: Operator = TRAINING_OPERATOR) -> Mapping[str, Any]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    named = (container for container in containers if container["name"] == program.container)
    operator: Mapping[str, Any] = next(named, containers[0])
    return operator

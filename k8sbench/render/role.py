"""The permissions of users and of the collector: fixed rules, and those of the job kinds."""

from __future__ import annotations

from jinja2 import Environment

from k8sbench.model.kinds import KINDS
from k8sbench.render.templates import render

RUNTIME_VERBS = ("get", "create", "patch", "delete")
TEMPLATE, COLLECTOR_TEMPLATE = "role.yaml.j2", "collector-role.yaml.j2"


def text(templates: Environment) -> str:
    """Write both as YAML; ``k8sbench/role.yaml`` is this text."""
    return render(templates, TEMPLATE, jobs=_jobs()) + "\n"


def collector(templates: Environment) -> str:
    """Write the collector's Role as YAML, of which the chart has the rules.

    It creates jobs, too: the next attempts of runs whose attempt has failed.
    """
    return render(templates, COLLECTOR_TEMPLATE, jobs=_jobs()) + "\n"


def _jobs() -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Group and verbs → plurals of the job kinds."""
    jobs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in KINDS.values():
        jobs.setdefault((kind.group, tuple(kind.verbs)), []).append(kind.plural)
        if kind.runtime is not None:
            jobs.setdefault((kind.group, RUNTIME_VERBS), []).append(kind.runtime.plural)
    return jobs

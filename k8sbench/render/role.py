"""The Role and the ClusterRole of k8sbench's users: fixed rules, and those of the job kinds."""

from __future__ import annotations

from jinja2 import Environment

from k8sbench.model.kinds import KINDS
from k8sbench.render.templates import render

TEMPLATE = "role.yaml.j2"


def text(templates: Environment) -> str:
    """Write both as YAML; ``k8sbench/role.yaml`` is this text."""
    jobs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in KINDS.values():
        jobs.setdefault((kind.group, kind.verbs), []).append(kind.plural)
    return render(templates, TEMPLATE, jobs=jobs) + "\n"


def metrics(templates: Environment, *, user: str, namespace: str, service: str | None) -> str:
    """Write what is missing where a user may not read GPU metrics through the API server.

    Those of a Prometheus, whose ``service`` is named as in the proxy's path
    (``prometheus-k8s:web``), or without one those of the DCGM exporters of a namespace.
    """
    title = "k8sbench-prometheus" if service else "k8sbench-dcgm-exporters"
    values = {"title": title, "user": user, "namespace": namespace, "service": service}
    return render(templates, "metrics-role.yaml.j2", **values) + "\n"

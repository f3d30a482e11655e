"""The permissions of users and of the collector: fixed rules, and those of the job kinds."""

from __future__ import annotations

import hashlib
import re

from jinja2 import Environment

from k8sbench.model.kinds import KINDS
from k8sbench.render.templates import render

TEMPLATE, COLLECTOR_TEMPLATE = "role.yaml.j2", "collector-role.yaml.j2"
NAMED = 30
"""Characters of a user's name that the name of a binding has."""


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
    return jobs


def metrics(templates: Environment, *, user: str, namespace: str, service: str | None) -> str:
    """Write what is missing where a user may not read GPU metrics through the API server.

    Those of a Prometheus, whose ``service`` is named as in the proxy's path
    (``prometheus-k8s:web``), or without one those of the DCGM exporters of a namespace. What is
    applied for one user or service leaves that of others as it is.
    """
    title = f"k8sbench-{service.replace(':', '.')}" if service else "k8sbench-dcgm-exporters"
    values = {
        "title": title,
        "binding": f"{title}-{_name_of(user)}",
        "user": user,
        "namespace": namespace,
        "service": service,
    }
    return render(templates, "metrics-role.yaml.j2", **values) + "\n"


def _name_of(user: str) -> str:
    """Write a user as the end of a DNS-1123 name, which no other user has."""
    readable = re.sub(r"[^a-z0-9]+", "-", user.lower())[-NAMED:].strip("-")
    digest = hashlib.sha256(user.encode()).hexdigest()[:8]
    return f"{readable}-{digest}" if readable else digest

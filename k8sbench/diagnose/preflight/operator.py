"""The training operator as its Deployment describes it: flags, version, init container.

The operator is the upstream program, v1.9; the defaults are those of its source
(``cmd/training-operator.v1/main.go``, ``pkg/config/config.go``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

SELECTOR = "control-plane=kubeflow-training-operator"
"""Label of the Deployment in upstream's manifests."""
USUAL_PLACE = ("kubeflow", "training-operator")
"""Namespace and name of the Deployment there."""
QPS, BURST, THREADS = 20, 30, 1
JOBS_PER_SECOND = 1.2
"""Jobs of 4 pods that the defaults above bring up in a second: measured, on an idle machine."""
TEMPLATE_FILE = "/etc/config/initContainer.yaml"
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}")


class TemplateSource(msgspec.Struct, frozen=True):
    """A key of a ConfigMap in the operator's namespace."""

    config_map: str
    key: str


def flags(deployment: Mapping[str, Any]) -> dict[str, str]:
    """Flags of the operator's process, by name without dashes; one without a value is ``true``."""
    container = _container(deployment)
    words = [*container.get("command", ()), *container.get("args", ())]
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        if not re.match(r"--?[a-z]", word):
            continue
        name, has_value, value = word.lstrip("-").partition("=")
        if not has_value:
            following = words[index + 1] if index + 1 < len(words) else "-"
            value = "true" if following.startswith("-") else following
        found[name] = value
    return found


def number(deployment: Mapping[str, Any], name: str, default: int) -> int:
    """A flag that is a number; its default where it is not set, or cannot be read."""
    text = flags(deployment).get(name, "")
    return int(text) if text.isdecimal() else default


def gang_scheduler(deployment: Mapping[str, Any]) -> str | None:
    """The scheduler that the operator makes pod groups for; None: it makes none."""
    return flags(deployment).get("gang-scheduler-name") or None


def gang_refusal(deployment: Mapping[str, Any]) -> str | None:
    """Why ``--gang`` would have no effect, one sentence; None: it has.

    Such an operator ignores a job's scheduling policy in silence.
    """
    if gang_scheduler(deployment) is not None:
        return None
    return (
        "The training operator makes no pod groups (it runs without --gang-scheduler-name): it"
        " would ignore --gang, and the replicas would be placed one by one."
    )


def image(deployment: Mapping[str, Any]) -> str:
    """The operator's image."""
    return str(_container(deployment).get("image", "unknown"))


def version(deployment: Mapping[str, Any]) -> tuple[int, int] | None:
    """Version by the image's tag; None for upstream's own tags, which name a commit."""
    found = re.search(r":v?(\d+)\.(\d+)", image(deployment))
    return (int(found[1]), int(found[2])) if found else None


def init_template_source(deployment: Mapping[str, Any]) -> TemplateSource | None:
    """Where the template of its init container comes from; None: it uses the one built in.

    The operator reads a file, and takes its own template where there is none: the file is given
    by a volume.
    """
    file = flags(deployment).get("pytorch-init-container-template-file", TEMPLATE_FILE)
    folder, _, name = file.rpartition("/")
    volumes = {
        volume["name"]: volume["configMap"]
        for volume in _pod(deployment).get("volumes", ())
        if "configMap" in volume
    }
    for mount in _container(deployment).get("volumeMounts", ()):
        source = volumes.get(mount["name"])
        if source is None:
            continue
        if mount["mountPath"] == file and "subPath" in mount:
            inner = mount["subPath"]
        elif folder == mount["mountPath"].rstrip("/"):
            inner = name
        else:
            continue
        keys = {item["path"]: item["key"] for item in source.get("items", ())}
        return TemplateSource(source["name"], keys.get(inner, inner))
    return None


def unrestricted(template: str | None) -> str | None:
    """What keeps pods with this init container from the restricted profile; None: nothing.

    The pod itself says that it is not root and which seccomp profile it has; what is left is what
    every container has to say for itself.
    """
    if template is None:
        return "its init container has no security context"
    try:
        containers = yaml.safe_load(_PLACEHOLDER.sub("x", template))
        return next(iter(_missing(containers)), None)
    except (yaml.YAMLError, AttributeError, TypeError) as wrong:
        return f"its init container's template cannot be read ({type(wrong).__name__})"


def _missing(containers: Any) -> Iterator[str]:
    for container in containers:
        context = container.get("securityContext") or {}
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"its init container {container.get('name')} may escalate its privileges"
        if "ALL" not in ((context.get("capabilities") or {}).get("drop") or ()):
            yield f"its init container {container.get('name')} does not drop all capabilities"


def _pod(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def _container(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = _pod(deployment)["containers"]
    named = (each for each in containers if each["name"] == "training-operator")
    found: Mapping[str, Any] = next(named, containers[0])
    return found

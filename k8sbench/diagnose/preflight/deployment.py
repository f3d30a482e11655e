"""An operator's Deployment: its flags, version and init container's template.

The flags are those of the training operator v1.9 (cmd/training-operator.v1/main.go).
"""

from __future__ import annotations

import re
from itertools import pairwise

from k8sbench.model.kube import KubeObject
from k8sbench.model.operators import TRAINING_OPERATOR, Operator

TEMPLATE_FILE = "/etc/config/initContainer.yaml"
"""Default path of the init container's template in training operator v1.9."""


def flags(deployment: KubeObject) -> dict[str, str]:
    """Return flags of the operator's process, without dashes; one without a value is ``true``."""
    container = container_of(deployment)
    words = [*container.get("command", ()), *container.get("args", ()), "-"]
    values: dict[str, str] = {}
    for word, following in pairwise(words):
        if re.match(r"--?[a-z]", word):
            name, has_value, value = word.lstrip("-").partition("=")
            is_switch = following.startswith("-")
            values[name] = value if has_value else "true" if is_switch else following
    return values


def version(deployment: KubeObject, program: Operator) -> tuple[int, int] | None:
    """Return the version by the image's tag; None without one.

    Upstream's tags name a commit.
    """
    image = str(container_of(deployment, program).get("image", ""))
    tag = re.search(r":v?(\d+)\.(\d+)", image)
    return (int(tag[1]), int(tag[2])) if tag else None


def has_init_template(deployment: KubeObject) -> bool:
    """Return whether the template of the operator's init container comes from a ConfigMap.

    Where there is no such file, the operator takes its own, which has no security context.
    """
    file = flags(deployment).get("pytorch-init-container-template-file", TEMPLATE_FILE)
    volumes = deployment["spec"]["template"]["spec"].get("volumes", ())
    config_maps = {volume["name"] for volume in volumes if "configMap" in volume}
    return any(
        mount["name"] in config_maps
        and mount["mountPath"].rstrip("/") in (file, file.rpartition("/")[0])
        for mount in container_of(deployment).get("volumeMounts", ())
    )


def container_of(deployment: KubeObject, program: Operator = TRAINING_OPERATOR) -> KubeObject:
    """Return the container that runs the program."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    named = (container for container in containers if container["name"] == program.container)
    operator: KubeObject = next(named, containers[0])
    return operator

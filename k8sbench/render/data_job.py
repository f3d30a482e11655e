"""A Job of Kubernetes that prepares or checks a data set on a claim, beside no run.

Its name follows from what is asked for, so that whoever asks for the same again finds it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from jinja2 import Environment

from k8sbench.model import yaml_text
from k8sbench.model.data_set import DataTask
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import LABEL_DOMAIN, OWN_LABELS
from k8sbench.model.image import checked_image
from k8sbench.model.planning import TRAINERS_MOUNT
from k8sbench.model.pool import OBJECT_NAME, NodePool, claim
from k8sbench.render.pod import PACKAGES_MOUNT, SIDECAR, USER, toleration
from k8sbench.render.templates import render
from k8sbench.render.trainer_sources import DIGEST_ANNOTATION, TrainerSources

TEMPLATE = "data-job.yaml.j2"
CONTAINER = "data"
MOUNT = "/data"
LABEL = f"{LABEL_DOMAIN}/data"
"""Label of the Job and its pod; the value is the Job's name."""
PROGRAM = ("python3", "-m", "k8sbench.trainers.prepare_data")
SECRET_KEYS = {
    "K8SBENCH_DATA_USERNAME": "username",
    "K8SBENCH_DATA_PASSWORD": "password",
    "K8SBENCH_DATA_HEADER": "header",
    "K8SBENCH_DATA_URL": "url",
}
"""Variable of the program → key of the Secret; each may be missing."""


def manifest(
    task: DataTask,
    *,
    image: str,
    pool: NodePool,
    templates: Environment,
    trainers: TrainerSources,
) -> dict[str, Any]:
    """Render the Job of a task on a claim, whose program is among the trainers.

    ``pool`` is whose nodes, pull secrets and Python packages it has. Raises :class:`UsageError`.
    """
    if (place := claim(task.place)) is None:
        raise UsageError(f"{task.place!r} names no claim.", "Give pvc:NAME[/SUB].")
    checked_image(image)
    if task.secret is not None and not re.match(OBJECT_NAME, task.secret):
        message = f"{task.secret!r} cannot name a Secret."
        raise UsageError(message, "'kubectl get secrets' lists them.")
    asked = repr((place, task.words, image, task.secret))
    digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
    name = f"data-{task.action}-{task.data_set}-{digest}"
    labels = OWN_LABELS | {LABEL: name}
    annotations = {DIGEST_ANNOTATION: trainers.digest}
    # The program makes the folder where it is missing.
    folder = MOUNT if place.folder is None else f"{MOUNT}/{place.folder}"
    packages = claim(pool.python_packages or "")
    text = render(
        templates,
        TEMPLATE,
        task=task,
        image=image,
        claim=place.name,
        job=name,
        labels=labels,
        annotations=annotations,
        pod_labels={**labels, SIDECAR: "false"},
        pod_annotations={SIDECAR: "false", **annotations},
        command=(*PROGRAM, task.action, task.data_set, folder, *task.words),
        pool=pool,
        tolerations=[toleration(entry) for entry in pool.tolerations],
        packages=packages,
        # Two volumes of one claim keep a pod from starting.
        packages_volume="data" if packages and packages.name == place.name else "packages",
        packages_mount=PACKAGES_MOUNT,
        python_path=f"{TRAINERS_MOUNT}:{PACKAGES_MOUNT}" if packages else TRAINERS_MOUNT,
        secret_keys=SECRET_KEYS if task.secret is not None else {},
        user=USER,
        mount=MOUNT,
        trainers_mount=TRAINERS_MOUNT,
        trainers=trainers,
    )
    loaded: dict[str, Any] = yaml_text.load(text)
    return loaded

"""A Job of Kubernetes that prepares or checks a data set on a claim, beside no run.

Its name follows from what is asked for, so that whoever asks for the same again finds it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec
from jinja2 import Environment

from k8sbench.model import yaml_text
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.image import checked_image
from k8sbench.model.planning import TRAINERS_MOUNT
from k8sbench.model.pool import OBJECT_NAME, Claim, NodePool, claim
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


class DataJob(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, and with which image."""

    action: str
    """``prepare`` or ``check``."""
    data_set: str
    claim: Claim
    words: tuple[str, ...]
    """More words of the program."""
    image: str
    secret: str | None = None
    pool: NodePool | None = None
    """Whose nodes, pull secrets and Python packages it has; None: any node's."""
    seconds: int

    @property
    def name(self) -> str:
        """The Job's name: another one where something else is asked for."""
        asked = repr((self.claim, self.words, self.image, self.secret))
        digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
        return f"data-{self.action}-{self.data_set}-{digest}"

    @property
    def command(self) -> tuple[str, ...]:
        """What its container runs."""
        return (*PROGRAM, self.action, self.data_set, self._folder, *self.words)

    @property
    def _folder(self) -> str:
        """The folder as the container sees it: the program makes it where it is missing."""
        return MOUNT if self.claim.folder is None else f"{MOUNT}/{self.claim.folder}"


def manifest(job: DataJob, *, templates: Environment, trainers: TrainerSources) -> dict[str, Any]:
    """Render the Job, whose program is among the trainers."""
    _check(job)
    labels = {
        "app.kubernetes.io/name": "k8sbench",
        "app.kubernetes.io/managed-by": "k8sbench",
        "app.kubernetes.io/part-of": "k8sbench",
        LABEL: job.name,
    }
    pool = job.pool
    packages = claim(pool.python_packages or "") if pool is not None else None
    annotations = {DIGEST_ANNOTATION: trainers.digest}
    values = {
        "name": job.name,
        "labels": labels,
        "annotations": annotations,
        "pod_labels": {**labels, SIDECAR: "false"},
        "pod_annotations": {SIDECAR: "false", **annotations},
        "seconds": job.seconds,
        "user": USER,
        "image": job.image,
        "command": job.command,
        "pull_secrets": [{"name": name} for name in pool.image_pull_secrets] if pool else [],
        "selector": pool.selector if pool else {},
        "tolerations": [toleration(entry) for entry in pool.tolerations] if pool else [],
        "packages": packages.name if packages else None,
        # Two volumes of one claim keep a pod from starting.
        "packages_volume": "data" if packages and packages.name == job.claim.name else "packages",
        "packages_folder": packages.folder if packages else None,
        "packages_mount": PACKAGES_MOUNT,
        "env": [
            ("PYTHONPATH", f"{TRAINERS_MOUNT}:{PACKAGES_MOUNT}" if packages else TRAINERS_MOUNT),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("HOME", "/tmp"),  # noqa: S108 - in the pod
        ],
        "secret": job.secret,
        "secret_env": list(SECRET_KEYS.items()) if job.secret is not None else [],
        "mount": MOUNT,
        "read_only": job.action == "check",
        "claim": job.claim.name,
        "trainers_mount": TRAINERS_MOUNT,
        "trainers": trainers,
    }
    loaded: dict[str, Any] = yaml_text.load(render(templates, TEMPLATE, job=values))
    return loaded


def _check(job: DataJob) -> None:
    checked_image(job.image)
    if job.secret is not None and not re.match(OBJECT_NAME, job.secret):
        message = f"{job.secret!r} cannot name a Secret."
        raise UsageError(message, "'kubectl get secrets' lists them.")

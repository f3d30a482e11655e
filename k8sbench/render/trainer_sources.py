"""Source files of the trainers, and the ConfigMap that carries them.

A namespace has one for each version of the trainers, for all runs. Its name holds their digest, and
its content never changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from k8sbench.model.kube import KubeObject, annotations_of, labels_of
from k8sbench.model.names import LABEL_DOMAIN, OWN_LABELS

CONFIG_MAP = "k8sbench-trainers-"
"""Prefix of the ConfigMap's name; the digest of the sources follows."""
DIGEST_ANNOTATION = f"{LABEL_DOMAIN}/trainers-digest"
"""Annotation with the digest, on a job and pods that mount the ConfigMap."""
LABELS = OWN_LABELS | {f"{LABEL_DOMAIN}/shared": "trainers"}
"""Labels of the ConfigMap."""
SELECTOR = f"{LABEL_DOMAIN}/shared=trainers"


class TrainerSources(msgspec.Struct, frozen=True, kw_only=True):
    """Source files by path, and their digest.

    A path is like ``k8sbench/trainers/parts/steps.py``.
    """

    files: dict[str, str]
    digest: str
    """SHA-256, hexadecimal, over the sorted paths and texts."""
    are_known: bool = True
    """False if the texts are not known: the files are those of another version."""

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> TrainerSources:
        """Sort ``files`` by path and compute their digest."""
        ordered = {path: files[path] for path in sorted(files)}
        return cls(files=ordered, digest=_digest(ordered))

    @property
    def config_map_name(self) -> str:
        """Name of the ConfigMap that holds them."""
        return CONFIG_MAP + self.digest

    @property
    def items(self) -> tuple[dict[str, str], ...]:
        """Items of the ConfigMap's volume: keys and paths in the pod."""
        return tuple({"key": config_key(path), "path": path} for path in self.files)


def config_map(sources: TrainerSources) -> dict[str, Any]:
    """Return the ConfigMap of the trainers' sources."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": sources.config_map_name, "labels": LABELS},
        # What a run was started with does not change under it.
        "immutable": True,
        "data": {config_key(path): text for path, text in sources.files.items()},
    }


def mounted(objects: Iterable[KubeObject]) -> TrainerSources | None:
    """Return the sources that a job mounts, without their texts.

    ``objects`` are the job, last, and its runtime. None if it mounts none.
    """
    *_, job = objects
    name = mounted_by(job)
    if name is None:
        return None
    items = _items({"objects": objects}, name)
    files = {item["path"]: "" for item in items}
    return TrainerSources(files=files, digest=name.removeprefix(CONFIG_MAP), are_known=False)


def _items(part: Any, name: str) -> Iterator[Mapping[str, str]]:
    """Yield the items that plain data mount of a ConfigMap."""
    if isinstance(part, list):
        for one in part:
            yield from _items(one, name)
    elif isinstance(part, dict):
        if part.get("name") == name:
            yield from part.get("items", ())
        for one in part.values():
            yield from _items(one, name)


def difference(found: KubeObject) -> str | None:
    """Tell why a ConfigMap cannot have the content that its name promises.

    None if it holds exactly that and is immutable.
    """
    if not LABELS.items() <= labels_of(found).items():
        return "it does not have k8sbench's labels"
    if found.get("immutable") is not True:
        return "it is not immutable"
    data: Mapping[str, str] = found.get("data") or {}
    paths = {key: key.removesuffix(".py").replace(".", "/") + ".py" for key in data}
    sources = TrainerSources.from_files({paths[key]: text for key, text in data.items()})
    if sources.config_map_name != found["metadata"]["name"]:
        return "its data are not the sources that its name stands for"
    return None


def mounted_by(job_or_pod: KubeObject) -> str | None:
    """Return the name of the ConfigMap that a job or pod mounts, or None."""
    digest = annotations_of(job_or_pod).get(DIGEST_ANNOTATION)
    return None if digest is None else CONFIG_MAP + digest


def config_key(path: str) -> str:
    """Return a source file's key; keys cannot hold slashes, ``path`` has one dot."""
    return path.replace("/", ".")


def _digest(files: Mapping[str, str]) -> str:
    # Lengths stand before the contents, so that no two sets of files read as one stream of bytes.
    digest = hashlib.sha256()
    for path, text in files.items():
        for part in (path.encode(), text.encode()):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return digest.hexdigest()

"""The trainers' source files as a value: what a ConfigMap carries into the pods."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec


class TrainerSources(msgspec.Struct, frozen=True, kw_only=True):
    """Source files by path (``k8sbench/trainers/parts/lines.py``), and the digest of them all."""

    files: dict[str, str]
    digest: str
    """SHA-256, hexadecimal, over the sorted paths and texts."""

    @classmethod
    def of(cls, files: Mapping[str, str]) -> TrainerSources:
        """Take ``files`` in the order of their paths and compute their digest."""
        ordered = {path: files[path] for path in sorted(files)}
        return cls(files=ordered, digest=_digest(ordered))


def _digest(files: Mapping[str, str]) -> str:
    # Lengths stand before the contents, so that no two sets of files read as one stream of bytes.
    digest = hashlib.sha256()
    for path, text in files.items():
        for part in (path.encode(), text.encode()):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return digest.hexdigest()

"""The trainers' source files as a value: what a ConfigMap carries into the pods."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

_IMPORT = re.compile(r"^ *from (k8sbench[\w.]*) import (\([^)]*\)|.+)", re.MULTILINE)


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

    def of_command(self, command: Iterable[str]) -> TrainerSources:
        """Keep the programs that a command names, as modules or as files, and what they import.

        All where it names none. The digest stays that of all: it names the trainers' version.
        """
        words = tuple(command)
        wanted = [
            path
            for path in self.files
            if any(word == _module(path) or word.endswith(f"/{path}") for word in words)
        ]
        if not wanted:
            return self
        kept: set[str] = set()
        while wanted:
            path = wanted.pop()
            if path in self.files and path not in kept:
                kept.add(path)
                wanted += _packages(path)
                wanted += _imported(self.files[path])
        files = {path: text for path, text in self.files.items() if path in kept}
        return TrainerSources(files=files, digest=self.digest)


def _digest(files: Mapping[str, str]) -> str:
    # Lengths stand before the contents, so that no two sets of files read as one stream of bytes.
    digest = hashlib.sha256()
    for path, text in files.items():
        for part in (path.encode(), text.encode()):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return digest.hexdigest()


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _packages(path: str) -> Iterator[str]:
    folders = path.split("/")[:-1]
    return ("/".join([*folders[:end], "__init__.py"]) for end in range(1, len(folders) + 1))


def _imported(text: str) -> Iterator[str]:
    """Yield the files of the modules that a text may import, wherever its imports stand."""
    for module, names in _IMPORT.findall(text):
        folder = module.replace(".", "/")
        yield f"{folder}.py"
        yield from (f"{folder}/{name}.py" for name in re.findall(r"\w+", names))

"""Benchmarks' files: the built-in ones, and the user's.

A built-in benchmark is ``k8sbench/catalog/benchmarks/NAME.yaml``. A path is a user's file and works
wherever a name does. Only the requested file is read: ``render`` has no time for the rest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

from k8sbench.catalog import spec_rules, strict_yaml
from k8sbench.catalog.planning import LoadedSpec
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model import log_format
from k8sbench.model.errors import NotFound, did_you_mean

BUILT_IN = "built-in"
SUFFIXES = (".yaml", ".yml")


def names(folder: Traversable | None = None) -> list[str]:
    """The built-in benchmarks' names, in order; reads no file."""
    return sorted(_files(folder))


def find(name_or_path: str, folder: Traversable | None = None) -> LoadedSpec:
    """Read one benchmark, by its name or from a user's file.

    Raises :class:`InputError` for a file that cannot be read or understood, :class:`NotFound` for
    a name that stands for nothing.
    """
    built_in = _files(folder)
    if is_path(name_or_path, built_in):
        return _loaded(strict_yaml.read_text(name_or_path), name_or_path, name_or_path)
    if name_or_path not in built_in:
        raise NotFound(
            f"There is no benchmark {name_or_path!r}.",
            did_you_mean(name_or_path, built_in)
            + f"Benchmarks: {', '.join(sorted(built_in))}; or the path of a YAML file of your own.",
        )
    file = built_in[name_or_path]
    where = f"{BUILT_IN} {file.name}"
    text = strict_yaml.decode(file.read_bytes(), file=where)
    return _loaded(text, where, BUILT_IN)


def copied(data: bytes, where: str) -> BenchmarkSpec:
    """Read the copy of a user's file that a run has."""
    return _loaded(strict_yaml.decode(data, file=where), where, where).spec


def given(text: str, where: str) -> LoadedSpec:
    """Read the text of a user's file; ``where`` names it in errors."""
    return _loaded(text, where, where)


def load_all(folder: Traversable | None = None) -> list[LoadedSpec]:
    """Read every built-in benchmark, in the order of their names."""
    return [find(name, folder) for name in names(folder)]


def is_path(text: str, built_in: dict[str, Traversable] | None = None) -> bool:
    """Return True for a file's path; a bare name is built-in first."""
    if os.sep in text or text.endswith(SUFFIXES):
        return True
    return text not in (_files(None) if built_in is None else built_in) and os.path.isfile(text)  # noqa: PTH113 - "" is no Path


def _files(folder: Traversable | None) -> dict[str, Traversable]:
    """The built-in files by name."""
    files = (folder or resources.files("k8sbench.catalog.benchmarks")).iterdir()
    return {file.name.rpartition(".")[0]: file for file in files if file.name.endswith(SUFFIXES)}


def _loaded(text: str, file: str, source: str) -> LoadedSpec:
    spec = strict_yaml.parse(text, BenchmarkSpec, file=file, rules=_problems)
    digest = hashlib.sha256(text.encode()).hexdigest()
    own = "" if source == BUILT_IN else text
    return LoadedSpec(spec=spec, digest=digest, source=source, text=own)


def _problems(spec: BenchmarkSpec) -> Iterator[spec_rules.Problem]:
    yield from spec_rules.problems(spec, log_format.FAMILY_NAMES)
    trainers = _trainers()
    for index, variant in enumerate(spec.variants):
        if variant.trainer is not None and variant.trainer not in trainers:
            near = did_you_mean(variant.trainer, trainers)
            text = f"is {variant.trainer!r}. {near}k8sbench has {', '.join(trainers)}"
            yield ("variants", index, "trainer"), text


def _trainers() -> list[str]:
    """Our trainers: the programs that stand directly in ``k8sbench/trainers``."""
    return sorted(
        file.name.removesuffix(".py").replace("_", "-")
        for file in resources.files("k8sbench.trainers").iterdir()
        if file.name.endswith(".py") and not file.name.startswith(("_", "paddle_launch"))
    )

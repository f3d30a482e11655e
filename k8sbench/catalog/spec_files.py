"""Benchmarks by name, or by the path of a user's file.

A built-in benchmark is ``k8sbench/catalog/benchmarks/NAME.yaml``. A path is a user's file and works
wherever a name does. Only the requested file is read: ``render`` has no time for the rest. Commands
that read none, such as ``submit --help``, import no YAML either.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from k8sbench.catalog.planning import LoadedSpec
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model import log_format
from k8sbench.model.errors import NotFound, did_you_mean

if TYPE_CHECKING:
    from k8sbench.catalog.spec_rules import Problem

BUILT_IN = "built-in"
EVERY = "all"
"""Stands for every built-in benchmark."""
SUFFIXES = (".yaml", ".yml")


def names(folder: Traversable | None = None) -> list[str]:
    """Return the names of the built-in benchmarks, in order; reads no file."""
    return sorted(_built_in_files(folder))


def load_all(folder: Traversable | None = None) -> list[LoadedSpec]:
    """Read every built-in benchmark, in the order of their names."""
    return [load_spec(name, folder) for name in names(folder)]


def load_specs(name_or_path: str) -> list[LoadedSpec]:
    """Read one benchmark by its name or path; ``all``: every built-in one."""
    return load_all() if name_or_path == EVERY else [load_spec(name_or_path)]


def load_spec(name_or_path: str, folder: Traversable | None = None) -> LoadedSpec:
    """Read one benchmark, by its name or from a user's file.

    Raises :class:`InputError` for a file that cannot be read or understood, :class:`NotFound` for
    a name that no benchmark has.
    """
    from k8sbench.catalog import strict_yaml

    built_in = _built_in_files(folder)
    if is_path(name_or_path, built_in):
        return load_text(strict_yaml.read_text(name_or_path), name_or_path)
    if name_or_path not in built_in:
        raise NotFound(
            f"There is no benchmark {name_or_path!r}.",
            did_you_mean(name_or_path, built_in)
            + f"Benchmarks: {', '.join(sorted(built_in))}; or the path of a YAML file of your own.",
        )
    file = built_in[name_or_path]
    where = f"{BUILT_IN} {file.name}"
    text = strict_yaml.decode(file.read_bytes(), file=where)
    return _parse_spec(text, where, BUILT_IN)


def load_copy(data: bytes, where: str) -> BenchmarkSpec:
    """Read the copy of a user's file that a run has."""
    from k8sbench.catalog import strict_yaml

    return load_text(strict_yaml.decode(data, file=where), where).spec


def load_text(text: str, where: str) -> LoadedSpec:
    """Read the text of a user's file; ``where`` names it in errors."""
    return _parse_spec(text, where, where)


def is_path(text: str, built_in: dict[str, Traversable] | None = None) -> bool:
    """Return True for a file's path; a bare name is built-in first."""
    if os.sep in text or text.endswith(SUFFIXES):
        return True
    names = _built_in_files(None) if built_in is None else built_in
    return text not in names and os.path.isfile(text)  # noqa: PTH113 - "" is no Path


def _built_in_files(folder: Traversable | None) -> dict[str, Traversable]:
    """Return the files of the built-in benchmarks by name."""
    files = (folder or resources.files("k8sbench.catalog.benchmarks")).iterdir()
    return {file.name.rpartition(".")[0]: file for file in files if file.name.endswith(SUFFIXES)}


def _parse_spec(text: str, file: str, source: str) -> LoadedSpec:
    from k8sbench.catalog import strict_yaml

    spec = strict_yaml.parse(text, BenchmarkSpec, file=file, rules=_find_problems)
    digest = hashlib.sha256(text.encode()).hexdigest()
    own = "" if source == BUILT_IN else text
    return LoadedSpec(spec=spec, digest=digest, source=source, text=own)


def _find_problems(spec: BenchmarkSpec) -> Iterator[Problem]:
    """Yield what one field alone cannot show: see :mod:`.spec_rules`."""
    from k8sbench.catalog import spec_rules

    yield from spec_rules.find_problems(spec, log_format.FAMILY_NAMES)
    trainers = _trainer_names()
    for index, variant in enumerate(spec.variants):
        if variant.trainer is not None and variant.trainer not in trainers:
            near = did_you_mean(variant.trainer, trainers)
            text = f"is {variant.trainer!r}. {near}k8sbench has {', '.join(trainers)}"
            yield ("variants", index, "trainer"), text


def _trainer_names() -> list[str]:
    """Return the names of our trainers: the programs directly in ``k8sbench/trainers``."""
    return sorted(
        file.name.removesuffix(".py").replace("_", "-")
        for file in resources.files("k8sbench.trainers").iterdir()
        if file.name.endswith(".py") and not file.name.startswith(("_", "paddle_launch"))
    )

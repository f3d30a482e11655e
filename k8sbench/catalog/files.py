"""Benchmarks, node pools and other files of the package or the user.

A built-in benchmark is ``k8sbench/catalog/benchmarks/NAME.yaml``; a path is a file of the user's and works
wherever a name does. Only the file that is asked for is read: ``render`` has no time for the rest.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from k8sbench.catalog import config_files, spec_rules, strict_yaml, yaml_text
from k8sbench.catalog.image import ImageTable
from k8sbench.catalog.planning import LoadedSpec
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model.errors import BenchError, InputError, NotFound, UsageError, did_you_mean
from k8sbench.model.pool import OF_PARTS, NodePool, PoolsFile, document_problems, gpu_remark
from k8sbench.model.pool import problems as pool_problems
from k8sbench.reader import families as log_families
from k8sbench.render.trainer_sources import TrainerSources

if TYPE_CHECKING:
    import jinja2

    from k8sbench.model.object_schema import ObjectSchema

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
    yield from spec_rules.problems(spec, log_families.NAMES)
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


# --- node pools: the first pools file that is found ----------------------------------------------
#
# The order: ``--pools FILE``, ``K8SBENCH_POOLS``, ``pools.yaml`` in the user's configuration folder
# (``$XDG_CONFIG_HOME/k8sbench``), the pools of the cluster's namespace, the built-in file. Files
# are not merged, so that one file holds a whole pool.

POOLS_VARIABLE = "K8SBENCH_POOLS"
PublishedPools = tuple[str, str]
"""Text of a cluster's pools file, and its name in messages."""


class LoadedPools(msgspec.Struct, frozen=True, kw_only=True):
    """The pools of one file."""

    pools: dict[str, NodePool]
    source: str
    """The path as given, the name of the cluster's, or ``built-in``."""
    default: str | None
    """Pool of runs without ``--node-pool``; None: the user has to choose."""
    text: str
    """The file as it is written."""
    is_users: bool = False
    """True for a file of the user's machine."""

    def pool(self, name: str | None = None) -> NodePool:
        """Return the named pool or the default; an error lists the pools."""
        wanted = self.default if name is None else name
        known = ", ".join(self.pools)
        if wanted is None:
            raise UsageError(
                f"{self.source} has no default node pool.",
                f"Choose one with --node-pool: {known}.",
            )
        if wanted not in self.pools:
            raise NotFound(
                f"There is no node pool {wanted!r} in {self.source}.",
                did_you_mean(wanted, self.pools) + f"Pools: {known}.",
            )
        return self.pools[wanted]


def load_pools(
    file: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    published: Callable[[], PublishedPools | None] | None = None,
) -> LoadedPools:
    """Read the first pools file; ``file`` is the value of ``--pools``.

    ``published`` is asked for the cluster's where the user has none.
    """
    env = os.environ if environ is None else environ
    own = file or env.get(POOLS_VARIABLE) or config_files.find_user_file(env, "pools.yaml")
    if own:
        path = str(own)
        text = strict_yaml.read_text(path)
        if not text.strip():
            raise InputError(
                "is empty, as a 'k8sbench pools --from-cluster > FILE' that fails leaves it.",
                "Write it again, and see that command's error.",
                file=path,
            )
        return msgspec.structs.replace(_loaded_pools(text, path, path), is_users=True)
    pools_file = published() if published else None
    if pools_file is not None:
        text, source = pools_file
        return _loaded_pools(text, source, source)
    text = resources.files("k8sbench.catalog").joinpath("pools.yaml").read_text(encoding="utf-8")
    return _loaded_pools(text, "built-in pools.yaml", "built-in")


def given_pool(value: Mapping[str, Any], where: str) -> NodePool:
    """Check a pool of another source than a file; ``where`` names it in errors."""
    return strict_yaml.checked(value, NodePool, where=where, rules=pool_problems)


def _loaded_pools(text: str, file: str, source: str) -> LoadedPools:
    document = strict_yaml.parse(text, PoolsFile, file=file, rules=document_problems)
    first = document.pools[0]
    is_whole = gpu_remark(first.gpu_resource, first.selector) not in OF_PARTS
    alone = first.name if len(document.pools) == 1 and is_whole else None
    return LoadedPools(
        pools={pool.name: pool for pool in document.pools},
        source=source,
        default=document.default or alone,
        text=text,
    )


# --- templates, trainers' sources, images --------------------------------------------------------
#
# The templates are in the package once installed, and at the top of the source tree.

PACKAGE = Path(__file__).parents[1]
SUFFIX = ".j2"
IMAGES = "images.yaml"
CRD = "benchmarks.k8sbench.io.yaml"


@functools.cache
def load_templates() -> jinja2.Environment:
    """Read all templates, ready to be rendered; each is compiled once."""
    # Completion reads the catalog, and has no time for Jinja2.
    from k8sbench.render import manifest

    return manifest.environment(template_texts())


def template_texts() -> dict[str, str]:
    """Read the texts of all templates, by name (``job.yaml.j2``)."""
    for folder in (PACKAGE / "_manifests", PACKAGE.parent / "manifests"):
        if files := sorted(folder.glob(f"*{SUFFIX}")):
            return {file.name: file.read_text(encoding="utf-8") for file in files}
    raise BenchError(
        "This installation of k8sbench has no templates for manifests.", "Install it again."
    )


def crd() -> str:
    """Read the text of the CRD of ``Benchmark``, which the chart installs, too."""
    for folder in (PACKAGE / "_crds", PACKAGE.parent / "charts" / "crds"):
        if (file := folder / CRD).is_file():
            return file.read_text(encoding="utf-8")
    raise BenchError("This installation of k8sbench has no CRD.", "Install it again.")


@functools.cache
def object_schema() -> ObjectSchema:
    """Return the schema of ``Benchmark`` objects that the CRD states."""
    from k8sbench.model.object_schema import ObjectSchema

    return ObjectSchema(yaml_text.load(crd()))


def trainer_sources() -> TrainerSources:
    """Read all source files under ``k8sbench/trainers``.

    A plan's digest of them identifies the trainers' version, whatever the framework. The package's
    own file is empty there, because a version alone does not change the trainers.
    """
    texts = {
        file.relative_to(PACKAGE.parent).as_posix(): file.read_text(encoding="utf-8")
        for file in PACKAGE.glob("trainers/**/*.py")
    }
    return TrainerSources.from_files({f"{PACKAGE.name}/__init__.py": "", **texts})


def image_table() -> ImageTable:
    """Read the table of images."""
    file = f"built-in {IMAGES}"
    data = resources.files("k8sbench.catalog").joinpath(IMAGES).read_bytes()
    return strict_yaml.parse(strict_yaml.decode(data, file=file), ImageTable, file=file)

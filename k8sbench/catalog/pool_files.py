"""Node pools, read from the first pools file that exists.

The order: ``--pools FILE``, ``K8SBENCH_POOLS``, ``pools.yaml`` in the user's configuration folder
(``$XDG_CONFIG_HOME/k8sbench``), the pools of the cluster's namespace, the built-in file. Files
are not merged, so that one file holds a whole pool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import msgspec

from k8sbench.catalog import config_files, strict_yaml
from k8sbench.model.errors import InputError, NotFound, UsageError, did_you_mean
from k8sbench.model.pool import (
    OF_PARTS,
    NodePool,
    PoolsFile,
    document_problems,
    gpu_remark,
    pool_problems,
)

POOLS_VARIABLE = "K8SBENCH_POOLS"
PublishedPools = tuple[str, str]
"""Text of a cluster's pools file, and its name in messages."""


class LoadedPools(msgspec.Struct, frozen=True, kw_only=True):
    """The pools of one file."""

    pools: dict[str, NodePool]
    source: str
    """Path as given, name of the cluster's ConfigMap, or ``built-in``."""
    default: str | None
    """Pool of runs without ``--node-pool``; None: the user has to choose."""
    text: str
    """The file as it is written."""
    is_users: bool = False
    """True for a file of the user's machine."""

    def pool(self, name: str | None = None) -> NodePool:
        """Return the named pool or the default; an error lists the pools."""
        pool_name = self.default if name is None else name
        names = ", ".join(self.pools)
        if pool_name is None:
            raise UsageError(
                f"{self.source} has no default node pool.",
                f"Choose one with --node-pool: {names}.",
            )
        if pool_name not in self.pools:
            raise NotFound(
                f"There is no node pool {pool_name!r} in {self.source}.",
                did_you_mean(pool_name, self.pools) + f"Pools: {names}.",
            )
        return self.pools[pool_name]


def load_pools(
    file: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    published: Callable[[], PublishedPools | None] | None = None,
) -> LoadedPools:
    """Read the first pools file; ``file`` is the value of ``--pools``.

    ``published`` reads the cluster's pools; it is called if the user has no file.
    """
    env = os.environ if environ is None else environ
    users_file = file or env.get(POOLS_VARIABLE) or config_files.find_user_file(env, "pools.yaml")
    if users_file:
        path = str(users_file)
        text = strict_yaml.read_text(path)
        if not text.strip():
            raise InputError(
                "is empty, as a 'k8sbench pools --from-cluster > FILE' that fails leaves it.",
                "Write it again, and see that command's error.",
                file=path,
            )
        return msgspec.structs.replace(_parse_pools(text, path, path), is_users=True)
    pools_file = published() if published else None
    if pools_file is not None:
        text, source = pools_file
        return _parse_pools(text, source, source)
    text = resources.files("k8sbench.catalog").joinpath("pools.yaml").read_text(encoding="utf-8")
    return _parse_pools(text, "built-in pools.yaml", "built-in")


def check_pool(value: Mapping[str, Any], where: str) -> NodePool:
    """Read a pool that is not from a file; ``where`` names its source in errors."""
    return strict_yaml.check_value(value, NodePool, where=where, rules=pool_problems)


def _parse_pools(text: str, file: str, source: str) -> LoadedPools:
    document = strict_yaml.parse(text, PoolsFile, file=file, rules=document_problems)
    first = document.pools[0]
    is_whole = gpu_remark(first.gpu_resource, first.selector) not in OF_PARTS
    only_pool = first.name if len(document.pools) == 1 and is_whole else None
    return LoadedPools(
        pools={pool.name: pool for pool in document.pools},
        source=source,
        default=document.default or only_pool,
        text=text,
    )

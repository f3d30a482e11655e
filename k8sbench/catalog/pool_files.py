"""Pools' files: the first one that is found counts.

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
from k8sbench.model.pool import OF_PARTS, NodePool, PoolsFile, document_problems, gpu_remark
from k8sbench.model.pool import problems as pool_problems

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

"""``pools``: the pools of a file or of the cluster, and those proposed for its nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from k8sbench import limits
from k8sbench.app import connections
from k8sbench.model.errors import NotFound, Unreachable, list_few
from k8sbench.model.plain_text import counted
from k8sbench.model.request import ClusterAccess

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.catalog.pool_files import LoadedPools, PublishedPools


def known_pools(file: str | None, access: ClusterAccess) -> tuple[LoadedPools, str | None]:
    """Return the pools for ``submit``, and why the cluster's are missing.

    The reason is None if they were read, if there is no cluster, or if a file takes precedence. A
    named cluster must answer; raises :class:`BenchError`.
    """
    if not connections.configured(access):
        from k8sbench.catalog import pool_files

        return pool_files.load_pools(file), None
    return read_pools(
        file,
        lambda: contextlib.closing(connections.connect(access)),
        seconds=limits.now.api_answer,
        is_needed=access.is_given,
    )


def read_pools(
    file: str | None,
    connected: Callable[[], contextlib.AbstractContextManager[Api]],
    *,
    seconds: float,
    is_needed: bool,
) -> tuple[LoadedPools, str | None]:
    """Return the pools, and why those that the chart publishes are missing.

    Unless the cluster ``is_needed`` it need not answer.
    """
    from k8sbench.adapters.kubernetes import listing
    from k8sbench.catalog import pool_files

    unread = []

    def published() -> PublishedPools | None:
        try:
            with connected() as api:
                api.check_answers(seconds)
                return listing.published_pools(api)
        except Unreachable as error:
            if is_needed:
                raise
            unread.append(error.message)
            return None

    return pool_files.load_pools(file, published=published), unread[0] if unread else None


def proposed_pools(access: ClusterAccess) -> str:
    """Write a pools file for the nodes of a cluster.

    Raises :class:`Unreachable` where they may not be listed, :class:`NotFound` without any.
    """
    from k8sbench.adapters.kubernetes import listing
    from k8sbench.diagnose.preflight.nodes import left_out, proposed

    with contextlib.closing(connections.connect(access)) as api:
        nodes = listing.nodes(api, {})
    text = proposed(nodes)
    if not text and (away := left_out(nodes)):
        raise NotFound(
            f"No node with GPUs takes pods: {list_few(away)}.",
            "See why: kubectl describe nodes.",
        )
    if not text:
        raise NotFound(
            f"None of {counted(len(nodes), 'node')} offers GPUs.",
            "See whether the device plugin runs: kubectl describe nodes.",
        )
    return text

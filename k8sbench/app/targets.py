"""Target of a run, this machine or a pool, with the reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from k8sbench import limits
from k8sbench.app import connections
from k8sbench.model import kinds
from k8sbench.model.choices import Site
from k8sbench.model.errors import NotFound, Unreachable, UsageError, few
from k8sbench.model.operators import OPERATORS
from k8sbench.model.request import ClusterAccess, SubmitRequest

if TYPE_CHECKING:
    from k8sbench.adapters.files.pools import LoadedPools, PublishedPools
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.model.pool import NodePool

SILENT_SECONDS = 2.0
"""Timeout of a cluster whose answer is not needed."""


class RunTarget:
    """Target machine or pool, with a one-line reason."""

    def __init__(
        self, site: Site, why: str, api: Api | None = None, *, has_own_pool: bool = False
    ) -> None:
        self.site, self.why, self.api = site, why, api
        """``api``: the connection to the cluster, if there is one."""
        self.has_own_pool = has_own_pool
        """True if the pool is from a file that no operator reads."""


def for_submit(request: SubmitRequest, *, may_be_local: bool = True) -> RunTarget:
    """Choose where ``submit`` runs; a cluster is asked for its node pools alone.

    Unless it ``may_be_local`` no error advises this machine.
    One that does not answer is not waited for in a dry run of the client, and need not.
    ``--backend auto`` takes the cluster that is configured, and this machine only where there is
    none: a run that was meant for a cluster is not started here. Naming a cluster is asking for it.
    Options that only a cluster has are rejected for this machine.
    """
    if request.backend == "local":
        return _here(None, request)
    if not request.names_cluster and not connections.configured(request.access):
        reason = "no cluster is configured: there is no ~/.kube/config, and this is not a pod"
        return _here(reason, request)
    from k8sbench.adapters.kubernetes.client import connection

    try:
        return on_cluster(connections.connect(request.access), request)
    except connection.NoCluster as error:
        if request.names_cluster:
            raise
        return _here(f"{error.message[0].lower()}{error.message[1:].rstrip('.')}", request)
    except Unreachable as error:
        if request.names_cluster or not may_be_local:
            raise
        raise _or_here(error) from error


def check_ready(target: RunTarget, *, asked: bool) -> None:
    """Check that a cluster answers, and takes our credentials, before anything is recorded.

    Raises :class:`Unreachable`; ``asked`` for a cluster that was named. Creating is tried for
    a minute while the server does not answer, which is for one that was there a moment ago.
    """
    if target.api is not None:
        try:
            connections.check_answers(target.api, limits.now.api_answer)
        except Unreachable as error:
            raise error if asked else _or_here(error) from error


def _or_here(error: Unreachable) -> Unreachable:
    """Add ``--backend local`` as a way out to a cluster error."""
    # What a plugin gives as its hint need not be a sentence.
    action = f"{error.action.rstrip('.')}; or run on this machine: --backend local"
    with_way = Unreachable(error.message, action.lstrip())
    with_way.cause_id = error.cause_id
    return with_way


def for_render(request: SubmitRequest) -> Site:
    """Choose what ``render`` renders for: a pool of a cluster, unless ``--backend local``."""
    if request.backend == "local":
        return _here(None, request).site
    from k8sbench.adapters.files import pools

    return _site(pools.load(request.pools_file), request)


def _here(reason: str | None, request: SubmitRequest) -> RunTarget:
    """Choose this machine; reject the first cluster-only option given."""
    from k8sbench.adapters.local import cluster

    site, devices = cluster.site()
    target = RunTarget(site, f"backend local: {devices}" + (f"; {reason}" if reason else ""))
    option = next(request.options_of_clusters(), None)
    if option is not None:
        raise UsageError(
            f"{option} is for jobs on a cluster, and this run is local"
            f" ({target.why.removeprefix('backend local: ')}).",
            f"Leave out {option}, or name a cluster with --backend kubernetes.",
        )
    return target


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
            f"No node with GPUs takes pods: {few(away)}.",
            "See why: kubectl describe nodes.",
        )
    if not text:
        raise NotFound(
            f"None of {len(nodes)} nodes offers GPUs.",
            "See whether the device plugin runs: kubectl describe nodes.",
        )
    return text


def known_pools(file: str | None, access: ClusterAccess) -> tuple[LoadedPools, str | None]:
    """Return the pools for ``submit``, and why the cluster's are missing.

    The reason is None if they were read, if there is no cluster, or if a file takes precedence. A
    named cluster must answer; raises :class:`BenchError`.
    """
    if not connections.configured(access):
        from k8sbench.adapters.files import pools

        return pools.load(file), None
    return _pools(
        file,
        lambda: contextlib.closing(connections.connect(access)),
        seconds=limits.now.api_answer,
        is_needed=access.named,
    )


def _pools(
    file: str | None,
    connected: Callable[[], contextlib.AbstractContextManager[Api]],
    *,
    seconds: float,
    is_needed: bool,
) -> tuple[LoadedPools, str | None]:
    """Return the pools, and why those that the chart publishes are missing.

    Unless the cluster ``is_needed`` it need not answer.
    """
    from k8sbench.adapters.files import pools
    from k8sbench.adapters.kubernetes import listing

    unread = []

    def published() -> PublishedPools | None:
        try:
            with connected() as api:
                connections.check_answers(api, seconds)
                return listing.published_pools(api)
        except Unreachable as error:
            if is_needed:
                raise
            unread.append(error.message)
            return None

    return pools.load(file, published=published), unread[0] if unread else None


def on_cluster(api: Api, request: SubmitRequest, pool: NodePool | None = None) -> RunTarget:
    """Choose a pool, unless given, and the kind of jobs.

    The kind is explained if the cluster serves several, or a single one other than the first.
    """
    from k8sbench.adapters.kubernetes import listing

    offline = request.dry_run == "client"
    loaded, unread = _pools(
        request.pools_file,
        lambda: contextlib.nullcontext(api),
        seconds=SILENT_SECONDS if offline else limits.now.api_answer,
        is_needed=not offline,
    )
    site = _site(loaded, request)
    if pool is not None:
        site = msgspec.structs.replace(site, pool=pool)
    why = f"backend kubernetes: {api.why}, namespace {api.place.namespace}"
    why += f"; pools from {loaded.source}"
    if unread is not None:
        why += f" (those of the cluster were not read: {unread.rstrip('.')})"
    words = [] if offline or request.job_kind != "auto" else listing.job_kinds(api)
    if words not in ([], ["v1"]):
        site = msgspec.structs.replace(site, job_kind=kinds.WORDS[words[0]])
        others = (f", {OPERATORS[word].name} with --job-kind {word}" for word in words[1:])
        why += f"; jobs of {OPERATORS[words[0]].name}{''.join(others)}"
    if not api.is_verified:
        why += "; the server's certificate is not checked (insecure-skip-tls-verify)"
    return RunTarget(site, why, api, has_own_pool=loaded.is_users)


def _site(loaded: LoadedPools, request: SubmitRequest) -> Site:
    from k8sbench.adapters.files import packaged

    return Site(
        backend="kubernetes",
        pool=loaded.pool(request.node_pool),
        images=packaged.image_table(),
        job_kind=kinds.WORDS.get(request.job_kind),
    )

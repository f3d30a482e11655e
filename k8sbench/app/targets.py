"""Target of a run, this machine or a pool, with the reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import connections
from k8sbench.model import kinds
from k8sbench.model.choices import Site
from k8sbench.model.errors import NotFound, Unreachable, UsageError
from k8sbench.model.operators import OPERATORS
from k8sbench.model.pool import CPU_POOL
from k8sbench.model.request import ClusterAccess, SubmitRequest

if TYPE_CHECKING:
    from k8sbench.adapters.files.pools import LoadedPools, PublishedPools
    from k8sbench.adapters.kubernetes.client.api import Api

SILENT_SECONDS = 2.0
"""Timeout of a cluster whose answer is not needed."""


class RunTarget:
    """Target machine or pool, with a one-line reason."""

    def __init__(self, site: Site, why: str, api: Api | None = None) -> None:
        self.site, self.why, self.api = site, why, api
        """``api``: the connection to the cluster, if there is one."""


def for_submit(
    request: SubmitRequest, *, offline: bool = False, may_be_local: bool = True
) -> RunTarget:
    """Choose where ``submit`` runs; a cluster is asked for its node pools alone.

    Unless it ``may_be_local`` no error advises this machine.
    With ``offline`` one that does not answer is not waited for, and need not.
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
        return on_cluster(connections.connect(request.access), request, offline=offline)
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
            connections.check_answers(target.api, connections.ANSWER_SECONDS)
        except Unreachable as error:
            raise error if asked else _or_here(error) from error


def _or_here(error: Unreachable) -> Unreachable:
    """Add ``--backend local`` as a way out to a cluster error."""
    # What a plugin gives as its hint need not be a sentence.
    action = f"{error.action.rstrip('.')}; or run on this machine: --backend local"
    with_way = Unreachable(error.message, action.lstrip())
    with_way.cause_id = error.cause_id
    return with_way


def for_render(request: SubmitRequest) -> RunTarget:
    """Choose what ``render`` renders for: a pool of a cluster, unless ``--backend local``."""
    if request.backend == "local":
        return _here(None, request)
    site, source = _pool_site(request)
    site = msgspec.structs.replace(site, job_kind=kinds.WORDS.get(request.job_kind))
    return RunTarget(site, f"pool {site.pool.name} from {source}")


def _here(reason: str | None, request: SubmitRequest) -> RunTarget:
    """Choose this machine; reject the first cluster-only option given."""
    target = local(reason)
    option = next(request.options_of_clusters(), None)
    if option is not None:
        raise UsageError(
            f"{option} is for jobs on a cluster, and this run is local"
            f" ({target.why.removeprefix('backend local: ')}).",
            f"Leave out {option}, or name a cluster with --backend kubernetes.",
        )
    return target


def local(reason: str | None) -> RunTarget:
    """Describe this machine: its GPUs as a pool of one node, or none."""
    from k8sbench.adapters.local import gpus
    from k8sbench.adapters.local.cluster import machine_cores

    here = gpus.inventory()
    pool = CPU_POOL
    if here.gpus:
        pool = msgspec.structs.replace(
            CPU_POOL, gpus_per_node=len(here.gpus), gpu_model=here.gpus[0].model
        )
    devices = f"{len(here.gpus)} × {here.gpus[0].model}" if here.gpus else f"no GPU ({here.reason})"
    why = f"backend local: {devices}" + (f"; {reason}" if reason else "")
    return RunTarget(Site(backend="local", pool=pool, cores=machine_cores()), why)


def proposed_pools(access: ClusterAccess) -> str:
    """Write a pools file for the nodes of a cluster.

    Raises :class:`Unreachable` where they may not be listed, :class:`NotFound` where none has GPUs.
    """
    from k8sbench.adapters.kubernetes import kinds as objects
    from k8sbench.adapters.kubernetes.client.faults import ApiFault
    from k8sbench.diagnose.preflight.nodes import proposed

    with contextlib.closing(connections.connect(access)) as api:
        try:
            nodes, _ = api.list(objects.path("Node"))
        except ApiFault as fault:
            raise api.explained(fault, "the nodes be listed") from fault
    text = proposed(nodes)
    if not text:
        raise NotFound(
            f"None of {len(nodes)} nodes offers GPUs.",
            "See whether the device plugin runs: kubectl describe nodes.",
        )
    return text


def cluster_pools(api: Api, seconds: float) -> PublishedPools | None:
    """Ask a cluster for the pools file that the chart publishes; raises :class:`BenchError`."""
    from k8sbench.adapters.kubernetes import listing

    connections.check_answers(api, seconds)
    return listing.published_pools(api)


def known_pools(file: str | None, access: ClusterAccess) -> tuple[LoadedPools, str | None]:
    """Return the pools for ``submit``, and why the cluster's are missing.

    The reason is None if they were read, if there is no cluster, or if a file takes precedence. A
    named cluster must answer; raises :class:`BenchError`.
    """
    from k8sbench.adapters.files import pools

    unread = []

    def published() -> PublishedPools | None:
        if not connections.configured(access):
            return None
        try:
            with contextlib.closing(connections.connect(access)) as api:
                return cluster_pools(api, connections.ANSWER_SECONDS)
        except Unreachable as error:
            if access.named:
                raise
            unread.append(error.message)
            return None

    return pools.load(file, published=published), unread[0] if unread else None


def on_cluster(api: Api, request: SubmitRequest, *, offline: bool = False) -> RunTarget:
    """Choose a pool of a cluster, and the kind of the jobs."""
    unread = []

    def published() -> PublishedPools | None:
        try:
            return cluster_pools(api, SILENT_SECONDS if offline else connections.ANSWER_SECONDS)
        except Unreachable as error:
            if not offline:
                raise
            unread.append(error)
            return None

    site, source = _pool_site(request, published)
    kind, jobs = _job_kind(api, request, offline=offline)
    site = msgspec.structs.replace(site, job_kind=kind)
    if unread:
        source += f" (those of the cluster were not read: {unread[0].message.rstrip('.')})"
    why = f"backend kubernetes: {api.why}, namespace {api.place.namespace}; pools from {source}"
    why += jobs
    if not api.is_verified:
        why += "; the server's certificate is not checked (insecure-skip-tls-verify)"
    return RunTarget(site, why, api)


def _job_kind(api: Api, request: SubmitRequest, *, offline: bool) -> tuple[str | None, str]:
    """Choose the job kind, and explain a non-obvious choice.

    It is explained if the cluster serves several kinds, or a single one other than the first.
    """
    from k8sbench.adapters.kubernetes.client.faults import ApiFault

    if request.job_kind != "auto" or offline:
        return kinds.WORDS.get(request.job_kind), ""
    try:
        groups = {group["name"] for group in api.get("/apis")["groups"]}
    except (ApiFault, KeyError, TypeError):
        return None, ""  # what is wrong is said of the creation
    words = kinds.served(groups)
    if words in ([], ["v1"]):
        return None, ""
    others = (f", {OPERATORS[word].name} with --job-kind {word}" for word in words[1:])
    return kinds.WORDS[words[0]], f"; jobs of {OPERATORS[words[0]].name}{''.join(others)}"


def _pool_site(
    request: SubmitRequest, published: Callable[[], PublishedPools | None] | None = None
) -> tuple[Site, str]:
    from k8sbench.adapters.files import packaged, pools

    loaded = pools.load(request.pools_file, published=published)
    pool = loaded.pool(request.node_pool)
    return Site(backend="kubernetes", pool=pool, images=packaged.image_table()), loaded.source

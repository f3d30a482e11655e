"""Where a run takes place: this machine or a pool of a cluster, and how that was decided."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from k8sbench.app import connections
from k8sbench.app.connections import ClusterAccess
from k8sbench.model.choices import Site
from k8sbench.model.errors import Unreachable, UsageError
from k8sbench.model.pool import CPU_POOL

if TYPE_CHECKING:
    from k8sbench.adapters.files.pools import LoadedPools, Published
    from k8sbench.adapters.kubernetes.client.api import Api

ANSWER_SECONDS = 10.0
"""For a cluster to answer, and to ask again while it does not."""


class TargetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was asked to take place."""

    backend: Literal["auto", "kubernetes", "local"] = "auto"
    node_pool: str | None = None
    pools_file: str | None = None
    pull_secrets: tuple[str, ...] = ()
    """Names of image pull secrets, instead of the pool's."""


class Target:
    """This machine or a pool of a cluster, and in one line which and why."""

    def __init__(self, site: Site, why: str, api: Api | None = None) -> None:
        self.site, self.why, self.api = site, why, api
        """``api``: the connection to the cluster, if there is one."""


def for_submit(
    options: TargetOptions,
    access: ClusterAccess,
    *,
    offline: bool = False,
    may_be_local: bool = True,
) -> Target:
    """Choose where ``submit`` runs; a cluster is asked for its node pools alone.

    Unless it ``may_be_local`` no error advises this machine.
    With ``offline`` one that does not answer is not waited for, and need not.
    ``--backend auto`` takes the cluster that is configured, and this machine only where there is
    none: a run that was meant for a cluster is not started here. Naming a cluster is asking for it.
    Options that only a cluster has are rejected for this machine.
    """
    if options.backend == "local":
        return _here(None, options, access)
    asked = options.backend == "kubernetes" or access.named
    if not asked and not connections.configured(access):
        reason = "no cluster is configured: there is no ~/.kube/config, and this is not a pod"
        return _here(reason, options, access)
    from k8sbench.adapters.kubernetes.client import connection

    try:
        return _on(connections.connect(access), options, offline=offline)
    except connection.NoCluster as wrong:
        if asked:
            raise
        reason = f"{wrong.message[0].lower()}{wrong.message[1:].rstrip('.')}"
        return _here(reason, options, access)
    except Unreachable as wrong:
        if asked or not may_be_local:
            raise
        raise _or_here(wrong) from wrong


def check_answers(api: Api, *, asked: bool) -> None:
    """Check that a cluster answers, and takes our credentials, before anything is recorded.

    Raises :class:`Unreachable`; ``asked`` for a cluster that was named. Creating is tried for
    a minute while the server does not answer, which is for one that was there a moment ago.
    """
    from k8sbench.adapters.kubernetes.client import connection

    try:
        connection.check_answers(api, seconds=ANSWER_SECONDS, retry_s=ANSWER_SECONDS)
    except Unreachable as wrong:
        if asked:
            raise
        raise _or_here(wrong) from wrong


def _or_here(wrong: Unreachable) -> Unreachable:
    """Add the way to run on this machine to the error of a cluster that cannot be used."""
    # What a plugin gives as its hint need not be a sentence.
    way = f"{wrong.action.rstrip('.')}; or run on this machine: --backend local"
    found = Unreachable(wrong.message, way.lstrip())
    found.cause_id = wrong.cause_id
    return found


def for_render(options: TargetOptions) -> Target:
    """Choose what ``render`` renders for: a pool of a cluster, unless ``--backend local``."""
    if options.backend == "local":
        return _here(None, options, ClusterAccess())
    site, source = _pool_site(options)
    return Target(site, f"pool {site.pool.name} from {source}")


def refuse_here(given: Mapping[str, object], target: Target) -> None:
    """Reject the first option that was given of those that this machine does not have."""
    option = next((name for name, value in given.items() if value), None)
    if option is not None:
        raise UsageError(
            f"{option} is for jobs on a cluster, and this run is local"
            f" ({target.why.removeprefix('backend local: ')}).",
            f"Leave out {option}, or name a cluster with --backend kubernetes.",
        )


def _here(reason: str | None, options: TargetOptions, access: ClusterAccess) -> Target:
    target = local(reason)
    given = {
        "-n": access.namespace,
        "--context": access.context,
        "--kubeconfig": access.kubeconfig,
        "--node-pool": options.node_pool,
        "--pools": options.pools_file,
        "--image-pull-secret": options.pull_secrets,
    }
    refuse_here(given, target)
    return target


def local(reason: str | None) -> Target:
    """Describe this machine: its GPUs as a pool of one node, or none."""
    from k8sbench.adapters.files import image_table
    from k8sbench.adapters.local import gpus

    here = gpus.inventory()
    pool = CPU_POOL
    if here.gpus:
        pool = msgspec.structs.replace(
            CPU_POOL, gpus_per_node=len(here.gpus), gpu_model=here.gpus[0].model
        )
    found = f"{len(here.gpus)} × {here.gpus[0].model}" if here.gpus else f"no GPU ({here.reason})"
    why = f"backend local: {found}" + (f"; {reason}" if reason else "")
    site = Site(backend="local", pool=pool, cores=len(os.sched_getaffinity(0)))
    if here.gpus:
        site = msgspec.structs.replace(
            site, images=image_table.load(), installed=image_table.installed()
        )
    return Target(site, why)


def cluster_pools(api: Api) -> Published | None:
    """Ask a cluster for the pools file that the chart publishes; raises :class:`BenchError`."""
    from k8sbench.adapters.kubernetes import published

    check_answers(api, asked=True)
    return published.pools(api)


def known_pools(file: str | None, access: ClusterAccess) -> tuple[LoadedPools, str | None]:
    """Return the pools that ``submit`` chooses from, and why those of the cluster were not read.

    None: they were, or there is no cluster, or a file comes first. A cluster that was named must
    answer; raises :class:`BenchError`.
    """
    from k8sbench.adapters.files import pools

    unread = []

    def published() -> Published | None:
        if not connections.configured(access):
            return None
        try:
            with contextlib.closing(connections.connect(access)) as api:
                return cluster_pools(api)
        except Unreachable as wrong:
            if access.named:
                raise
            unread.append(wrong.message)
            return None

    return pools.load(file, published=published), unread[0] if unread else None


def _on(api: Api, options: TargetOptions, *, offline: bool) -> Target:
    unread = []

    def published() -> Published | None:
        if offline and (wrong := connections.silence(api, connections.SILENT_SECONDS)):
            unread.append(wrong)
            return None
        return cluster_pools(api)

    site, source = _pool_site(options, published)
    if unread:
        source += f" (those of the cluster were not read: {unread[0].message.rstrip('.')})"
    why = f"backend kubernetes: {api.why}, namespace {api.place.namespace}; pools from {source}"
    return Target(site, why, api)


def _pool_site(
    options: TargetOptions, published: Callable[[], Published | None] | None = None
) -> tuple[Site, str]:
    from k8sbench.adapters.files import image_table, pools

    found = pools.load(options.pools_file, published=published)
    pool = found.pool(options.node_pool)
    if options.pull_secrets:
        pool = msgspec.structs.replace(pool, image_pull_secrets=options.pull_secrets)
    return Site(backend="kubernetes", pool=pool, images=image_table.load()), found.source

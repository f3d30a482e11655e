"""The target of runs, with the reason: this machine, or a pool of a cluster."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from k8sbench import limits
from k8sbench.app import connections, pools
from k8sbench.catalog.plan_choices import Site
from k8sbench.model import kinds
from k8sbench.model.errors import Unreachable, UsageError
from k8sbench.model.operators import OPERATORS
from k8sbench.model.request import SubmitRequest

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.catalog.pool_files import LoadedPools
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


def choose_target(
    request: SubmitRequest, *, may_be_local: bool = True, pool: NodePool | None = None
) -> RunTarget:
    """Choose where ``submit`` runs; a cluster must answer, and take our credentials.

    ``pool`` is used on a cluster in place of a known one. Unless it ``may_be_local`` no error
    advises this machine. A dry run of the client does not wait for a cluster that does not answer.
    Creating is tried for a minute while the server does not answer, which is for one that was there
    a moment ago.
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
        api = connections.connect(request.access)
        target = target_on_cluster(api, request, pool)
        if request.dry_run is None:
            api.check_answers(limits.now.api_answer)
    except connection.NoCluster as error:
        if request.names_cluster:
            raise
        return _here(f"{error.message[0].lower()}{error.message[1:].rstrip('.')}", request)
    except Unreachable as error:
        if request.names_cluster or not may_be_local:
            raise
        # What a plugin gives as its hint need not be a sentence.
        action = f"{error.action.rstrip('.')}; or run on this machine: --backend local"
        error.action = action.lstrip()
        raise
    return target


def choose_site(request: SubmitRequest) -> Site:
    """Choose what ``render`` renders for: a pool of a cluster, unless ``--backend local``."""
    if request.backend == "local":
        return _here(None, request).site
    from k8sbench.catalog import pool_files

    return _site(pool_files.load_pools(request.pools_file), request)


def target_on_cluster(api: Api, request: SubmitRequest, pool: NodePool | None = None) -> RunTarget:
    """Choose a pool, unless given, and the kind of jobs.

    The kind is explained if the cluster serves several, or a single one other than the first.
    """
    from k8sbench.adapters.kubernetes import listing

    offline = request.dry_run is not None
    loaded, unread = pools.read_pools(
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


def _site(loaded: LoadedPools, request: SubmitRequest) -> Site:
    from k8sbench.catalog import packaged

    return Site(
        backend="kubernetes",
        pool=loaded.pool(request.node_pool),
        images=packaged.read_image_table(),
        job_kind=kinds.WORDS.get(request.job_kind),
    )

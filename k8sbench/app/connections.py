"""Connections to clusters: the named one, the current one, or a run's."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from k8sbench.lifecycle import collecting
from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.ownership import COLLECTOR
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Location, Run

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
    from k8sbench.adapters.store.sql_store import SqlStore

GLIMPSE_SECONDS = 5.0
"""Timeout of the first answer to a single query."""
LOOK_SECONDS = 10.0
"""Timeout of each further answer to a single query."""
SILENT_SECONDS = 2.0
"""Seconds to wait for a first answer before noting the wait."""
ANSWER_SECONDS = 8.0
"""Total timeout of a first answer, so that commands fail early."""
PASSING = frozenset({"api-unreachable", "api-busy"})
"""Cause ids of errors of a server that may answer a moment later."""


def configured(access: ClusterAccess) -> bool:
    """Return True if there is a kubeconfig or in-cluster service account."""
    if access.named or os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST"):
        return True
    try:
        (Path.home() / ".kube" / "config").lstat()
    except (FileNotFoundError, NotADirectoryError, RuntimeError):
        return False
    except OSError:
        return True
    return True


def connect(access: ClusterAccess) -> Api:
    """Return a client of the named or current cluster; send no request."""
    from k8sbench.adapters.kubernetes.client import connection

    return connection.connect(
        kubeconfig=access.kubeconfig, context=access.context, namespace=access.namespace
    )


def connect_to(location: Location, access: ClusterAccess) -> Api:
    """Reach the cluster on which a run's job is; what was named comes first."""
    return connect(access_to(location, access))


def access_to(location: Location | None, access: ClusterAccess) -> ClusterAccess:
    """Return what was named, and for the rest where a run's job is."""
    if location is None:
        return access
    return ClusterAccess(
        namespace=access.namespace or location.namespace,
        context=access.context or location.context,
        kubeconfig=access.kubeconfig or location.kubeconfig,
    )


@contextlib.contextmanager
def opened(
    api: Api,
    *,
    keep: bool = False,
    waits: bool = False,
    store: SqlStore | None = None,
    is_collector: bool = False,
) -> Iterator[KubernetesCluster]:
    """Open the cluster behind a connection; closes both at the end.

    With ``waits`` the jobs that are created wait even in unrecoverable states. ``store`` owns the
    jobs that are created or taken over; with ``is_collector`` the namespace's collector does.
    """
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
    from k8sbench.adapters.kubernetes.ownership import User

    user = None
    if store is not None:
        user = User(
            store=COLLECTOR if is_collector else store.identity,
            host=platform.node(),
            keep=keep,
        )
    with contextlib.closing(api):
        cluster = KubernetesCluster(api, waits=waits, user=user)
        with contextlib.closing(cluster):
            yield cluster


@contextlib.contextmanager
def cluster_of(
    run: Run,
    access: ClusterAccess,
    note: Callable[[str], None],
) -> Iterator[KubernetesCluster]:
    """Return the cluster of a run.

    Rejects a local run, and a cluster that is not the run's.
    """
    api = api_of(run, access)
    await_answer(api, note)
    with opened(api) as cluster:
        collecting.check_place(run, cluster, api.place)
        yield cluster


@contextlib.contextmanager
def glimpsed(api: Api) -> Iterator[KubernetesCluster]:
    """Open a cluster for one query, with a short timeout."""
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster

    with contextlib.closing(api):
        error = silence(api, GLIMPSE_SECONDS)
        if error is not None:
            raise error
        api.retry_s = LOOK_SECONDS
        yield KubernetesCluster(api)


@contextlib.contextmanager
def glimpse_of(run: Run, access: ClusterAccess) -> Iterator[KubernetesCluster]:
    """Give the cluster of a run to look at it once: :func:`cluster_of` and :func:`glimpsed`."""
    with glimpsed(api_of(run, access)) as cluster:
        collecting.check_place(run, cluster, cluster.api.place)
        yield cluster


def silence(api: Api, seconds: float) -> BenchError | None:
    """Return the reason an API server does not answer.

    Returns None if it answers, even with a refusal.
    """
    from k8sbench.adapters.kubernetes.client import faults

    fault = api.no_answer(seconds, retry_s=seconds)
    is_answer = fault is None or (fault.status is not None and not fault.passes)
    if fault is None or (is_answer and fault.reason != faults.NOT_KUBERNETES):
        return None
    return api.explained(fault, "its version be read")


def await_answer(api: Api, note: Callable[[str], None]) -> None:
    """Wait for an API server's first answer; raise the failure.

    Later requests are retried for longer, because the server has answered before.
    """
    first = min(SILENT_SECONDS, ANSWER_SECONDS / 2)
    error = silence(api, first)
    if error is not None and error.cause_id in PASSING:
        note(f"{error.message} Retrying.")
        error = silence(api, ANSWER_SECONDS - first)
    if error is not None:
        raise error


def imported_error(run: Run) -> UsageError:
    """Build the error for job commands on an imported run."""
    return UsageError(
        f"Run {run.run_id} was imported from logs: it has no job.",
        f"See: k8sbench status {run.run_id}; remove it with: k8sbench store remove {run.run_id}",
    )


def check_on_cluster(run: Run) -> None:
    """Reject a run that is on no cluster."""
    if run.is_imported:
        raise imported_error(run)
    if run.plan.backend != "kubernetes":
        raise UsageError(
            f"Run {run.run_id} ran on this machine, not on a cluster.",
            f"See: k8sbench status {run.run_id}; remove it with: k8sbench store remove"
            f" {run.run_id}",
        )


def api_of(run: Run, access: ClusterAccess) -> Api:
    """Reach the cluster of a run; rejects a run that is on none."""
    check_on_cluster(run)
    location = run.location or Location(server="", namespace=access.namespace or "default")
    return connect_to(location, access)

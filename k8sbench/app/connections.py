"""Connections to clusters, and their sources of GPU metrics.

A cluster is opened in two ways: :func:`.run_contexts.on_cluster` for work, and :func:`glance` for
one query.
"""

from __future__ import annotations

import contextlib
import os
import platform
import random
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from k8sbench import limits
from k8sbench.model.errors import UsageError
from k8sbench.model.kube import OPERATOR, JobOwner
from k8sbench.model.names import TOKEN_LENGTH, TOKEN_LETTERS, draw_set_name
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Location, Run

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
    from k8sbench.ports.metrics import MetricSource
    from k8sbench.store.interface import Store


AUTO, NONE = "auto", "none"
"""Values of ``--prometheus`` besides a URL: discover, or query none."""
USUAL = "usual"
"""The operator's ``auto``: users write their namespace's ConfigMap, which would direct it."""


def configured(access: ClusterAccess) -> bool:
    """Return True if there is a kubeconfig or in-cluster service account."""
    if access.is_given or any(map(os.environ.get, ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"))):
        return True
    with contextlib.suppress(RuntimeError):  # no home
        # A dangling link was meant, too.
        return os.path.lexists(Path.home() / ".kube" / "config")
    return False


def access_to(location: Location | None, access: ClusterAccess) -> ClusterAccess:
    """Return what was named, and for the rest where a run's job is."""
    names = ClusterAccess.__struct_fields__
    named = {name: getattr(access, name) or getattr(location, name, None) for name in names}
    return ClusterAccess(**named)


def connect(access: ClusterAccess, location: Location | None = None) -> Api:
    """Return a client of the named, a run's or the current cluster."""
    from k8sbench.adapters.kubernetes.client import connection

    return connection.connect(**msgspec.structs.asdict(access_to(location, access)))


def check_on_cluster(run: Run) -> None:
    """Reject a run that is on no cluster."""
    if run.plan.backend != "kubernetes":
        what = _NO_JOB_OF_OURS[run.plan.backend]
        raise UsageError(
            f"Run {run.run_id} {what}.",
            f"See: k8sbench status {run.run_id}; remove it with: k8sbench store remove"
            f" {run.run_id}",
        )


_NO_JOB_OF_OURS = {
    "imported": "was imported from logs: it has no job on a cluster",
    "observed": "was observed: its job belongs to whoever created it",
    "local": "ran on this machine: it has no job on a cluster",
}
"""Backend → why k8sbench changes no job of a run."""


def connect_to_run(run: Run, access: ClusterAccess) -> Api:
    """Return a client of a run's cluster; rejects a run that is on none."""
    check_on_cluster(run)
    return connect(access, run.location)


def job_owner(
    store: Store | None, *, keep: bool = False, is_operator: bool = False
) -> JobOwner | None:
    """Return the owner of the jobs of a store, or of an operator; None without a store."""
    if store is None:
        return None
    identity = OPERATOR if is_operator else store.identity
    return JobOwner(store=identity, host=platform.node(), keep=keep)


@contextlib.contextmanager
def glance(
    api: Api, run: Run | None = None, user: Store | None = None
) -> Iterator[KubernetesCluster]:
    """Open a cluster for one query, with a short timeout; ``run`` must be there.

    Without a ``user`` every job counts as ours.
    """
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster

    with contextlib.closing(api):
        api.check_answers(limits.now.api_answer)
        api.retry_s = limits.now.api_look
        cluster = KubernetesCluster(api, owner=job_owner(user))
        check_place(run, cluster)
        yield cluster


def check_place(run: Run | None, cluster: KubernetesCluster) -> None:
    """Raise :class:`UsageError` if a run was submitted to another place."""
    # Imported here: the options of every command import this module.
    from k8sbench.lifecycle import collecting

    if run is not None:
        collecting.check_place(run, cluster, cluster.api.place)


def metric_sources(prometheus: str, api: Api | None, store: Store) -> Sequence[MetricSource]:
    """Return the sources for runs on a cluster, or on this machine (no ``api``).

    Their order does not matter: for each metric the source with the best coverage counts. No
    request is sent: the sources do so when they fetch, through ``api`` among others.
    """
    from k8sbench.adapters.metrics import trainer

    sources: list[MetricSource] = [trainer.TrainerSource(store.log_files)]
    if prometheus != NONE and (prometheus != AUTO or api is not None):
        from k8sbench.adapters.metrics.prometheus import PrometheusSource
        from k8sbench.adapters.metrics.prometheus_api import ways

        sources.append(PrometheusSource(partial(ways, prometheus, api)))
    return sources


def checked_prometheus(value: str) -> str:
    """Check the value of ``--prometheus``; raises :class:`UsageError`."""
    if value not in {AUTO, NONE}:
        from k8sbench.adapters.metrics.prometheus_api import wrong_address

        # Not shown: it may hold what nobody is to see.
        if (wrong := wrong_address(value)) is not None:
            raise UsageError(
                f"--prometheus is neither {AUTO} nor {NONE} nor an address: {wrong}.",
                "Write it as https://prometheus.example:9090.",
            )
    return value


def now() -> float:
    """Return the time, Unix seconds."""
    return time.time()


def new_set_name() -> str:
    """Draw the name of a set that is opened now."""
    return draw_set_name(at=time.time(), token=new_token())


def new_token() -> str:
    """Draw the random part of a name."""
    return "".join(random.SystemRandom().choices(TOKEN_LETTERS, k=TOKEN_LENGTH))

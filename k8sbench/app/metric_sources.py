"""Wiring of GPU metric sources for the runs of a target.

Their order does not matter: for each metric the source with the best coverage counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from k8sbench.model.errors import UsageError

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.ports import MetricSource, Store

AUTO, NONE = "auto", "none"
"""Values of ``--prometheus`` besides a URL: discover, or query none."""
USUAL = "usual"
"""The collector's ``auto``: users write their namespace's ConfigMap, which would direct it."""


def found(prometheus: str, api: Api | None, store: Store) -> Sequence[MetricSource]:
    """Return the sources for runs on a cluster, or on this machine (no ``api``).

    No request is sent: the sources do so when they fetch, through ``api`` among others.
    """
    from k8sbench.adapters.metrics import trainer

    sources: list[MetricSource] = [trainer.TrainerSource(store.log_files)]
    if prometheus != NONE and (prometheus != AUTO or api is not None):
        from k8sbench.adapters.metrics.prometheus import PrometheusSource
        from k8sbench.adapters.metrics.prometheus_api import ways

        sources.append(PrometheusSource(partial(ways, prometheus, api)))
    return sources


def checked(prometheus: str) -> str:
    """Check the value of ``--prometheus``; raises :class:`UsageError`."""
    if prometheus not in {AUTO, NONE}:
        from k8sbench.adapters.metrics.prometheus_api import wrong_address

        # Not shown: it may hold what nobody is to see.
        if (wrong := wrong_address(prometheus)) is not None:
            raise UsageError(
                f"--prometheus is neither {AUTO} nor {NONE} nor an address: {wrong}.",
                "Write it as https://prometheus.example:9090.",
            )
    return prometheus

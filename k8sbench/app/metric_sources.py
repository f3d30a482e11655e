"""Where GPU metrics of runs come from, wired: the sources that there are for runs of one target.

The order does not matter: of each metric the source with the best coverage counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from k8sbench.model.errors import UsageError

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.ports import MetricSource, Store

AUTO, NONE = "auto", "none"
"""What ``--prometheus`` takes beside a URL: find one in the cluster, or ask none."""
USUAL = "usual"
"""The collector's ``auto``: users write their namespace's ConfigMap, which would direct it."""


@contextlib.contextmanager
def opened(
    prometheus: str,
    api: Api | None,
    store: Store,
) -> Iterator[Sequence[MetricSource]]:
    """Open the sources for runs on a cluster, or on this machine (no ``api``); closes them.

    Opening sends no request: the sources do when they fetch. With ``api`` its connection stays
    open until after the sources are closed.
    """
    from k8sbench.adapters.metrics import trainer

    sources: list[MetricSource] = [trainer.TrainerSource(store.log_files)]
    if prometheus != NONE and (prometheus != AUTO or api is not None):
        from k8sbench.adapters.metrics.prometheus import PrometheusSource
        from k8sbench.adapters.metrics.prometheus_api import ways

        sources.append(PrometheusSource(partial(ways, prometheus, api)))
    try:
        yield sources
    finally:
        for source in sources:
            with contextlib.suppress(Exception):  # the runs are recorded
                source.close()


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

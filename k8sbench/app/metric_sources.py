"""Where GPU metrics of runs come from, wired: the sources that there are for runs of one target.

The order does not matter: of each metric the source with the best coverage counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from k8sbench.model.errors import UsageError

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.ports import MetricSource, Store

AUTO, NONE = "auto", "none"
"""What ``--prometheus`` takes beside a URL: find one in the cluster, or ask none."""


@contextlib.contextmanager
def opened(
    prometheus: str,  # noqa: ARG001
    api: Api | None,  # noqa: ARG001
    store: Store,  # noqa: ARG001
    note: Callable[[str], None],  # noqa: ARG001
) -> Iterator[Sequence[MetricSource]]:
    """Open the sources for runs on a cluster, or on this machine (no ``api``); closes them.

    Opening asks nothing of anyone: that is the sources' part, when they follow or fetch. With
    ``api`` its connection stays open until after the sources are closed.
    """
    # Each is appended here, and imported where it is made.
    sources: list[MetricSource] = []
    try:
        yield sources
    finally:
        for source in sources:
            with contextlib.suppress(Exception):  # the runs are recorded
                source.close()


def checked(prometheus: str) -> str:
    """Check the value of ``--prometheus``; raises :class:`UsageError`."""
    if prometheus not in {AUTO, NONE} and "://" not in prometheus:
        raise UsageError(
            f"--prometheus {prometheus!r} is neither a URL nor {AUTO} or {NONE}.",
            "Write it as https://prometheus.example:9090.",
        )
    return prometheus

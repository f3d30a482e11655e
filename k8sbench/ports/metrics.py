"""The port for GPU metrics."""

from __future__ import annotations

from typing import Protocol

from k8sbench.model.gpu_metrics import Fetched, SeriesQuery, SourceName


class MetricSource(Protocol):
    """A source of GPU metrics.

    Several threads may call :meth:`settles_in` and :meth:`fetch` at a time; both may take a while.
    """

    name: SourceName

    def settles_in(self, wanted: SeriesQuery) -> float:  # noqa: ARG002
        """Return the seconds from the window's end to its last sample.

        0 if the sample is available at once.
        """
        return 0.0

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        """Return the series of the run's GPUs.

        Never raises: a source that cannot be reached has no series, and its reason.
        """

"""GPU metrics that our trainers print.

A :class:`~k8sbench.ports.metrics.MetricSource` on archived logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from k8sbench.messages import note, quoted
from k8sbench.model.errors import StoreError
from k8sbench.model.gpu_metrics import Fetched, SeriesQuery, SourceName
from k8sbench.ports.metrics import MetricSource

NEEDLES = (b'K8SBENCH {"event": "gpu"', b'K8SBENCH {"event": "environment"')
"""Lines that hold neither are not read."""


class TrainerSource(MetricSource):
    """Samples in a run's logs, complete when the run is measured."""

    name: SourceName = "trainer"

    def __init__(self, log_files: Callable[[str], Iterable[Path]]) -> None:
        self._log_files = log_files

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        """Return the series of the whole run."""
        # Imported when the first run is measured.
        from k8sbench.reader.families import FAMILIES
        from k8sbench.reader.lines import CleanLine
        from k8sbench.reader.measuring.gpu_series import TrainerSeries

        series = TrainerSeries()
        reader = FAMILIES["k8sbench"].reader()
        try:
            for path in self._log_files(wanted.run_id):
                with path.open("rb") as log:
                    for number, line in enumerate(log, 1):
                        if any(needle in line for needle in NEEDLES):
                            text = line.decode(errors="replace")
                            for item in reader.read(CleanLine(number, text)):
                                series.add(item)
        except (OSError, StoreError) as error:
            why = note("no-gpu-metrics-logs", why=quoted(str(error)))
            return Fetched(source=self.name, missing={"*": why})
        return series.fetched()

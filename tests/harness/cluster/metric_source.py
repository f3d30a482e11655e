"""A fake source of GPU metrics in a k8sbench that tests start."""

import os

from k8sbench.app import connections
from k8sbench.messages import quoted
from k8sbench.model.gpu_metrics import Fetched, Gpu, Series, SeriesQuery, SourceName

POINTS = 30


class Source:
    """Answers with the metrics of healthy GPUs, but of the node that ``FAULTY`` names."""

    name: SourceName = "prometheus"

    def settles_in(self, wanted: SeriesQuery) -> float:
        return 0.0

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        at = tuple(wanted.start + 0.25 * number for number in range(POINTS))
        series = tuple(
            Series(
                metric=metric,
                gpu=Gpu(pod=pod, node=node, index="0"),
                source=self.name,
                at=at,
                values=tuple(values),
                every=0.25,
            )
            for pod, node in wanted.nodes.items()
            for metric, values in _metrics(node).items()
        )
        missing = {"power": quoted("The exporter does not give it.")}
        return Fetched(source=self.name, missing=missing, series=series)


def _metrics(node: str | None) -> dict[str, list[float]]:
    xid = 79.0 if node == os.environ.get("FAULTY") else 0.0
    half = POINTS // 2
    return {"sm_clock": [1290.0] * POINTS, "xid": [0.0] * half + [xid] * half}


def install() -> None:
    """Have this source instead of the real ones."""

    def sources(prometheus: str | None, *_: object) -> list[Source]:
        return [Source()] if prometheus != "none" else []

    setattr(connections, "metric_sources", sources)  # noqa: B010

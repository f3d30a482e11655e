"""From a real Prometheus to the figures of a run, and where ``--prometheus`` leads."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from k8sbench.app import metric_sources
from k8sbench.measure.run.gpu_series import OverTime, over_time
from k8sbench.model.errors import UsageError
from k8sbench.model.gpu_metrics import BY_ID
from tests.harness.prometheus import Samples
from tests.prometheus.conftest import Start
from tests.prometheus.examples import END, PODS, START, UUIDS, labels, points, renamed, wanted

OURS = labels(UUIDS[0], **renamed(PODS[0]))


def test_a_hole_lowers_the_coverage_and_not_the_figure(start: Start) -> None:
    stored = [one for one in points(80.0) if not START + 200 < one[0] < START + 400]
    server = start(
        Samples("DCGM_FI_DEV_GPU_UTIL", OURS, stored),
        Samples(
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            OURS,
            [(at, (250e3 * (at - START)) % 60e6) for at, _ in points(every=15)],
        ),
    )
    with metric_sources.opened(server.url, None, Mock()) as sources:
        (source,) = (one for one in sources if one.name == "prometheus")
        found = source.fetch(wanted())
    figures = {one.metric: over_time(one, BY_ID[one.metric], START, END) for one in found.series}
    busy, energy = figures["gpu_utilization"], figures["energy"]
    assert isinstance(busy, OverTime)
    assert isinstance(energy, OverTime)
    assert busy.value == pytest.approx(0.8)
    assert 0.6 < busy.coverage < 0.75
    # The counter began anew twice; 250 W for 600 s.
    assert energy.value == pytest.approx(150e3, rel=0.05)
    assert energy.coverage == pytest.approx(1.0)


def test_without_a_cluster_nothing_is_looked_for() -> None:
    for place in ("auto", "none"):
        with metric_sources.opened(place, None, Mock()) as sources:
            assert [one.name for one in sources] == ["trainer", "nvml"]


@pytest.mark.parametrize("url", ["http://ada:secret@p.test", "secret", "ftp://secret"])
def test_an_address_that_cannot_be_used_is_refused_at_once_and_not_shown(url: str) -> None:
    with pytest.raises(UsageError) as wrong:
        metric_sources.checked(url)
    assert "secret" not in str(wrong.value)

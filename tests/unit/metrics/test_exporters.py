"""What DCGM exporters expose is read, and what is none is refused; samples are bounded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from k8sbench.adapters.metrics import dcgm, exporters
from k8sbench.adapters.metrics.dcgm import NodeReadings
from k8sbench.adapters.metrics.exporters import ExporterFault, Sample
from tests.tiers import ROOT

FOLDER = ROOT / "tests" / "fixtures" / "dcgm"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.prom")), ids=lambda file: file.stem)
def test_every_field_that_counts_is_read_by_its_own_name(file: Path) -> None:
    found = list(exporters.read(file.read_text()))
    names = Counter(one.labels["__name__"] for one in found)
    assert len(names) == 10
    assert "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" in names
    assert "DCGM_FI_DEV_PCIE_REPLAY_COUNTER" not in names


@pytest.mark.parametrize(
    "text",
    [
        *("<html><body>Sign in</body></html>", " <!doctype html>", "no page, no metrics", "{}"),
        *('DCGM_FI_DEV_GPU_UTIL{gpu="0" 5', "DCGM_FI_DEV_GPU_UTIL many", "\x00\x01"),
    ],
)
def test_what_is_no_exposition_is_refused(text: str) -> None:
    with pytest.raises(ExporterFault):
        list(exporters.read(text))


def sample(value: float, **more: str) -> Sample:
    return Sample({"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-0", **more}, value)


def test_long_runs_keep_every_second_sample() -> None:
    node = NodeReadings([])
    for at in range(dcgm.MOST + 1):
        node.take(float(at), "one", [sample(at, label_of_the_pod=str(at))])
    ((stamps, values),) = node.series.values()
    assert (len(stamps), node.thinned) == (dcgm.MOST // 2, 2)
    assert list(stamps) == list(values)
    assert list(stamps)[:3] == [1.0, 3.0, 5.0]
    assert len(node.answers) == dcgm.MOST


def test_what_no_run_needs_any_more_is_dropped() -> None:
    node = NodeReadings([])
    node.thinned = 2
    node.take(1.0, "one", [sample(1, pod="a")])
    node.take(2.0, "one", [sample(2, pod="b")])
    node.take(3.0, "one", [sample(3, pod="b")])
    node.drop(3.0)
    ((labels, (stamps, _)),) = node.series.items()
    assert ("pod", "b") in labels
    assert list(stamps) == [3.0]
    assert node.thinned == 1

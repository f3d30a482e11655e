"""What DCGM exporters expose is read, and what is none is refused; samples are bounded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from k8sbench.adapters.kubernetes.client.api import ApiFault
from k8sbench.adapters.metrics import dcgm
from k8sbench.adapters.metrics.dcgm import ExposedValue, NodeReadings
from tests.tiers import ROOT

FOLDER = ROOT / "tests" / "fixtures" / "dcgm"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.prom")), ids=lambda file: file.stem)
def test_every_field_that_counts_is_read_by_its_own_name(file: Path) -> None:
    found = list(dcgm.read(file.read_text()))
    names = Counter(labels["__name__"] for labels, _ in found)
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
    with pytest.raises(ApiFault):
        list(dcgm.read(text))


def sample(value: float, **more: str) -> ExposedValue:
    return {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-0", **more}, value


def test_the_latest_samples_of_a_day_are_kept() -> None:
    node = NodeReadings()
    for at in range(dcgm.MOST + 1):
        node.take(float(at), "one", [sample(at, label_of_the_pod=str(at))])
    ((stamps, values),) = node.series.values()
    assert list(stamps) == list(values)
    assert (stamps[0], stamps[-1], len(stamps)) == (1.0, dcgm.MOST, dcgm.MOST)


def test_what_no_run_needs_any_more_is_dropped() -> None:
    node = NodeReadings()
    node.users = {"first": 0.0, "second": 3.0}
    node.released = {"first": 4.0}
    for at, pod in ((1.0, "a"), (2.0, "b"), (3.0, "b")):
        node.take(at, "one", [sample(at, pod=pod)])
    node.forget(4.0)
    assert len(node.series) == 2
    node.forget(5.0)
    ((labels, (stamps, _)),) = node.series.items()
    assert ("pod", "b") in labels
    assert list(stamps) == [3.0]
    assert (node.users, node.released) == ({"second": 3.0}, {})

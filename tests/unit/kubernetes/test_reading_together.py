"""Changes of many jobs that are followed are read together, and those of a few at once."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import Mock

import pytest

from k8sbench.adapters.kubernetes import cluster
from k8sbench.adapters.kubernetes.cluster import KubernetesCluster


@pytest.mark.parametrize(("jobs", "reads"), [(9, [1, 2]), (10, [1, 1]), (10_000, [1, 1])])
def test_of_many_jobs_what_changes_is_read_now_and_then(
    monkeypatch: pytest.MonkeyPatch, jobs: int, reads: list[int]
) -> None:
    moment = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    here: Any = KubernetesCluster(Mock())
    here._jobs = {f"seg-{number}": Mock(is_over=False, look_at=None) for number in range(jobs)}
    here._reader = Mock()
    here._reader.read.return_value = []
    found = []
    for _ in range(2):
        here._reread({"seg-1"})
        here._read_all()
        found.append(here._reader.read.call_count)
    assert found == reads
    if here._changed:
        moment += here._timeout(None)
        assert 100 < moment <= 100 + cluster.MOST_READ_SECONDS
    here._read_all()
    assert here._reader.read.call_count == 2
    assert not here._changed

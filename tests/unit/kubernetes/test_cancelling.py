"""A job is cancelled if it is the run's, and one whose request has no answer is not waited for."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pytest

from k8sbench.adapters.kubernetes import job_changes, ownership
from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
from tests.unit.kubernetes.objects import JOB, job


@pytest.mark.parametrize(("known", "is_ours"), [(None, True), ("job-1", True), ("job-0", False)])
def test_a_job_that_is_not_seen_yet_is_cancelled_by_its_uid(
    monkeypatch: pytest.MonkeyPatch, known: str | None, is_ours: bool
) -> None:
    monkeypatch.setattr(ownership, "look_for", lambda *_: (("PyTorchJob", job()), None))
    monkeypatch.setattr(job_changes, "cancel", cancel := Mock())
    here: Any = KubernetesCluster(Mock())
    here._jobs = {JOB: Mock(ended_at=None, found=None, uid=known)}
    here.cancel(JOB, "Cancelled by hand.", "cancelled")
    assert cancel.called is is_ours


HANGING = """
import threading, unittest.mock
from k8sbench.adapters.kubernetes import cluster
cluster.CLOSE_SECONDS = 0.1
here = cluster.KubernetesCluster(unittest.mock.Mock())
here._start(threading.Event().wait)
here.close()
"""


def test_a_request_that_is_not_answered_does_not_hold_up_the_end_of_the_program() -> None:
    subprocess.run((sys.executable, "-c", HANGING), check=True, timeout=60)

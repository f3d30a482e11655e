"""A job that somebody's finalizer keeps: nobody reads that it is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from tests.harness.cluster import following
from tests.harness.cluster.following import Port
from tests.harness.cluster.namespace import Namespace

FINALIZER = "test.example/hold"
KEPT = (
    f"its deletion was requested and waits for the finalizer {FINALIZER}; the job and its pods "
    f"stay until that is removed."
)


@pytest.fixture
def port(user: Path) -> Iterator[Port]:
    with following.opened(user, end_s=1.0) as opened:
        yield opened


@pytest.fixture
def held(port: Port, namespace: Namespace) -> Iterator[RunPlan]:
    """Give a job that runs, and that a finalizer keeps until the end of the test."""
    plan = port.submit(following.plan("2x1"), None)
    port.until_phase(plan, Phase.RUNNING)
    hold(namespace, plan, FINALIZER)
    yield plan
    hold(namespace, plan)


def hold(namespace: Namespace, plan: RunPlan, *finalizers: str) -> None:
    patch = json.dumps({"metadata": {"finalizers": finalizers}})
    namespace.kubectl("patch", f"pytorchjob/{plan.run_id}", "--type=merge", f"--patch={patch}")


def test_deleting_says_which_finalizer_keeps_the_job_each_time(
    port: Port, held: RunPlan, namespace: Namespace
) -> None:
    assert port.cluster.remove(held.run_id) == KEPT
    assert port.cluster.remove(held.run_id) == KEPT
    # It is no exaggeration: nobody deletes the pods before the job.
    assert len(namespace.wait_for_pods(2)) == 2


def test_cancelling_says_which_finalizer_keeps_the_job(port: Port, held: RunPlan) -> None:
    port.cluster.cancel(held.run_id, "Not wanted any more.", "asked")
    end = port.end_of(held)
    assert (end.phase, end.cause_id) == (Phase.CANCELLED, "asked")
    assert end.cause == f"Not wanted any more; {KEPT}"

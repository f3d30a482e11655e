"""Stamps of the cluster are compared with its own clock, also where this machine's differs."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from k8sbench.adapters.kubernetes import listing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.app.context import run_context
from k8sbench.model.identity import PLAN_ANNOTATION
from tests.unit.kubernetes import servers
from tests.unit.kubernetes.objects import PLAN, job, stamp
from tests.unit.kubernetes.servers import VERSION, answer, saying, serving


@contextlib.contextmanager
def reached(folder: Path, date: str, body: bytes = VERSION) -> Iterator[Api]:
    """Reach an API server whose answers have a date."""
    # Without the second header the next request might come over the same connection.
    with serving(saying(answer(200, body, Date=date, Connection="close"))) as address:
        path = servers.kubeconfig(folder / "config", f"http://{address}")
        with contextlib.closing(connect(kubeconfig=str(path), environ={})) as api:
            yield api


def ahead(api: Api) -> float:
    return api.time() - time.time()


@pytest.mark.parametrize("seconds", [3600.0, -5400.0])
def test_the_server_s_time_is_that_of_its_latest_answer(tmp_path: Path, seconds: float) -> None:
    with reached(tmp_path, formatdate(time.time() + seconds, usegmt=True)) as api:
        assert abs(ahead(api)) < 1, "ours, before it has answered"
        assert api.no_answer() is None
        assert abs(ahead(api) - seconds) < 30


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_clock_that_is_set_meanwhile_moves_neither_the_cluster_s_time_nor_that_of_a_local_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    with reached(tmp_path, formatdate(time.time() - 7200, usegmt=True)) as api:
        assert api.no_answer() is None
        local = run_context(store=Mock(), cluster=Mock()).clock
        before = api.time(), local()
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + seconds)
        assert api.time() - before[0] < 30
        assert local() - before[1] < 30
        assert (api.time(), local()) >= before


def test_a_pod_s_clock_behind_the_server_s_proxy_is_not_the_server_s(tmp_path: Path) -> None:
    with reached(tmp_path, formatdate(time.time() + 3600, usegmt=True)) as api:
        api.get("/api/v1/namespaces/n/pods/p/proxy/metrics")
        assert abs(ahead(api)) < 1


@pytest.mark.parametrize("is_date", [True, False])
def test_clocks_that_agree_and_an_answer_without_a_date_leave_our_time(
    tmp_path: Path, is_date: bool
) -> None:
    with reached(tmp_path, formatdate(usegmt=True) if is_date else "soon") as api:
        assert api.no_answer() is None
        assert abs(ahead(api)) < 1


def test_a_job_of_others_was_never_created_later_than_now(tmp_path: Path) -> None:
    """Else every later state of it would have the time of its creation."""
    made = job(annotations={PLAN_ANNOTATION: msgspec.json.encode(PLAN).decode()})
    late = {**made, "metadata": {**made["metadata"], "creationTimestamp": stamp(1e10)}}
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [late]}).encode()
    with reached(tmp_path, formatdate(usegmt=True), body) as api:
        assert all(found.created_at <= time.time() for found in listing.jobs(api))

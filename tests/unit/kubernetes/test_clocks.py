"""A clock of this machine that differs from the cluster's is named, and taken into account."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import msgspec
import pytest

from k8sbench.adapters.kubernetes import listing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.model.identity import PLAN_ANNOTATION
from k8sbench.ports import Clock
from tests.unit.kubernetes import servers
from tests.unit.kubernetes.objects import PLAN, START, job
from tests.unit.kubernetes.servers import VERSION, answer, saying, serving


@contextlib.contextmanager
def reached(folder: Path, clock: Clock, cluster: float, body: bytes = VERSION) -> Iterator[Api]:
    """Reach an API server whose clock stands still at a time, by a clock of this machine."""
    # Without the second header the next request might come over the same connection.
    headers = {"Date": formatdate(cluster, usegmt=True), "Connection": "close"}
    with serving(saying(answer(200, body, **headers))) as address:
        path = servers.kubeconfig(folder / "config", f"http://{address}")
        with contextlib.closing(connect(kubeconfig=str(path), environ={})) as api:
            api.sender.clock = clock
            yield api


@pytest.mark.parametrize(
    ("ahead", "words"), [(3600.0, "1h ahead of that"), (-5400.0, "1h30m behind that")]
)
def test_a_difference_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ahead: float, words: str
) -> None:
    with reached(tmp_path, lambda: START + ahead, START) as api:
        assert api.no_answer() is None
        assert api.no_answer() is None
        server = api.place.server
    (note,) = caplog.messages
    assert note.startswith(f"warning: this machine's clock is {words} of the API server {server}.")


def test_a_small_difference_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with reached(tmp_path, lambda: START + 50, START) as api:
        assert api.no_answer() is None
        assert api.ahead == -50
    assert caplog.messages == []


def test_a_job_of_others_was_created_when_this_machine_s_clock_said_so(tmp_path: Path) -> None:
    """Else it would have taken an hour as soon as it is recorded."""
    found = job(annotations={PLAN_ANNOTATION: msgspec.json.encode(PLAN).decode()})
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [found]}).encode()
    with reached(tmp_path, lambda: START + 3605, START + 5, body) as api:
        created = {one.created_at for one in listing.jobs(api)}
    assert created == {START + 3600}


def test_without_a_date_nothing_is_assumed(tmp_path: Path) -> None:
    with (
        serving(saying(answer(Date="soon"))) as address,
        contextlib.closing(
            connect(
                kubeconfig=str(servers.kubeconfig(tmp_path / "config", f"http://{address}")),
                environ={},
            )
        ) as api,
    ):
        assert api.no_answer() is None
        assert (api.ahead, api.sender.clock) == (0.0, time.time)

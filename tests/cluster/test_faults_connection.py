"""Faults of the first answers of a cluster: a run that is meant for it is not started elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.harness.cluster import fault_proxy
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.shell import CASE, Shell

SUBMIT = ("submit", *CASE, "--node-pool=endless", "--detach")
"""Without --backend, as a user does who has a kubeconfig."""


@pytest.fixture
def proxy(shell: Shell) -> Iterator[FaultProxy]:
    """Before the cluster of the shell's kubeconfig."""
    direct = shell.environment["KUBECONFIG"]
    with fault_proxy.before(Path(direct)) as (proxy, kubeconfig):
        shell.environment["KUBECONFIG"] = str(kubeconfig)
        yield proxy
    shell.environment["KUBECONFIG"] = direct


def test_a_version_that_is_lost_once_is_asked_for_again(shell: Shell, proxy: FaultProxy) -> None:
    version = "/version"
    faults = {
        "none": None,
        "dropped": partial(proxy.drop, version, times=1),
        "busy": partial(proxy.answer, 503, version, times=1),
        "limited": partial(proxy.answer, 429, version, times=1, headers={"Retry-After": "1"}),
    }
    for name, place in faults.items():
        before = len(proxy.requests(version))
        fault = place and place()
        done = shell.run(*SUBMIT, f"--run-id={name}")
        assert "\nbackend kubernetes: current context test" in done.err, name
        assert name in shell.on_cluster()
        # Without a fault it is asked for once.
        assert len(proxy.requests(version)) - before == (1 if fault is None else 2), name


def test_a_cluster_that_does_not_answer_is_an_error(shell: Shell, proxy: FaultProxy) -> None:
    with proxy.answer(429, "/version", headers={"Retry-After": "60"}):
        done = shell.run(*SUBMIT, "--run-id=never", code=6)
    assert "429: Too Many Requests" in done.err
    assert done.err.endswith("; or run on this machine: --backend local\n")
    assert "never" not in shell.on_cluster()
    assert "never" not in [run["run_id"] for run in shell.json("list")]

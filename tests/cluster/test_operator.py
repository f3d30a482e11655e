"""The operator: nothing lost, nothing doubled, whatever happens to it or around it."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from k8sbench.adapters.kubernetes import benchmark_objects
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model import benchmark_object
from tests.harness import children, disks
from tests.harness.cluster import alterations, operator_process
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Running, Shell, hurried, until


@pytest.fixture
def operator(own_shell: Shell, tmp_path: Path) -> OperatorShell:
    return operator_process.make(own_shell.namespace, tmp_path / "machine")


def test_of_two_the_second_waits_until_the_first_ends_or_is_killed(
    own_shell: Shell, operator: OperatorShell
) -> None:
    logs, place = operator_process.given(own_shell, "r1"), own_shell.namespace.name
    with operator.collecting() as first:
        until(lambda: operator.archived("r1-1"), "lines of r1-1")
        with operator.collecting() as second:
            second.until(f" holds Lease {place}/k8sbench-operator")
            assert "Running" not in second.err
            operator_process.end(first)
            second.until("Running")
            with operator.collecting("--log-format=json") as third:
                third.until(f" holds Lease {place}/k8sbench-operator")
                second.kill()
                logs.end()
                own_shell.finish("r1-1")
                operator_process.check_collected(operator, "r1-1", logs)
                operator_process.end(third)
            logged = [json.loads(line) for line in third.err.splitlines()]
            assert {line["level"] for line in logged} <= {"info", "warning"}
            of_run = [line["message"] for line in logged if line["run"] == "r1-1"]
            assert any(text.startswith("measured ") for text in of_run)


def test_a_disk_that_is_full_and_free_again_loses_nothing(
    own_shell: Shell, operator: OperatorShell
) -> None:
    logs = operator_process.given(own_shell, "r1")
    with disks.small(operator.store, "2m") as disk, operator.collecting() as running:
        until(lambda: operator.archived("r1-1"), "lines of r1-1")
        with disks.full(disk):
            logs.end()
            own_shell.finish("r1-1")
            running.until("disk is full")
            assert "r1-1" in own_shell.on_cluster()
        operator_process.check_collected(operator, "r1-1", logs)
        operator_process.end(running)


def test_a_second_operator_is_refused_and_one_with_an_older_crd_serves_nobody(
    own_shell: Shell, operator: OperatorShell
) -> None:
    namespace = own_shell.namespace
    flag, program = hurried(**operator.limits)
    newer = children.calling(alterations.need_newer_objects)
    operator.program = (flag, newer + program)
    with operator.collecting() as running:
        running.until("not ready: ")
        operator_process.end(running)
    assert "k8sbench operator crd | kubectl apply --server-side -f -" in running.err
    assert namespace.get("leases") == []
    operator.program = OperatorShell.program
    with operator.collecting() as first:
        first.until("info collecting\n")
        with operator.collecting("--name=other") as second:
            second.until(f"not ready: operator {namespace.name}/dlperf-operator serves")
            operator_process.end(second)
        operator_process.end(first)
    (lease,) = namespace.get("leases")
    place = lease["metadata"]["annotations"]["k8sbench.io/operator"]
    assert (place, lease["spec"]["holderIdentity"]) == (f"{namespace.name}/dlperf-operator", "")


def until_said(running: Running, text: str, times: int) -> None:
    until(lambda: running.err.count(text) == times, f"{text!r}, {times} times")


def test_one_that_cannot_list_the_objects_is_not_ready_until_it_can(
    operator: OperatorShell,
) -> None:
    with operator.behind_proxy() as proxy, operator.collecting() as running:
        for number, status in enumerate((403, 404, 500), 1):
            until_said(running, "info collecting\n", number)
            with proxy.answer(status, "/benchmarks"):
                proxy.cut()
                until_said(running, " not ready: ", number)
        until_said(running, "info collecting\n", 4)
        operator_process.end(running)


def test_one_whose_store_is_deleted_is_not_ready_and_begins_no_other(
    operator: OperatorShell,
) -> None:
    with operator.collecting() as running:
        running.until("info collecting\n")
        shutil.rmtree(operator.store)
        running.until(" not ready: ")
        running.until(" not ready: There is no store")
        operator_process.end(running)
    assert not operator.store.exists()


def test_an_api_server_that_restarts_is_never_taken_for_one_without_the_crd(
    own_cluster: OwnCluster, own_shell: Shell
) -> None:
    found: list[int | None] = []
    restarted = threading.Event()

    def look() -> None:
        place = own_shell.namespace.name
        api = connect(kubeconfig=str(own_cluster.kubeconfig), namespace=place)
        with contextlib.closing(api):
            api.retry_s = 1.0
            while not (restarted.is_set() and found[-1:] == [benchmark_object.SCHEMA]):
                with contextlib.suppress(ApiFault):
                    found.append(benchmark_objects.schema(api))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        with own_cluster.without("kube-apiserver"):
            found.clear()
        restarted.set()
        looking.result()
    assert set(found) == {benchmark_object.SCHEMA}

"""The collector: nothing lost, nothing doubled, whatever happens to it or around it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import disks
from tests.harness.cluster import collectors, users
from tests.harness.cluster.collectors import Collector
from tests.harness.cluster.shell import Shell, until


@pytest.fixture
def collector(own_shell: Shell, tmp_path: Path) -> Collector:
    return collectors.make(own_shell.namespace, tmp_path / "machine")


def test_of_two_the_second_waits_until_the_first_ends_or_is_killed(
    own_shell: Shell, collector: Collector
) -> None:
    logs = collectors.given(own_shell, "r1")
    with collector.collecting() as first:
        until(lambda: collector.archived("r1"), "lines of r1")
        with collector.collecting() as second:
            second.until(" holds Lease dlperf-collector")
            assert "Running" not in second.err
            collectors.end(first)
            second.until("Running")
            with collector.collecting("--log-format=json") as third:
                third.until(" holds Lease dlperf-collector")
                second.kill()
                logs.end()
                own_shell.finish("r1")
                collectors.check_collected(collector, "r1", logs)
                collectors.end(third)
            logged = [json.loads(line) for line in third.err.splitlines()]
            assert {line["level"] for line in logged} <= {"info", "warning"}
            of_run = [line["message"] for line in logged if line["run"] == "r1"]
            assert any(text.startswith("measured ") for text in of_run)


def test_one_that_may_no_more_use_its_lease_says_once_which_permission_it_lacks(
    own_shell: Shell, collector: Collector
) -> None:
    namespace, rules = own_shell.namespace, [collectors.LEASES, collectors.TOKENS]
    with collector.collecting() as running:
        running.until("info collecting\n")
        namespace.kubectl("delete", "role,rolebinding", f"{namespace.name}-collector-leases")
        running.until("warning not ready: ")
        users.grant(namespace, "collector", "leases", rules)
        until(lambda: running.err.count("info collecting\n") == 2, "its return")
        collectors.end(running)
    (said,) = [line for line in running.err.splitlines() if "not ready" in line]
    assert f"may not get leases.coordination.k8s.io in namespace {namespace.name}." in said


def test_a_disk_that_is_full_and_free_again_loses_nothing(
    own_shell: Shell, collector: Collector
) -> None:
    logs = collectors.given(own_shell, "r1")
    with disks.small(collector.store, "2m") as disk, collector.collecting() as running:
        until(lambda: collector.archived("r1"), "lines of r1")
        with disks.full(disk):
            logs.end()
            own_shell.finish("r1")
            running.until("disk is full")
            assert "r1" in own_shell.on_cluster()
        collectors.check_collected(collector, "r1", logs)
        collectors.end(running)


def test_a_job_that_is_removed_while_nobody_collects_leaves_a_lost_run(
    own_shell: Shell, collector: Collector
) -> None:
    logs = collectors.given(own_shell, "r1")
    with collector.collecting() as running:
        until(lambda: collector.archived("r1"), "lines of r1")
        running.kill()
    # As its ttlSecondsAfterFinished does it.
    logs.end()
    own_shell.finish("r1")
    own_shell.namespace.kubectl("delete", "pytorchjob", "r1", "--cascade=foreground")
    with collector.collecting() as running:
        until(lambda: collector.phase("r1") == "Lost", "the end of r1")
        collectors.end(running)
    end = collector.json("status", "r1")["history"][-1]
    assert (end["phase"], end["cause_id"]) == ("Lost", "job-gone")
    assert "while nobody collected" in end["cause"]
    assert collector.archived("r1")
    assert [run["run_id"] for run in collector.json("list")] == ["r1"]
    (row,) = collector.json("results")["rows"]
    assert [reason["id"] for reason in row["members"][0]["reasons"]] == ["run-lost"]

"""What a failed test shows of the components' logs: what went wrong meanwhile, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cluster import reporting
from tests.harness.cluster.own import tail


@pytest.mark.parametrize(
    "line",
    [
        'E1120 09:26:41.880860   17215 garbagecollector.go:358] "error syncing item"',
        "W1120 09:26:42.827123   17814 dispatcher.go:217] Failed calling webhook, failing closed",
        "F1120 09:26:42.827123   17814 server.go:1] no configuration",
        "panic: runtime error: invalid memory address",
        '2026-11-20T09:27:12Z\tERROR\tReconciler error\t{"controller": "pytorchjob-controller"}',
        'time="2026-11-20T09:27:12Z" level=warning msg="ReconcilePods error pods"',
        '{"time":"2026-11-20T09:26:39.5Z","level":"ERROR","msg":"failed to apply stage"}',
        '{"level":"warn","ts":"2026-11-20T09:26:39.5Z","msg":"slow fdatasync"}',
    ],
)
def test_trouble_is_shown(line: str) -> None:
    assert reporting.is_notable(line)


@pytest.mark.parametrize(
    "line",
    [
        "I1120 09:26:41.328557   17814 handler_discovery.go:451] Starting ResourceDiscoveryManager",
        "2026-11-20T09:27:12Z\tDEBUG\tNo ElasicPolicy or Metric is specified",
        'time="2026-11-20T09:27:12Z" level=info msg="Reconciling for job job"',
        '{"time":"2026-11-20T09:26:39.5Z","level":"INFO","msg":"Delete pod"}',
    ],
)
def test_what_went_well_is_not(line: str) -> None:
    assert not reporting.is_notable(line)


def test_the_tail_of_a_log_begins_where_the_test_did(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("before\n")
    start = log.stat().st_size
    with log.open("a") as more:
        more.write("".join(f"{number}\n" for number in range(5)))
    assert tail(log, start) == "0\n1\n2\n3\n4"
    assert tail(log, start, lines=2) == "3\n4"
    assert tail(log, start, wanted=lambda line: line == "1") == "1"
    assert tail(tmp_path / "none.log") == ""

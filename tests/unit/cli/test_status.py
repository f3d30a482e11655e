"""``k8sbench status``: what was planned, what became of it, what was measured, where it lies."""

from __future__ import annotations

import json
import pathlib

import msgspec
import pytest
import yaml

from k8sbench.adapters import processes
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.lifecycle.records import RunStatus
from k8sbench.model import attempts
from k8sbench.model.phase import Phase
from k8sbench.model.run import Location
from tests.unit.command_line import Cli
from tests.unit.store.examples import NOW, OWNER, REJECTION, archive, measurement, plan, step


def succeeded(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    store.move("seg-1", step(Phase.RUNNING, NOW + 4))
    archive(store, "hello")
    store.move("seg-1", step(Phase.SUCCEEDED, NOW + 94, cause="All replicas ended with 0."))


def test_a_valid_run(store: SqlStore, cli: Cli) -> None:
    succeeded(store)
    store.measured("seg-1", measurement())
    out, err = cli("status", "seg-1")
    assert err == ""
    head, table = out.split("\n\n")
    lines = dict(line.split(":", 1) for line in head.splitlines())
    assert lines["Run"].strip() == "seg-1"
    assert lines["Phase"].strip() == "Succeeded: All replicas ended with 0."
    assert "seg · pytorch · mm · fp32 · 1 replica × 1 process" in lines["Plan"]
    assert lines["Set"].strip().startswith("nightly, repeat 1; group g-")
    assert "running for 1m30s, ended 2026-11-20T07:34:54Z" in lines["Times"]
    assert lines["Verdict"].strip() == (
        "measured 12.50 images/s (time_weighted), trained to mIoU 0.5 %, valid,"
        " smoke: checks the path, not the speed"
    )
    assert lines["Files"].strip() == str(store.root / "runs" / "seg-1")
    assert table.splitlines() == [
        "TIME                   PHASE       AFTER   CAUSE",
        "2026-11-20T07:33:20Z   Created        0s   Recorded; nothing was started yet.",
        "2026-11-20T07:33:24Z   Running        4s   All replicas run.",
        "2026-11-20T07:34:54Z   Succeeded   1m34s   All replicas ended with 0.",
    ]


def test_a_rejected_run_gives_every_reason(store: SqlStore, cli: Cli) -> None:
    accepted = msgspec.structs.replace(REJECTION, id="gpu-count", accepted=True, evidence=())
    reasons = (REJECTION, accepted)
    succeeded(store)
    store.measured("seg-1", measurement(throughput=None, verdict="rejected", reasons=reasons))
    out = cli("status", "seg-1").out
    assert "Verdict: measured no figure" in out
    assert "Reasons: reject too-few-records: 4 records, 5 are needed." in out
    assert "accepted gpu-count" in out


def test_a_run_of_another_machine_says_that_it_cannot_be_seen(store: SqlStore, cli: Cli) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    out = cli("status", "seg-1").out
    assert "Process: pid 4711 on here; whether it still runs cannot be seen from here" in out
    assert "Verdict: not measured yet" in out


def test_a_run_whose_cluster_is_not_known_here_is_shown_as_it_is_on_record(
    root: pathlib.Path, cli: Cli
) -> None:
    gone = Location(server="https://s", namespace="team", context="gone", kubeconfig=None)
    with open_store() as store:
        store.record(plan(backend="kubernetes"), at=NOW, owner=None, location=gone)
    out, err = cli("status", "seg-1")
    assert "Phase:   Created: Recorded; nothing was started yet." in out
    assert "There is no context gone" in err
    assert "What is shown is on record." in err
    # What was typed wrong is an error, though.
    err = cli("status", "seg-1", "--kubeconfig", "/no/such", code=6).err
    assert "error: There is no context gone: /no/such does not exist." in err


def test_json_and_yaml_say_the_same(store: SqlStore, cli: Cli) -> None:
    succeeded(store)
    store.measured("seg-1", measurement())
    text = cli("status", "seg-1", "-o", "json").out
    said = json.loads(text)
    assert yaml.safe_load(cli("status", "seg-1", "-o", "yaml").out) == said
    assert msgspec.json.decode(text, type=RunStatus).plan == plan()
    assert said["schema"] == 2
    assert said["phase"] == "Succeeded"
    assert said["measurement"]["throughput"]["time_weighted"] == 12.5
    assert said["owner_alive"] is None


def test_a_run_that_restarted_says_how_often_and_why(store: SqlStore, cli: Cli) -> None:
    run = store.record(plan(max_restarts=3), at=NOW, owner=OWNER)
    store.move("seg-1", attempts.restarting(run.plan, 1, "worker-1 was killed.", NOW + 10))
    out = cli("status", "seg-1").out
    assert "Attempt 2 of 4: worker-1 was killed. (restarting)" in out
    assert ", 1 restart\n" in out
    assert cli.json("status", "seg-1", "-o", "json")["restarts"] == 1


def test_a_run_that_nobody_measures_any_more_says_how_to_do_that(
    store: SqlStore, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeeded(store)
    assert "k8sbench submit seg --resume nightly" in cli("status", "seg-1").out
    monkeypatch.setattr(processes, "alive", lambda _: False)
    err = cli("watch", "seg-1", code=None).err
    assert "Measure it with: k8sbench submit seg --resume nightly" in err

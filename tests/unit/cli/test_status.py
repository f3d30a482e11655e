"""``k8sbench status``: plan, state, measurement and files of a run."""

import json

import msgspec
import pytest
import yaml

from k8sbench.adapters import processes
from k8sbench.model.phase import Phase
from k8sbench.results.report import group_words
from k8sbench.results.report.document import RunStatus
from k8sbench.store.sql_store import SqlStore
from tests.unit.command_line import Cli
from tests.unit.store.examples import NOW, PROCESS, plan, step


@pytest.mark.usefixtures("runs")
def test_json_and_yaml_say_the_same(cli: Cli) -> None:
    text = cli("status", "seg-1", "-o", "json").out
    said = json.loads(text)
    assert yaml.safe_load(cli("status", "seg-1", "-o", "yaml").out) == said
    assert msgspec.json.decode(text, type=RunStatus).plan == plan(replicas=2)
    assert said["schema"] == 2
    assert said["phase"] == "Succeeded"
    assert said["measurement"]["throughput"]["time_weighted"] == 12.5
    assert said["owner_alive"] is None


def test_a_run_that_nobody_measures_any_more_says_how_to_do_that(
    store: SqlStore, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.record(plan(), at=NOW, process=PROCESS)
    store.move("seg-1", step(Phase.SUCCEEDED))
    resuming = group_words.resuming(plan())
    assert resuming.startswith("k8sbench submit seg --framework ")
    assert resuming in " ".join(cli("status", "seg-1").out.split())
    monkeypatch.setattr(processes, "alive", lambda _: False)
    err = cli("watch", "seg-1", code=None).err
    assert resuming in err

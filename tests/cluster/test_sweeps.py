"""Sweeps on a real cluster: what fits, baselines first, and resumed after any kill."""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from k8sbench.store.database import DATABASE
from tests.harness import children
from tests.harness.cluster import alterations, rack
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell, until

CASE = (
    "submit",
    "resnet50",
    "--replicas=1",
    "--gpus=1",
    "--batch-size=4",
    "--warmup=2",
    "--iterations=10",
)


@pytest.fixture(scope="module")
def two_nodes(cluster: OwnCluster) -> Iterator[None]:
    names = rack.start(cluster, "pair", 3, away=1)
    yield
    cluster.kubectl("delete", "nodes", *names)


@pytest.fixture
def sweeping(own_shell: Shell, two_nodes: None) -> Shell:
    numbered = children.calling(alterations.number_runs)
    own_shell.program = ("-c", numbered + children.K8SBENCH)
    own_shell.pools.write_text(rack.pools("pair"))
    return own_shell


def listed(shell: Shell) -> list[dict[str, Any]]:
    return list(shell.json("list"))


def test_cases_too_large_are_left_out_and_baselines_run_first(sweeping: Shell) -> None:
    words = ("submit", "deeplabv3p", "--all-cases", "--preset=smoke", "--framework=all")
    # The pods print nothing that could be measured.
    done = sweeping.run(*words, "--repeats=1", "--parallel=1", code=5)
    left_out = [line for line in done.err.splitlines() if line.startswith("left out: ")]
    assert left_out == [
        "left out: deeplabv3p pytorch 4x8: pool rack has room for 2 of its 4 replicas.",
        "left out: deeplabv3p paddle 4x8: pool rack has room for 2 of its 4 replicas.",
    ]
    runs = listed(sweeping)
    assert [run["case"] for run in runs] == ["1x1", "1x1", "1x8", "2x8", "1x8"]
    # One bad case stops no other, and each says how far the sweep is.
    assert {run["verdict"] for run in runs} == {"rejected"}
    assert "1 of 5 ended, about " in done.err
    assert "5 of 5 ended; deeplabv3p" in done.err


def test_killed_at_each_run_and_resumed_each_case_runs_once(sweeping: Shell) -> None:
    rack.logs(sweeping, range(1, 6))
    words = (*CASE, "--repeats=4", "--parallel=2")
    for kill_at in range(1, 5):
        sweeping.environment["FIRST_RUN"] = str(len(begun(sweeping)) + 1)
        which = ("--set=night",) if kill_at == 1 else ("--resume=night",)
        with sweeping.started(*words, *which) as running:
            until(lambda at=kill_at: len(begun(sweeping)) >= at, f"run {kill_at}")  # type: ignore[misc]
            running.kill()
    sweeping.environment["FIRST_RUN"] = str(len(begun(sweeping)) + 1)
    done = sweeping.run(*words, "--resume=night")
    runs = listed(sweeping)
    assert [(run["phase"], run["verdict"]) for run in runs] == [("Succeeded", "valid")] * 4
    assert sorted(run["repeat"] for run in runs) == [1, 2, 3, 4]
    assert " 4/4 " in done.out
    # What a kill left of jobs that were measured is deleted by the next collect.
    sweeping.run("collect", "--all")
    assert sweeping.on_cluster() == []
    # Once more there is nothing to do.
    again = sweeping.run(*words, "--resume=night")
    assert "4 of 4 exist already: nothing to do" in again.err
    assert again.out == done.out
    assert len(listed(sweeping)) == 4


def begun(shell: Shell) -> list[str]:
    """The runs that are recorded, without asking k8sbench, which takes longer than a run.

    Asked of the database: a run whose folder stands may still be killed before it is on record.
    """
    uri = f"file:{shell.store / DATABASE}?mode=ro"
    # Neither the file nor its tables may be there yet.
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(uri, uri=True)) as database,
    ):
        return [run_id for (run_id,) in database.execute("SELECT run_id FROM runs")]
    return []

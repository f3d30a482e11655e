"""TrainJobs of Kubeflow Trainer v2, beside the training operator of v1 on one cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import tiers
from tests.harness.cluster import bringup, fixture, tools
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.nodes import EXIT_CODE, RUN_FOR
from tests.harness.cluster.shell import ENDLESS, Shell

TRAINJOB = "--job-kind=trainjob"


@pytest.fixture(scope="module")
def cluster(
    programs: tools.Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Give a cluster with both operators."""
    del programs
    if (reason := tools.missing(tools.OPERATORS)) is not None:
        tiers.absent("cluster", reason)
    own = bringup.start(fixture.new_folder(tmp_path_factory), bringup.Options(has_trainer=True))
    yield own
    own.end()


def failing(shell: Shell, **annotations: str) -> str:
    """Write a pools file whose pods do as they are told; returns the option that names it."""
    told = "".join(f", {key}: {value!r}" for key, value in annotations.items())
    text = shell.pools.read_text().replace(f"{RUN_FOR}: 0s", f"unused: ''{told}")
    path = shell.folder / "failing.yaml"
    path.write_text(text)
    return f"--pools={path}"


def test_where_both_are_served_v1_comes_first_and_the_other_way_is_named(own_shell: Shell) -> None:
    said = own_shell.submit("first", ENDLESS, "--detach").err
    assert "jobs of the training operator v1, Kubeflow Trainer v2 with --job-kind trainjob" in said
    assert own_shell.on_cluster("pytorchjobs") == ["first"]
    own_shell.submit("second", ENDLESS, "--detach", TRAINJOB)
    assert own_shell.on_cluster("trainjobs") == ["second"]
    rows = {row["run_id"]: row for row in own_shell.json("list", "-n", own_shell.namespace.name)}
    assert rows.keys() == {"first", "second"}
    own_shell.run("delete", "first", "second")


def test_the_replica_that_failed_is_named_though_the_others_are_deleted(own_shell: Shell) -> None:
    pools = failing(own_shell, **{f"{RUN_FOR}.node-1": "1s", f"{EXIT_CODE}.node-1": "3"})
    own_shell.submit("bad", TRAINJOB, pools, code=3)
    status = own_shell.json("status", "bad")
    assert status["phase"] == "Failed"
    end = status["history"][-1]
    assert end["cause_id"] == "replica-failed"
    assert "node-1" in end["cause"]
    assert "code 3" in end["cause"]

"""``nodes`` on a real cluster: one run per node, slow and faulty nodes."""

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.cluster.exposing import expose
from tests.docs import pages
from tests.harness import children
from tests.harness.cluster import alterations, metric_source, operator_process, rack
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell
from tests.tiers import ROOT

PROGRAM = (
    children.calling(alterations.number_runs)
    + children.calling(metric_source.install)
    + children.K8SBENCH
)
PAGE = ROOT / "docs" / "kubernetes.md"
NODES = 6
CASE = ("nodes", "resnet50", "--gpus=1", "--batch-size=4", "--warmup=2", "--iterations=10")


@pytest.fixture(scope="module")
def rack_nodes(cluster: OwnCluster) -> Iterator[None]:
    """Add six fitting nodes, one without a GPU and one cordoned."""
    names = rack.start(cluster, "rack", NODES + 2, small=[NODES], away=1)
    yield
    cluster.kubectl("delete", "nodes", *names)


@pytest.fixture
def checking(own_shell: Shell, rack_nodes: None) -> Shell:
    own_shell.program = ("-c", PROGRAM)
    own_shell.pools.write_text(rack.pools("rack"))
    return own_shell


def test_each_node_has_its_run_and_the_slow_and_the_faulty_one_are_named(checking: Shell) -> None:
    # Two would be slow, and are measured once more: by runs 7 and 8.
    rack.logs(checking, range(1, NODES + 3), {2: 0.06, 3: 0.08, 7: 0.0, 8: 0.08})
    checking.environment["FAULTY"] = "rack-4"
    words = (*CASE, "--parallel=3", "--set=july", "--output=json")
    done = checking.run(*words, code=7)
    slowest, *others = json.loads(done.out)["rows"]
    assert slowest["node"] == "rack-2"
    assert {row["node"] for row in others} == {f"rack-{one}" for one in range(NODES)} - {"rack-2"}
    remarks = {row["node"]: row["judgements"][:1] for row in (slowest, *others)}
    assert remarks.pop("rack-2")[0].startswith("rack-2 is slow: It is 7.")
    assert remarks.pop("rack-4")[0].startswith("rack-4 is faulty: ")
    assert not any("rack-" in text for texts in remarks.values() for text in texts)
    assert "left out: node rack-6: offers 0 of nvidia.com/gpu, 1 are needed." in done.err
    assert "left out: node rack-7: cordoned." in done.err
    assert "kubectl cordon rack-2 rack-4\n" in done.err
    assert "6 of 6 ended; " in done.err
    # Each pod was on its own node, by name: the label of its host is another.
    plans = [checking.json("status", run["run_id"])["plan"] for run in checking.json("list")]
    pinned = [*range(NODES), 1, 2]
    assert sorted(plan["node"] for plan in plans) == [f"rack-{one}" for one in sorted(pinned)]
    assert checking.on_cluster() == []

    # The same set once more: nothing is run, and the table is that of before.
    again = checking.run(*CASE, "--resume=july", code=7)
    assert again.err.count("1 of 1 exists already: nothing to do") == NODES
    assert "  kubectl cordon rack-2 rack-4\n" in again.out
    assert "rack-2 is slow: It is 7." in again.out
    assert len(checking.json("list")) == NODES + 2
    assert checking.run(*CASE, "--resume=july", "--output=name", code=7).out == "rack-2\nrack-4\n"


def test_an_operator_runs_the_case_on_each_node_and_once_more_on_one_that_may_be_slow(
    own_cluster: OwnCluster, checking: Shell, tmp_path: Path
) -> None:
    operator = operator_process.make(checking.namespace, tmp_path / "machine")
    operator.pools.write_text(rack.pools("rack"))
    # Its objects are resnet50-a and resnet50-b.
    named = children.calling(alterations.name_objects, "ab")
    checking.program = ("-c", named + children.K8SBENCH)
    # Number 3 is of rack-2, and slow; its second run is as fast as the others.
    rack.logs(checking, range(1, NODES + 1), {3: 0.08}, name="resnet50-a")
    rack.logs(checking, (1, 2), {}, name="resnet50-b")
    with operator.collecting() as running:
        expose(own_cluster, checking, running)
        done = checking.run(*CASE, "--set=july", "--output=json", code=None)
        operator_process.end(running)
    asked = {name: checking.namespace.get("benchmark", f"resnet50-{name}")["spec"] for name in "ab"}
    every = [f"rack-{one}" for one in range(NODES)]
    assert {name: spec["nodes"] for name, spec in asked.items()} == {"a": every, "b": ["rack-2"]}
    assert sorted(row["node"] for row in json.loads(done.out)["rows"]) == every
    runs = operator.json("list", "--store=local")
    plans = [operator.json("status", run["run_id"])["plan"] for run in runs]
    assert sorted(plan["node"] for plan in plans) == sorted([*every, "rack-2"])
    assert not (checking.store / "runs").exists()


def test_the_commands_of_the_page_run_in_its_order(checking: Shell) -> None:
    checking.pools.write_text(rack.pools("rack"))
    program = checking.folder / "k8sbench"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}")
    program.chmod(0o755)
    path = f"{checking.folder}:{os.environ['PATH']}"
    rack.logs(checking, range(1, 2 * NODES + 1))
    for command in pages.commands(PAGE, "Which node is slow"):
        # Ours have one GPU, few steps, and no zones.
        text = command.text.replace(" nodes resnet50", f" {shlex.join(CASE)}")
        text = text.replace("-l zone=b", "-l k8sbench.test/row=even")
        first = len(list(checking.store.glob("runs/*"))) + 1
        variables = {**checking.environment, "PATH": path, "FIRST_RUN": str(first)}
        pages.run(msgspec.structs.replace(command, text=text), checking.folder, variables)
    assert len(checking.json("list")) == NODES + NODES // 2

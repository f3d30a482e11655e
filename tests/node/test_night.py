"""The chart on real nodes: scheduled submission, operator and lasting results."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import helm as programs
from tests.harness import release as releases
from tests.harness.cluster import pki, users
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.pki import Subject
from tests.harness.cluster.shell import Shell, until
from tests.harness.helm import RELEASE, Helm, merged
from tests.harness.node import frameworks, image, operator_image
from tests.harness.node.cluster import NodeCluster
from tests.harness.release import OPERATOR, PATIENCE, Release

USER = 65532
"""As whom the operator runs: the owner of its volume."""
PERSON, NIGHT = "ann", "tonight"
SUBMITS = (
    *("resnet50", "--replicas=1", "--preset=smoke", "--node-pool=small"),
    *("--warmup=1", f"--image={image.PYTHON}"),
)
LENGTHS = ("--iterations=5", "--iterations=6")
"""Lengths of the night's two submits, a case each."""


@pytest.fixture
def ann(node_cluster: NodeCluster, trained_in: Namespace, tmp_path: Path) -> Shell:
    """Provide a user with a certificate, without store and pools file."""
    made, folder = node_cluster.layout.pki, tmp_path / PERSON
    pki.sign(made, PERSON, Subject(PERSON, use="clientAuth"))
    signed = {
        "client-certificate": str(made.certificate(PERSON)),
        "client-key": str(made.key(PERSON)),
    }
    folder.mkdir()
    shell = Shell(
        trained_in, users.write_kubeconfig(trained_in, folder / "kubeconfig", signed), folder
    )
    del shell.environment["K8SBENCH_POOLS"]
    return shell


@pytest.fixture
def values(
    node_cluster: NodeCluster, trained_in: Namespace, operator_image_name: str, tmp_path: Path
) -> Iterator[dict[str, Any]]:
    """Return the values of the team's chart; its volume is a local folder."""
    (disk := tmp_path / "disk").mkdir()
    os.chown(disk, USER, USER)
    group = "rbac.authorization.k8s.io"
    with releases.volume(node_cluster, trained_in.name, disk) as claimed:
        of_team = {
            "users": {"subjects": [{"kind": "User", "name": PERSON, "apiGroup": group}]},
            "nodePools": json.loads(frameworks.pools())["pools"],
            "operator": {"image": operator_image.VALUES},
            "nightly": {"enabled": True, "submits": [[*SUBMITS, length] for length in LENGTHS]},
        }
        yield merged(claimed, of_team)


def everything(shell: Shell) -> Any:
    """Return runs, rows and lines that a machine without a store gets."""
    runs = shell.json("list")
    logs = {run["run_id"]: shell.run("logs", run["run_id"]).out for run in runs}
    return runs, shell.json("results"), logs


@pytest.mark.tier("helm")
def test_a_night_is_measured_and_its_row_outlives_the_release(
    node_cluster: NodeCluster,
    trained_in: Namespace,
    ann: Shell,
    values: dict[str, Any],
    tmp_path: Path,
) -> None:
    newest = Helm(max(programs.MODULES), tmp_path, node_cluster.variables())
    release = Release(newest, trained_in)
    release.run("install", *PATIENCE, values=values)
    trained_in.kubectl("create", "job", NIGHT, f"--from=cronjob/{RELEASE}-nightly")
    trained_in.wait("condition=Complete", f"job/{NIGHT}")
    valid = ["valid"] * len(LENGTHS)
    until(lambda: [one["verdict"] for one in ann.json("list")] == valid, "the night's rows")
    until(lambda: ann.on_cluster("pods") == [], "no pods")
    known = everything(ann)
    (runs, rows, logs) = known
    assert {(run["set_name"], run["source"]) for run in runs} == {(NIGHT, "operator")}
    assert len(rows["rows"]) == len(LENGTHS)
    assert all('"event": "step", "step": 6,' in log for log in logs.values())
    assert len(trained_in.kubectl("get", "benchmarks", "--output=name").split()) == len(LENGTHS)
    made = ("get", "leases,secrets", "--output=name")
    assert f"secret/{OPERATOR}-token" in trained_in.kubectl(*made)
    release.run("uninstall", *PATIENCE)
    assert release.objects() == {f"persistentvolumeclaim/{OPERATOR}"}
    # The operator made the token; the Lease stays, as its last sign of life.
    assert f"secret/{OPERATOR}-token" in trained_in.kubectl(*made)
    assert "/k8sbench-operator" in trained_in.kubectl(*made)
    release.run("install", *PATIENCE, values=values)
    release.pod()
    assert everything(ann) == known
    check_a_running_job_outlives_the_release(ann, trained_in, release, values)


def check_a_running_job_outlives_the_release(
    ann: Shell, namespace: Namespace, release: Release, values: dict[str, Any]
) -> None:
    """Uninstall the chart while a job runs: the next operator measures it."""
    # At a fifth of a core the imports alone take longer than it takes to uninstall the chart.
    ann.run("submit", *SUBMITS, LENGTHS[0], "--run-id=going-on", "--detach")

    def job() -> dict[str, Any]:
        (found,) = namespace.get("pytorchjobs")
        return dict(found)

    until(lambda: ann.json("list")[-1]["phase"] == "Running", "its job to run")
    uid = job()["metadata"]["uid"]
    release.run("uninstall", *PATIENCE)
    assert job()["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in job()["metadata"]
    release.run("install", *PATIENCE, values=values)
    until(lambda: ann.json("list")[-1]["verdict"] == "valid", "its row")

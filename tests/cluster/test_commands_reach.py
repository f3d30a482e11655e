"""Which cluster and namespace a command talks to, and what it says where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import CASE, Shell

SUBMIT = ("submit", *CASE, "--node-pool=endless", "--detach")


def dead(shell: Shell) -> str:
    """The kubeconfig of a cluster that has gone."""
    config = json.loads(Path(shell.environment["KUBECONFIG"]).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"  # where nobody listens
    path = shell.folder / "dead.kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


def test_cluster_and_namespace_are_chosen_as_with_kubectl(
    shell: Shell, namespace: Namespace
) -> None:
    here = shell.environment["KUBECONFIG"]
    # Named on the command line, wherever KUBECONFIG points.
    done = shell.run(
        *SUBMIT, "--run-id=named", f"--kubeconfig={here}", "--context=test",
        f"--namespace={shell.namespace.name}", KUBECONFIG=dead(shell),
    )  # fmt: skip
    assert f"context test of {here}, namespace {shell.namespace.name}" in done.err
    # Recorded with the run, so that no later command need name it.
    status = json.loads(shell.run("status", "named", "-ojson", KUBECONFIG=dead(shell)).out)
    assert status["location"]["namespace"] == shell.namespace.name
    assert status["on_cluster"] is not None
    shell.run("delete", "named", KUBECONFIG=dead(shell))
    assert "named" not in shell.on_cluster()
    # A namespace where one may do nothing.
    denied = shell.run(*SUBMIT, f"--namespace={namespace.name}", code=6)
    assert f"may not get configmaps in namespace {namespace.name}." in denied.err
    assert "role.yaml" in denied.err


def test_a_dry_run_creates_nothing(shell: Shell) -> None:
    for where in ("client", "server"):
        done = shell.run("submit", *CASE, f"--dry-run={where}")
        kinds = [one["kind"] for one in yaml.safe_load_all(done.out)]
        assert kinds == ["ConfigMap", "PyTorchJob"]
        assert done.err.startswith("resnet50 · pytorch · ")
        assert "\nbackend kubernetes: current context test" in done.err
    assert done.err.endswith("  The cluster takes the job; nothing was created.\n")
    assert shell.on_cluster() == []
    assert shell.json("list") == []


def test_a_dry_run_on_the_server_says_what_it_would_refuse(shell: Shell) -> None:
    nowhere = shell.run("submit", *CASE, "--node-pool=nowhere", "--dry-run=server", code=6)
    assert "  fail " in nowhere.err
    assert "no.such/label" in nowhere.err

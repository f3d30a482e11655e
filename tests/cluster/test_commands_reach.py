"""Which cluster and namespace a command talks to, and what it says where there is none."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
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
    assert f"may not create configmaps in namespace {namespace.name}." in denied.err
    assert "role.yaml" in denied.err


def test_what_is_named_and_is_not_there_is_an_error(shell: Shell) -> None:
    wrong = shell.run(*SUBMIT, "--context=tset", code=6)
    assert "has no context tset.\n  It has: test." in wrong.err
    missing = shell.run(*SUBMIT, "--kubeconfig=/no/such", code=6)
    assert "error: The kubeconfig /no/such does not exist." in missing.err
    admin = str(shell.namespace.cluster.kubeconfig)
    elsewhere = shell.run(*SUBMIT, "--namespace=no-such", f"--kubeconfig={admin}", code=2)
    assert "error: There is no namespace no-such on https://" in elsewhere.err
    # What was planned is printed, and on record as failed; nothing was created.
    assert elsewhere.err.startswith("resnet50 · pytorch · ")
    (run,) = shell.json("list")
    assert run["phase"] == "Failed"


def test_a_cluster_that_does_not_answer_is_an_error_where_it_was_asked_for(shell: Shell) -> None:
    for words in (("--backend=kubernetes",), ("--context=test",), ("--namespace=x",)):
        asked = shell.run(*SUBMIT, *words, code=6, KUBECONFIG=dead(shell))
        assert "of context test cannot be reached: connection refused." in asked.err
    none = shell.run(*SUBMIT, "--backend=kubernetes", code=6, KUBECONFIG=None)
    assert "error: No cluster is configured: ~/.kube/config does not exist" in none.err
    assert "--kubeconfig" in none.err
    assert shell.json("list") == []
    # What is only looked at is not waited for.
    listed = shell.run("list", "--namespace=x", code=6, KUBECONFIG=dead(shell))
    assert "of context test cannot be reached: connection refused." in listed.err
    nowhere = shell.run("status", "nope", code=2, KUBECONFIG=dead(shell))
    assert "The cluster could not be queried: The API server https://127.0.0.1:" in nowhere.err


def test_credentials_that_are_not_accepted_start_no_run_on_this_machine(shell: Shell) -> None:
    config = json.loads(Path(shell.environment["KUBECONFIG"]).read_text())
    config["users"][0]["user"] = {"token": "expired"}
    path = shell.folder / "expired.kubeconfig"
    path.write_text(json.dumps(config))
    done = shell.run("submit", "resnet50", "--preset=smoke", code=6, KUBECONFIG=str(path))
    assert "does not accept these credentials" in done.err
    assert "--backend local" in done.err
    assert shell.json("list") == []


def test_without_a_cluster_a_run_is_local_and_says_why_in_one_line(shell: Shell) -> None:
    words = ("submit", "resnet50", "--preset=smoke", "--dry-run")
    local = shell.run(*words, KUBECONFIG=None)
    (line,) = (line for line in local.err.splitlines() if line.startswith("backend "))
    assert line.startswith("backend local: ")
    assert "no cluster is configured" in line
    assert "· local ·" in local.err
    # One that was named and is not there was meant for a cluster.
    missing = shell.run(*words, KUBECONFIG="/no/such", code=6)
    assert "error: KUBECONFIG (/no/such) does not exist." in missing.err
    refused = shell.run(*words[:-1], "--detach", code=2, KUBECONFIG=None)
    assert "--detach is for jobs on a cluster, and this run is local" in refused.err


def test_a_dry_run_creates_nothing(shell: Shell) -> None:
    for where in ("client", "server"):
        done = shell.run("submit", *CASE, f"--dry-run={where}")
        kinds = [one["kind"] for one in yaml.safe_load_all(done.out)]
        assert kinds == ["ConfigMap", "PyTorchJob"]
        assert done.err.startswith("resnet50 · pytorch · ")
        assert "\nbackend kubernetes: current context test" in done.err
    assert "warn not-tried: The pods themselves were not tried: User " in done.err
    takes = "  The cluster takes the job; whether it takes the pods is not known."
    assert done.err.endswith(f"{takes} Nothing was created.\n")
    assert shell.on_cluster("pytorchjobs,configmaps") == []
    assert shell.json("list") == []


def test_a_dry_run_on_the_server_says_what_it_would_refuse(shell: Shell) -> None:
    nowhere = shell.run("submit", *CASE, "--node-pool=nowhere", "--dry-run=server", code=6)
    assert "  fail " in nowhere.err
    assert "no.such/label" in nowhere.err


def test_a_pod_reaches_its_own_cluster(
    namespace: Namespace, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what every pod has: two variables, and the folder of its service account."""
    monkeypatch.delenv("KUBECONFIG")
    config = json.loads(user.read_text())
    (cluster,), (account,) = config["clusters"], config["users"]
    authority = cluster["cluster"]["certificate-authority-data"]
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(authority))
    (tmp_path / "token").write_text(account["user"]["token"])
    (tmp_path / "namespace").write_text(namespace.name)
    server = urlsplit(cluster["cluster"]["server"])
    environ = {
        "HOME": str(tmp_path),
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    api = connection.connect(environ=environ, service_account=tmp_path)
    with contextlib.closing(api), contextlib.closing(KubernetesCluster(api)) as found:
        assert (api.why, api.place.namespace) == ("in-cluster configuration", namespace.name)
        assert found.jobs() == []

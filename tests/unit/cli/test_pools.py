"""``k8sbench pools``: which pools there are, and where they come from."""

import io
from pathlib import Path

import pytest

from k8sbench.adapters.kubernetes import listing
from k8sbench.app import connections
from k8sbench.catalog import pool_files
from k8sbench.model.kube import KubeObject
from tests.unit.command_line import Cli
from tests.unit.doctor.clusters import node
from tests.unit.kubernetes import servers

NOWHERE = "https://127.0.0.1:1"
"""Address without a server."""


@pytest.fixture(autouse=True)
def _nothing_configured(no_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv(pool_files.POOLS_VARIABLE, raising=False)


def test_yaml_is_the_file_as_it_is_written(tmp_path: Path, cli: Cli) -> None:
    own = tmp_path / "own.yaml"
    lines = (f"  - {{name: {name}, gpus_per_node: 1, gpu_model: T4}}\n" for name in "ab")
    own.write_text(f"pools:  # ours\n{''.join(lines)}")
    assert cli("pools", "--pools", str(own), "-o", "yaml").out == own.read_text()
    reported = f"pools from {own}; default: none: --node-pool is required\n"
    assert cli("pools", "--pools", str(own), "-o", "name").out == "a\nb\n"
    assert cli("pools", "--pools", str(own)).err == reported
    own.write_text(cli("pools", "-o", "yaml").out)
    found = cli.json("pools", "-o", "json")
    assert (found["source"], found["default"]) == ("built-in", "v100-32gb")
    again, built_in = pool_files.load_pools(str(own)), pool_files.load_pools()
    assert (again.pools, again.default) == (built_in.pools, built_in.default)


def test_a_proposal_is_yaml_alone(cli: Cli) -> None:
    assert "-o yaml" in cli("pools", "--from-cluster", "-o", "json", code=2).err


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_file_names_the_command_that_failed_to_write_it(
    text: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text(text)
    monkeypatch.setenv(pool_files.POOLS_VARIABLE, str(file))
    for words in (("pools",), ("render", "resnet50"), ("pools", "--pools", str(file))):
        err = cli(*words, code=2).err
        assert f"{file}: is empty" in err
        assert "k8sbench pools --from-cluster" in err


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([], "None of 0 nodes offers GPUs"),
        ([node(gpus="0")], "None of 1 node offers GPUs"),
        ([node(ready="False"), node("b", unschedulable=True)], "gpu-0 (not ready), b (cordoned)"),
    ],
)
def test_without_a_node_to_propose_the_reason_is_given(
    nodes: list[KubeObject], says: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "connect", lambda access: io.BytesIO())
    monkeypatch.setattr(listing, "nodes", lambda api, labels: nodes)
    assert says in cli("pools", "--from-cluster", code=2).err


def test_only_a_named_cluster_must_answer(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / ".kube" / "config"
    path.parent.mkdir()
    servers.kubeconfig(path, server=NOWHERE)
    out, err = cli("pools")
    assert "v100-16gb" in out
    assert (
        "warning: the pools of the cluster are not read: The API server https://127.0.0.1:1" in err
    )
    err = cli("pools", "--kubeconfig", str(path), code=6).err
    assert "cannot be reached: connection refused" in err

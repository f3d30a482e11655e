"""``k8sbench pools``: which pools there are, and where they come from."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from k8sbench.adapters.files import pools
from tests.unit.command_line import Cli
from tests.unit.kubernetes import servers

NOWHERE = "https://127.0.0.1:1"
"""Where nobody listens."""


@pytest.fixture(autouse=True)
def _nothing_configured(no_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv(pools.VARIABLE, raising=False)


def test_the_table_names_each_pool_and_the_file_and_the_default(cli: Cli) -> None:
    out, err = cli("pools")
    header, *rows = out.splitlines()
    assert header.split() == ["POOL", "GPUS", "GPU", "MODEL", "CPU", "MEMORY", "SELECTOR"]
    names = ["v100-16gb", "v100-32gb", "a100", "h100", "h200"]
    assert [row.split()[0] for row in rows] == cli("pools", "-o", "name").out.split() == names
    assert "nvidia.com/gpu.product=Tesla-V100-SXM2-16GB" in rows[0]
    assert err == "pools from built-in; default: v100-32gb\n"
    found = cli.json("pools", "-o", "json")
    assert [pool["name"] for pool in found["pools"]] == names
    assert (found["source"], found["default"]) == ("built-in", "v100-32gb")


def test_yaml_is_the_file_as_it_is_written(tmp_path: Path, cli: Cli) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("pools:  # ours\n  - {name: a, gpus_per_node: 1, gpu_model: T4}\n")
    assert cli("pools", "--pools", str(own), "-o", "yaml").out == own.read_text()
    own.write_text(cli("pools", "-o", "yaml").out)
    again, built_in = pools.load(str(own)), pools.load()
    assert (again.pools, again.default) == (built_in.pools, built_in.default)


def test_several_pools_without_a_default_say_that_one_must_be_named(
    tmp_path: Path, cli: Cli
) -> None:
    own = tmp_path / "own.yaml"
    listed = [{"name": name, "gpus_per_node": 1, "gpu_model": "T4"} for name in "ab"]
    own.write_text(yaml.safe_dump({"pools": listed}))
    err = cli("pools", "--pools", str(own)).err
    assert err == f"pools from {own}; default: none: --node-pool is required\n"


def test_a_configured_cluster_that_does_not_answer_is_a_warning_unless_it_was_named(
    tmp_path: Path, cli: Cli
) -> None:
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

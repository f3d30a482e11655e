"""Node pools: where they come from, and what a pool may say."""

import pathlib
import re
from decimal import Decimal

import pytest

from k8sbench.catalog import pool_files
from k8sbench.model.errors import InputError, NotFound, UsageError
from k8sbench.model.pool import parse_quantity

ONE = "pools:\n- name: a\n  gpus_per_node: 1\n  gpu_model: X\n"
POOL = "pools:\n- {{name: {name}, gpus_per_node: 4, gpu_model: Tesla T4}}\n"


def file(path: pathlib.Path, name: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(POOL.format(name=name))
    return str(path)


def test_the_first_file_counts(tmp_path: pathlib.Path, private_home: pathlib.Path) -> None:
    option = file(tmp_path / "option.yaml", "by-option")
    variable = file(tmp_path / "variable.yaml", "by-variable")
    config = file(tmp_path / "config" / "k8sbench" / "pools.yaml", "by-config")
    home = file(private_home / ".config" / "k8sbench" / "pools.yaml", "by-home")
    env = {
        "K8SBENCH_POOLS": variable,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "HOME": str(private_home),
    }

    def taken(path: str | None, *without: str) -> tuple[str, list[str]]:
        kept = {key: value for key, value in env.items() if key not in without}
        found = pool_files.load_pools(path, environ=kept)
        return found.source, list(found.pools)

    assert taken(option) == (option, ["by-option"])
    assert taken(None) == (variable, ["by-variable"])
    assert taken(None, "K8SBENCH_POOLS") == (config, ["by-config"])
    assert taken(None, "K8SBENCH_POOLS", "XDG_CONFIG_HOME") == (home, ["by-home"])
    assert taken(None, "K8SBENCH_POOLS", "XDG_CONFIG_HOME", "HOME")[0] == "built-in"
    env["XDG_CONFIG_HOME"] = "config"  # as the standard says, one that is not absolute is no folder
    assert taken(None, "K8SBENCH_POOLS") == (home, ["by-home"])


def test_a_cluster_gives_pools_only_to_users_without(tmp_path: pathlib.Path) -> None:
    text = POOL.format(name="by-cluster")
    nobody = {"HOME": str(tmp_path)}

    def published() -> pool_files.PublishedPools | None:
        return text, "ConfigMap team-a/dlperf-pools"

    found = pool_files.load_pools(environ=nobody, published=published)
    assert (found.source, list(found.pools)) == ("ConfigMap team-a/dlperf-pools", ["by-cluster"])
    assert pool_files.load_pools(environ=nobody, published=lambda: None).source == "built-in"
    variable = {**nobody, "K8SBENCH_POOLS": file(tmp_path / "v.yaml", "by-variable")}
    assert list(pool_files.load_pools(environ=variable, published=pytest.fail).pools) == [
        "by-variable"
    ]


def test_an_unknown_pool_is_answered_with_the_nearest_and_the_list() -> None:
    with pytest.raises(NotFound) as caught:
        pool_files.load_pools().pool("v100-32g")
    assert "Did you mean v100-32gb?" in caught.value.action
    assert "v100-16gb, v100-32gb, a100, h100, h200" in caught.value.action
    assert "built-in" in caught.value.message


def test_only_several_pools_need_a_default(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(POOL.format(name="a"))
    assert pool_files.load_pools(str(path)).pool().name == "a"
    path.write_text(POOL.format(name="a") + "- {name: b, gpus_per_node: 0, gpu_model: null}\n")
    assert pool_files.load_pools(str(path)).pool("b").gpus_per_node == 0
    with pytest.raises(UsageError, match="no default") as caught:
        pool_files.load_pools(str(path)).pool()
    assert "--node-pool: a, b" in caught.value.action


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("pools: []\n", 1, "pools should be at least one pool"),
        ("pool: []\n", 1, "unknown key 'pool'"),
        (POOL.format(name="a") + "default: b\n", 3, "default is 'b'"),
        (POOL.format(name="a") * 2, 3, "a second time"),
        (POOL.format(name="a") + "- {name: a, gpus_per_node: 1, gpu_model: X}\n", 3, "says a a"),
        (POOL.format(name="A B"), 2, "pools[0].name should be a name of lower-case"),
        (ONE.replace(": 1", ": 65"), 3, "should be a whole number <= 64"),
        (ONE.replace(": 1", ": -1"), 3, "should be a whole number >= 0"),
        (ONE.replace(": X", ": null"), 4, "gpu_model is null"),
        (
            ONE + "  tolerations:\n  - {key: a}\n  - {key: b, tolerationSeconds: 60}\n",
            7,
            "NoExecute",
        ),
    ],
)
def test_a_wrong_file_has_a_line(tmp_path: pathlib.Path, text: str, line: int, said: str) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        pool_files.load_pools(str(path))
    assert said in caught.value.message
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("shm: 8GB", "quantity"),
        ("shm: 8", "shm should be"),
        ("shm: '0'", "shm is 0"),
        ("shm: 33Gi", "more than"),
        ("cpu_per_gpu: -1", "cpu_per"),
        ("nccl_env: {A B: c}", "environment variable"),
        ('nccl_env: {A: "\\0"}', "without a NUL"),
        ("nccl_env: {NCCL.DEBUG-1: INFO}", None),
        ("selector: {a b: c}", "a Kubernetes name"),
        (f"selector: {{b: {'c' * 64}}}", "a label's value"),
        (f"selector: {{{'a' * 253}/b: {'c' * 63}, d: ''}}", None),
        ("annotations: {Example.com/Team: vision}", None),
        ("gpu_resource: gpu", "an extended resource"),
        (f"gpu_resource: {'a' * 100}.com/gpu", None),
        ("runtime_class: NVIDIA", "lower-case"),
        (f"runtime_class: {'a' * 253}", None),
        (f"priority_class: {'a' * 254}", "a Kubernetes name"),
        ("image_pull_secrets: [ok, no good]", "lower-case"),
        ("python_packages: pvc:a/../b", "pvc:NAME[/SUB]"),
        ("tolerations: [{key: k, operator: Exist}]", "not one of Exists, Equal"),
        ("tolerations: [{key: k, value: v, operator: Exists}]", "Exists takes none"),
        ("tolerations: [{effect: NoSchedule}]", "must be Exists"),
        ("tolerations: [{key: k, effect: Never}]", "not one of"),
        ("tolerations: [{key: k, value: a b}]", "a label's value"),
        ("tolerations: [{key: dedicated, value: ml, effect: NoSchedule}]", None),
        ("tolerations: [{key: k, effect: NoExecute, tolerationSeconds: 60}]", None),
        ("rdma: {resource: rdma/hca, count: 0}", "count should be a whole number >= 1"),
    ],
)
def test_kubernetes_fields_are_valid(tmp_path: pathlib.Path, line: str, said: str | None) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(f"{ONE}  {line}\n")
    if said is None:
        pool_files.load_pools(str(path))
        return
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        pool_files.load_pools(str(path))
    assert caught.value.line == 5


@pytest.mark.parametrize(
    ("quantity", "number"),
    [
        ("0", "0"),
        ("500m", "0.5"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("2E", "2000000000000000000"),
        ("2Ei", "2305843009213693952"),
        (".5", "0.5"),
        ("5.Gi", "5368709120"),
        ("2e3", "2000"),
        ("2e-1", "0.2"),
        ("7u", "0.000007"),
        ("7n", "0.000000007"),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(quantity: str, number: str) -> None:
    assert parse_quantity(quantity) == Decimal(number)


@pytest.mark.parametrize(
    "text", ["", "x", "8GB", "8 Gi", "1i", "-1", "+-1", ".", "1e", "Gi", "1K", "٣"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        parse_quantity(text)

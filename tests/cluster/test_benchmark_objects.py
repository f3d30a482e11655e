"""Benchmark objects on a real API server: schema and operator."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from k8sbench.model.benchmark_object import MUTABLE, ObjectSpec
from k8sbench.model.pool import NodePool
from tests.docs import pages
from tests.harness.cluster import operator_process, tools, users
from tests.harness.cluster.cluster import KubectlFailed
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.shell import CASE, ENDLESS, Running, Shell, until
from tests.tiers import ROOT
from tests.unit.model import object_examples

YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CRD = ROOT / "charts/crds/benchmarks.k8sbench.io.yaml"
FIELDS = {field.name: field.encode_name for field in msgspec.structs.fields(ObjectSpec)}
"""Field → its name in an object."""
POOL = {"name": "a", "gpus_per_node": 8, "gpu_model": "V100", "selector": {"a/b": "c"}}
VALUES: dict[str, tuple[Any, Any]] = {
    "set": ("a", "b"),
    "file": ("name: a", "name: b"),
    "framework": ("pytorch", "paddle"),
    "variant": ("a", "b"),
    "impl": ("k8sbench", "upstream"),
    "replicas": (1, 2),
    "gpus": (1, 2),
    "all_cases": (True, False),
    "pack": (True, False),
    "precision": ("amp", "fp16"),
    "batch_sizes": ([64], [64, 128]),
    "iterations": (10, 20),
    "warmup": (0, 1),
    "repeats": (1, 2),
    "preset": ("smoke", "full"),
    "data": ("synthetic", "pvc:data"),
    "speed_options": (["compile"], ["compile", "workers=8"]),
    "image": ("a:1", "a:2"),
    "image_registry": ("a/b", "a/c"),
    "node_pool": ("quick", "endless"),
    "pool": (POOL, POOL | {"gpus_per_node": 4}),
    "queue": ("a", "b"),
    "force": (True, False),
    "job_kind": ("v1", "trainjob"),
    "timeout": ("90s", "2h"),
    "wait_timeout": ("90s", "2h"),
    "mode": ("throughput", "train"),
    "weights": ("pvc:a/b", "pvc:a/c"),
    "epochs": (1, 2),
    "evaluate_every": (1, 2),
    "target": ("75.9", "none"),
    "to_the_end": (True, False),
    "checkpoints": ("pvc:a", "pvc:b"),
    "max_restarts": (1, 2),
    "nodes": (["a"], ["a", "b"]),
    "wait": (True, False),
    "parallel": (1, 2),
    "cancel": (False, True),
    "cancel_runs": (["a-1"], ["a-1", "a-2"]),
    "keep": (True, False),
    "retry": (0, 1),
    "ttl_seconds_after_finished": (10, 20),
}
"""Two allowed values of each field but ``benchmark``."""


def body(name: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "k8sbench.io/v1alpha1", "kind": "Benchmark"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def usual(**spec: Any) -> dict[str, Any]:
    case = {"benchmark": "resnet50", "replicas": 2, "gpus": 1, "preset": "smoke"}
    return {**case, "nodePool": "endless", **spec}


# -- schema ---------------------------------------------------------------------------------------


def test_the_schema_has_the_fields_that_the_operator_reads() -> None:
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(schema["properties"]) == set(FIELDS.values())
    assert VALUES.keys() | {"benchmark"} == FIELDS.keys()


def _refused(namespace: Namespace, name: str, patch: dict[str, Any]) -> bool:
    text = json.dumps({"spec": patch})
    words = ("patch", "benchmark", name, "--type=merge", f"--patch={text}")
    try:
        namespace.kubectl(*words)
    except KubectlFailed as error:
        return "can change; create another Benchmark" in str(error)
    else:
        return False


def test_a_field_may_be_added_changed_and_removed_only_if_it_is_mutable(
    namespace: Namespace,
) -> None:
    exclusive = {"file": {}, "epochs": {"file": "x"}}
    for field, (one, other) in VALUES.items():
        name, key = f"f-{field.replace('_', '-')}", FIELDS[field]
        base = exclusive.get(field, {"benchmark": "resnet50"})
        namespace.create(body(f"{name}-with", **{**base, key: one}))
        changes = [_refused(namespace, f"{name}-with", {key: other})]
        if field == "file":  # a source is needed
            assert changes == [True]
            continue
        changes.append(_refused(namespace, f"{name}-with", {key: None}))
        namespace.create(body(f"{name}-without", **base))
        changes.append(_refused(namespace, f"{name}-without", {key: one}))
        assert changes == [field not in MUTABLE] * 3 or field in {"cancel", "cancel_runs"}, field


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"cancel": True}, {"cancel": False}),
        ({"cancel": True}, {"cancel": None}),
        ({"cancelRuns": ["a-1", "a-2"]}, {"cancelRuns": ["a-2"]}),
        ({"cancelRuns": ["a-1"]}, {"cancelRuns": None}),
    ],
)
def test_what_is_cancelled_stays_so(
    namespace: Namespace, first: dict[str, Any], second: dict[str, Any]
) -> None:
    namespace.create(body("a", benchmark="resnet50", **first))
    patch = json.dumps({"spec": second})
    with pytest.raises(KubectlFailed, match="stays cancelled"):
        namespace.kubectl("patch", "benchmark", "a", "--type=merge", f"--patch={patch}")


@pytest.mark.parametrize(
    ("name", "spec", "why"),
    [
        ("a", {}, "either benchmark or file"),
        ("a", {"benchmark": "a", "file": "b"}, "either benchmark or file"),
        ("a", {"benchmark": "a", "iterations": 1, "epochs": 1}, "exclude each other"),
        ("a", {"benchmark": "a", "allCases": True, "replicas": 1}, "allCases excludes"),
        ("a", {"benchmark": "a", "image": "a", "imageRegistry": "b"}, "exclude each other"),
        ("a", {"benchmark": "a", "data": "path:/data"}, "spec.data"),
        ("a", {"benchmark": "a", "checkpoints": "/data"}, "spec.checkpoints"),
        ("a", {"benchmark": "a", "timeout": "90"}, "spec.timeout"),
        ("a", {"benchmark": "a", "repeats": 1001}, "spec.repeats"),
        ("a", {"benchmark": "a", "batchSizes": []}, "spec.batchSizes"),
        ("a", {"benchmark": "a", "kubeconfig": "x"}, 'unknown field "spec.kubeconfig"'),
        ("a", {"file": "x" * 131_073}, "spec.file"),
        ("a" * 43, {"benchmark": "a"}, "at most 42 characters"),
        ("1a", {"benchmark": "a"}, "must begin with a letter"),
        ("a.b", {"benchmark": "a"}, "must begin with a letter"),
    ],
)
def test_a_wrong_object_is_refused_with_the_reason(
    namespace: Namespace, name: str, spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(KubectlFailed, match=why):
        namespace.create(body(name, **spec))


def test_the_examples_are_taken_and_refused_as_by_a_store(namespace: Namespace) -> None:
    for asked in object_examples.accepted():
        namespace.create(asked)
    for asked in object_examples.refused():
        with pytest.raises(KubectlFailed):
            namespace.create(asked)
    for number, change in enumerate(object_examples.changes()):
        namespace.create(body(f"c-{number}", **change["before"]))
        patch = json.dumps({"spec": change["patch"]})
        words = ("patch", "benchmark", f"c-{number}", "--type=merge", f"--patch={patch}")
        try:
            namespace.kubectl(*words)
        except KubectlFailed:
            assert not change["is_taken"], change
        else:
            assert change["is_taken"], change


POOLS: dict[str, list[tuple[Any, bool]]] = {
    "gpu_model": [(None, True), ("", False)],
    "gpu_resource": [("nvidia.com/mig-1g.5gb", True), ("gpu", False), ("a b/gpu", False)],
    "selector": [({"a/b": ""}, True), ({"a b": "c"}, False), ({"a": "b c"}, False)],
    "tolerations": [([{"operator": "Exists"}], True), ([{"key": "a b"}], False)],
    "cpu_per_gpu": [("500m", True), ("1e3", True), ("lots", False), ("-1", False), ("", False)],
    "memory_per_gpu": [("1.5Gi", True), ("8GB", False)],
    "shm": [("8Gi", True), ("8 Gi", False)],
    "runtime_class": [("nvidia.v1", True), ("Nvidia", False)],
    "priority_class": [("high", True), ("a/b", False)],
    "image_pull_secrets": [(["a"], True), (["A"], False), ([""], False)],
    "annotations": [({"Example.com/A": "any text"}, True), ({"a b": "c"}, False)],
    "nccl_env": [({"NCCL_DEBUG": "INFO", ".a": ""}, True), ({"1A": "b"}, False)],
    "python_packages": [("pvc:a", True), ("", False)],
    "rdma": [
        ({"resource": "rdma/a", "capabilities": ["IPC_LOCK"]}, True),
        ({"resource": "rdma"}, False),
        ({"resource": "rdma/a", "capabilities": ["all"]}, False),
    ],
    "note": [("any", True), ("", False)],
}
"""Values of a pool's fields, and whether they may be given."""


def test_a_pool_is_accepted_and_refused_by_the_schema_as_by_the_operator(
    namespace: Namespace,
) -> None:
    for field, values in POOLS.items():
        for number, (value, is_right) in enumerate(values):
            pool = POOL | {field: value}
            taken = {"schema": True, "operator": True}
            try:
                msgspec.convert(pool, NodePool)
            except msgspec.ValidationError:
                taken["operator"] = False
            name = f"{field.replace('_', '-')}-{number}"
            try:
                namespace.create(body(name, benchmark="resnet50", pool=pool))
            except KubectlFailed as error:
                taken["schema"] = f"spec.pool.{field}" not in str(error)
            assert taken == {"schema": is_right, "operator": is_right}, (field, value)


# -- served by an operator ------------------------------------------------------------------------


@pytest.fixture
def operator(own_shell: Shell, tmp_path: Path) -> OperatorShell:
    return operator_process.make(own_shell.namespace, tmp_path / "machine")


@contextmanager
def serving(operator: OperatorShell) -> Iterator[Running]:
    with operator.collecting() as running:
        yield running
        operator_process.end(running)


def status(namespace: Namespace, name: str) -> dict[str, Any]:
    found: dict[str, Any] = namespace.get("benchmark", name).get("status", {})
    return found


def phases(operator: OperatorShell) -> dict[str, str]:
    return {run["run_id"]: run["phase"] for run in operator.json("list", "--store=local")}


def until_runs(shell: Shell, *names: str) -> None:
    until(lambda: set(shell.on_cluster()) == set(names), f"the jobs {names}")


def test_kubectl_alone_runs_a_benchmark_and_reads_its_result(
    own_shell: Shell, operator: OperatorShell
) -> None:
    namespace = own_shell.namespace
    logs = [own_shell.logs(f"nightly-{number}").begin() for number in (1, 2)]
    namespace.create(body("nightly", **usual(repeats=2)))
    with serving(operator):
        for number, log in enumerate(logs, 1):  # one at a time
            until_runs(own_shell, f"nightly-{number}")
            log.end()
            own_shell.finish(f"nightly-{number}")
        namespace.wait("condition=Complete", "benchmark/nightly")
        until(lambda: own_shell.on_cluster() == [], "the deletion of the jobs")
    found = status(namespace, "nightly")
    assert (found["phase"], found["observedGeneration"]) == ("Succeeded", 1)
    conditions = {one["type"]: (one["status"], one["reason"]) for one in found["conditions"]}
    assert conditions == {"Complete": ("True", "RunsSucceeded"), "Valid": ("True", "RowsValid")}
    (row,) = found["rows"]
    ours = operator.json("results", "--store=local")["rows"]
    assert row["throughput"] == pytest.approx(ours[0]["throughput"], rel=1e-6)
    assert (row["runs"], row["verdict"], row["case"]) == ("2/2", "valid", "2x1")
    assert [(run["name"], run["phase"]) for run in found["runs"]] == [
        ("nightly-1", "Succeeded"),
        ("nightly-2", "Succeeded"),
    ]

    def told() -> list[str]:
        events = namespace.get("events")
        return [one["reason"] for one in events if one["involvedObject"]["kind"] == "Benchmark"]

    until(lambda: "RunsSucceeded" in told(), "the event of the end")
    assert told().count("RunSucceeded") == 2
    columns = namespace.kubectl("get", "benchmark", "nightly", "--no-headers").split()
    assert columns[:3] == ["nightly", "2/2", "Succeeded"]
    assert float(columns[3]) == row["throughput"]
    assert columns[4] == "valid"


def test_the_commands_of_the_page_run_in_their_order(
    own_shell: Shell, operator: OperatorShell, tmp_path: Path
) -> None:
    namespace = own_shell.namespace
    page = ROOT / "docs" / "operator.md"
    (wanted,) = [text for text in YAML.findall(page.read_text()) if "kind: Benchmark" in text]
    # The page's readers have real nodes; ours are fake, and their pods end at once.
    small = wanted.replace("v100-32gb", "quick").replace("repeats: 5", "repeats: 1")
    assert small.count("quick") == 1
    (own_shell.folder / "nightly.yaml").write_text(small)
    verbs = ["get", "list", "watch", "create", "patch", "delete"]
    rule = {"apiGroups": ["k8sbench.io"], "resources": ["benchmarks"], "verbs": verbs}
    namespace.kubectl("create", "serviceaccount", "author")
    users.grant(namespace, "author", "benchmarks", [rule])
    kubectl = tools.built(tools.CLUSTER).program("kubectl").parent
    environment = {
        **own_shell.environment,
        "KUBECONFIG": str(users.sign_in(namespace, "author", tmp_path / "author.kubeconfig")),
        "PATH": f"{kubectl}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with serving(operator):
        for command in pages.commands(page, "Benchmark objects"):
            pages.run(command, own_shell.folder, environment)
    assert {run["set_name"] for run in operator.json("list", "--store=local")} == {
        "nightly-2026-11-27"
    }


def test_a_killed_operator_leaves_nothing_out_and_does_nothing_twice(
    own_shell: Shell, operator: OperatorShell
) -> None:
    namespace = own_shell.namespace
    logs = [own_shell.logs(f"a-{number}").begin() for number in (1, 2)]
    namespace.create(body("a", **usual(repeats=2)))
    namespace.create(body("gone", **usual(set="other")))
    with operator.collecting() as running:
        until_runs(own_shell, "a-1", "gone-1")
        until(lambda: operator.archived("a-1"), "lines of a-1")
        running.kill()
    namespace.kubectl("delete", "benchmark", "gone")
    logs[0].end()
    own_shell.finish("a-1")
    with serving(operator):
        until_runs(own_shell, "a-2")
        logs[1].end()
        own_shell.finish("a-2")
        namespace.wait("condition=Complete", "benchmark/a")
        ended = {"a-1": "Succeeded", "a-2": "Succeeded", "gone-1": "Cancelled"}
        until(lambda: phases(operator) == ended, f"the records {ended}")
    assert status(namespace, "a")["phase"] == "Succeeded"
    assert operator.archived("a-1") == logs[0].expected[own_shell.replicas[0]]


def test_a_replaced_status_and_an_early_retry_end_as_the_store_says(
    own_shell: Shell, operator: OperatorShell
) -> None:
    namespace = own_shell.namespace
    namespace.create(body("a", **usual()))
    condition = {
        "type": "Complete",
        "status": "True",
        "reason": "ByHand",
        "message": "It is enough.",
        "lastTransitionTime": "2026-11-27T00:00:00Z",
    }
    replaced = json.dumps({"status": {"phase": "Succeeded", "conditions": [condition]}})
    with serving(operator):
        until_runs(own_shell, "a-1")
        until(lambda: status(namespace, "a").get("phase") == "Running", "the phase Running")
        patch = ("patch", "benchmark", "a", "--type=merge")
        namespace.kubectl(*patch, "--subresource=status", f"--patch={replaced}")
        until(lambda: status(namespace, "a").get("phase") == "Running", "the phase of the store")
        namespace.kubectl(*patch, '--patch={"spec": {"retry": 1}}')
        namespace.kubectl("delete", own_shell.kind.plural, "a-1", "--wait=false")
        until_runs(own_shell, "a-2")
        assert phases(operator)["a-1"] == "Lost"
        until(lambda: status(namespace, "a").get("observedRetry") == 1, "the answer to the retry")


# -- files ----------------------------------------------------------------------------------------


def test_a_file_is_submitted_without_an_operator(own_shell: Shell) -> None:
    wanted = body("night", **usual())
    wanted["metadata"]["namespace"] = own_shell.namespace.name
    file = own_shell.folder / "night.json"
    file.write_text(json.dumps(wanted))
    own_shell.run("submit", "-f", str(file), "--namespace=another", code=2)
    logs = own_shell.logs("night-1").begin()
    own_shell.run("submit", "-f", str(file), "--detach")
    assert own_shell.on_cluster() == ["night-1"]
    (run,) = own_shell.json("list", "--store=local")
    assert (run["run_id"], run["set_name"]) == ("night-1", "night")
    assert run["object_name"] == "night"
    assert own_shell.run("submit", "-f", str(file), "--replicas=2", code=2).out == ""
    # Nobody reconciles it any more: who collects its run writes its status.
    own_shell.run("collect", "--all")
    assert stored_status(own_shell, "night")["phase"] == "Running"
    logs.end()
    own_shell.finish("night-1")
    own_shell.run("collect", "night", "--follow")
    found = stored_status(own_shell, "night")
    assert (found["phase"], found["summary"]["runs"]) == ("Succeeded", "1/1")


def stored_status(shell: Shell, name: str) -> dict[str, Any]:
    """Return the status of an object of the store."""
    text = (shell.store / "benchmarks" / f"{name}.status.json").read_text()
    found: dict[str, Any] = json.loads(text)["status"]
    return found


ENDED = {
    "collect": "Failed",
    "collect --take-over": "Failed",
    "cancel": "Cancelled",
    "delete": None,
}
"""Phase of an object whose first run is ended by a command, and whose second nobody starts."""


@pytest.mark.parametrize("command", ENDED)
def test_runs_that_a_killed_submit_has_not_begun_are_not_started(
    own_shell: Shell, command: str
) -> None:
    with own_shell.started("submit", *CASE, ENDLESS, "--repeats=2", "--set=two") as submit:
        until(lambda: len(own_shell.on_cluster()) == 1, "the first job")
        submit.kill()
    (run,) = own_shell.json("list", "--set=two")
    name = run["object_name"]
    more = []
    if command.startswith("collect"):
        own_shell.finish(run["run_id"])
        more = ["--follow"]
    if command == "collect --take-over":
        file = own_shell.store / "benchmarks" / f"{name}.json"
        found = json.loads(file.read_text())
        found["place"]["process"]["host"] = "another"
        file.write_text(json.dumps(found))
        refused = own_shell.run("submit", *CASE, ENDLESS, "--repeats=2", "--resume=two", code=2)
        assert f"k8sbench {command} {name}" in refused.err
        more.append("--yes")
    own_shell.run(*command.split(), name, *more, code=None)
    assert own_shell.on_cluster() == []
    (run,) = own_shell.json("list", "--set=two")
    if command == "delete":
        assert not (own_shell.store / "benchmarks" / f"{name}.json").exists()
        return
    found = stored_status(own_shell, name)
    assert (found["phase"], found["summary"]["runs"]) == (ENDED[command], "1/2")
    assert [one["name"] for one in found["runs"]] == [run["run_id"]]

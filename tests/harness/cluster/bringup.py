"""Starts a cluster of our own, from nothing to nodes that are ready.

The order loses no time: certificates, etcd and the API server; then the scheduler (before the API
server is ready it gives up, for that refuses it its configuration); the types and objects of the
operator; last the operator and kwok, which end where their types are missing, and the controller
manager, whose garbage collector looks for new types every 30 s: so long would the first deletion of
a job take.
"""

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.cluster import (
    components,
    kubeconfig,
    network,
    nodes,
    objects,
    operators,
    pki,
    tools,
)
from tests.harness.cluster.cluster import stream
from tests.harness.cluster.components import Layout
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.processes import Processes

NODES = 4
"""Fake nodes: the smallest number on which the reports' largest case, 4x8, fits."""
# Checked by the API server alone: for more, kubectl would first load its description of all types.
_CREATE = ("create", "--validate=ignore")


@dataclass(frozen=True)
class Options:
    """Options of an own cluster."""

    nodes: int = NODES
    has_v1: bool = True
    """True to run the training operator (v1)."""
    has_trainer: bool = False
    """True to run Kubeflow Trainer v2 and JobSet."""
    has_kueue: bool = False

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that run beside that of v1."""
        trainer = ("jobset", "trainer") if self.has_trainer else ()
        return (*trainer, "kueue") if self.has_kueue else trainer


Kind = Callable[[Layout, Processes], OwnCluster]
"""Makes the cluster, which may be more than its control plane."""


def start(
    folder: Path,
    options: Options | None = None,
    say: Callable[[str], None] = print,
    kind: Kind = OwnCluster,
) -> OwnCluster:
    """Start a cluster in a new folder; it ends with this process."""
    options = options or Options()
    programs = tools.of_cluster(say)
    others = {name: tools.built(tools.OPERATORS, say=say) for name in options.operators}
    folder.mkdir(mode=0o700)
    processes = Processes.begin(folder)
    try:
        place = network.connect(processes.pid)
        made = pki.make(folder / "pki", place.address)
        layout = Layout(folder, place, made, programs, options.has_v1, others)
        cluster = kind(layout, processes)
        _write_files(layout)
        _start_components(cluster, options)
    except BaseException:
        processes.end()
        raise
    return cluster


def _write_files(layout: Layout) -> None:
    for one in pki.IDENTITIES:
        kubeconfig.of_identity(layout.kubeconfig(one.name), layout.server, layout.pki, one.name)
    certificates = layout.operator_tmp / components.CERTIFICATES_READ
    certificates.mkdir(parents=True)
    for name in ("tls.crt", "tls.key"):
        shutil.copy(layout.pki.webhook / name, certificates)
    log = layout.folder / "pod.log"
    log.write_text(nodes.log_text(["a fake pod; tests/harness/cluster/nodes.py can give it a log"]))
    nodes.write_rules(layout.node_rules, layout.programs, log)
    operators.write_files(layout)


def _start_components(cluster: OwnCluster, options: Options) -> None:
    for name in ("etcd", "kube-apiserver"):
        cluster.start(name)
    cluster.wait_for("kube-apiserver")
    cluster.start("kube-scheduler")
    _create_objects(cluster, options)
    everything = components.all_of(cluster.layout) | operators.components(cluster.layout)
    for name in everything.keys() - {"etcd", "kube-apiserver", "kube-scheduler"}:
        cluster.start(name)
    cluster.wait_for(*everything)
    cluster.until(lambda: _nodes_are_ready(cluster, options.nodes), lambda: "kwok")
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    cluster.until(lambda: cluster.ask(account) is not None, lambda: "kube-controller-manager")


def _create_objects(cluster: OwnCluster, options: Options) -> None:
    layout = cluster.layout
    wanted = list(operators.objects(layout))
    if layout.has_v1:
        wanted += objects.operator(layout.programs, layout.pki, layout.place.ports["webhook"])
    files = objects.type_files(layout.programs, has_v1=layout.has_v1)
    # At once: the API server takes its time over the schema of a pod in each type.
    with ThreadPoolExecutor() as pool:
        types = [pool.submit(cluster.kubectl, *_CREATE, f"--filename={file}") for file in files]
        given = stream([*wanted, *nodes.fake_nodes(options.nodes)])
        cluster.kubectl(*_CREATE, "--filename=-", given=given)
        for one in types:
            one.result()
    groups = {**(objects.TYPES if layout.has_v1 else {}), **operators.types(layout)}
    cluster.until(lambda: _types_are_served(cluster, groups), lambda: "kube-apiserver")


def _types_are_served(cluster: OwnCluster, groups: Mapping[str, set[str]]) -> bool:
    for group, names in groups.items():
        found = cluster.ask(f"/apis/{group}")
        if found is None or not names <= {one["name"] for one in found["resources"]}:
            return False
    return True


def _nodes_are_ready(cluster: OwnCluster, count: int) -> bool:
    found = cluster.ask("/api/v1/nodes") or {"items": []}
    return sum(_is_ready(node) for node in found["items"]) == count


def _is_ready(node: dict[str, Any]) -> bool:
    # The taint of a node that is not ready outlives that by a moment.
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    conditions = node["status"].get("conditions", ())
    states = {one["type"]: one["status"] for one in conditions}
    return states.get("Ready") == "True" and taints == {"nvidia.com/gpu"}

"""An operator as a test process with its in-cluster permissions."""

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import packaged
from tests.harness.cluster import users
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Running, Shell, until
from tests.harness.cluster.trainer_logs import TrainerLogs

LEASES = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "verbs": ["get", "create", "patch"],
}
TOKENS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]}


BENCHMARKS = [
    {
        "apiGroups": ["k8sbench.io"],
        "resources": ["benchmarks"],
        "verbs": ["list", "watch", "delete"],
    },
    {"apiGroups": ["k8sbench.io"], "resources": ["benchmarks/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
]
RULES = [LEASES, TOKENS, *BENCHMARKS]


class OperatorShell(Shell):
    """One machine with an operator; its store stays when the process ends."""

    limits = {  # noqa: RUF012
        "lease": 6,
        "lease_renew": 0.2,
        "lease_held": 5.0,
    }

    @contextlib.contextmanager
    def collecting(self, *words: str) -> Iterator[Running]:
        """Run it during the block; kill it at the end."""
        with self.started("operator", "--listen=:0", *words) as running:
            yield running


def make(namespace: Namespace, folder: Path) -> OperatorShell:
    """Make an operator of a namespace; its service account may also use Leases."""
    folder.mkdir(exist_ok=True)
    kubeconfig = namespace.user(folder, "operator")
    users.grant(namespace, "operator", "leases", RULES)
    return OperatorShell(namespace, kubeconfig, folder / "operator")


def may_observe(namespace: Namespace, folder: Path) -> Path:
    """Make an operator's user that observes and may write its Lease alone; returns its kubeconfig.

    The Secret of its token is there.
    """
    folder.mkdir(exist_ok=True)
    kubeconfig = users.make(namespace, folder, "operator", sees_nodes=True, file=packaged.OBSERVER)
    secret = {"metadata": {"name": "dlperf-operator-token"}, "stringData": {"token": "given"}}
    namespace.create({"apiVersion": "v1", "kind": "Secret", **secret})
    reading = ["get", "list", "watch"]
    seen = [{**rule, "verbs": reading} for rule in (TOKENS, BENCHMARKS[0])]
    users.grant(namespace, "operator", "leases", [LEASES, *seen])
    return kubeconfig


def given(shell: Shell, name: str, **spec: Any) -> TrainerLogs:
    """Create an object with one run, ``NAME-1``, whose pods print."""
    logs = shell.logs(f"{name}-1").begin()
    case = {"benchmark": "resnet50", "replicas": 2, "gpus": 1, "preset": "smoke"}
    head = {"apiVersion": "k8sbench.io/v1alpha1", "kind": "Benchmark", "metadata": {"name": name}}
    shell.namespace.create({**head, "spec": {**case, "nodePool": "endless", **spec}})
    return logs


def check_collected(operator: OperatorShell, run_id: str, logs: TrainerLogs) -> None:
    """Check a collected run: measured, job deleted, no duplicate records."""
    until(lambda: run_id not in operator.on_cluster(), f"the deletion of {run_id}")
    status = operator.json("status", run_id)
    assert status["measurement"]["verdict"] == "valid", status["measurement"]["reasons"]
    # A state that was seen before the creation's answer comes again, with the job's uid.
    history = [(one["phase"], one["cause"], one["job_uid"]) for one in status["history"]]
    assert history[-1][:2] == ("Succeeded", "All 2 replicas succeeded.")
    assert len(history) == len(set(history)), status["history"]
    for replica, lines in logs.expected.items():
        assert operator.archived(run_id, replica) == lines


def end(running: Running) -> None:
    """End it as a kubelet does."""
    running.process.send_signal(signal.SIGTERM)
    running.ends(0)


def expose(namespace: Namespace, port: int, address: str) -> None:
    """Create the service of an operator that runs outside of the cluster.

    The API server's proxy reaches only addresses of pods, so a pod that never runs stands for the
    operator.
    """
    name = {"name": "dlperf-operator"}
    ports = [{"name": "http", "port": port}]
    pod = {
        "schedulingGates": [{"name": "k8sbench.io/outside"}],
        "containers": [{"name": "operator", "image": "none"}],
    }
    where = {"ip": address, "targetRef": {"kind": "Pod", "namespace": namespace.name, **name}}
    service = {"ports": [{"name": "http", "port": 8080, "targetPort": port}]}
    head = {"apiVersion": "v1"}
    namespace.create(
        {**head, "kind": "Service", "metadata": name, "spec": service},
        {**head, "kind": "Pod", "metadata": name, "spec": pod},
    )
    status = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    patch = ("patch", "pod", name["name"], "--subresource=status", "--type=merge")
    namespace.kubectl(*patch, f"--patch={status}")
    subset = {"addresses": [where], "ports": ports}
    namespace.create({**head, "kind": "Endpoints", "metadata": name, "subsets": [subset]})

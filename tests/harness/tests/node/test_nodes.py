"""The real nodes do what real ones do, as far as later tests rely on it."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.harness.cluster import tools
from tests.harness.cluster.namespace import Namespace
from tests.harness.node import bringup, image
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.faults import ended, gpus, on, phase, pod

# The master says where it is to whoever connects; the worker asks it by its short name.
MASTER = """
import os, socket
with socket.create_server(("", int(os.environ["MASTER_PORT"]))) as server:
    connection, (address, _) = server.accept()
    connection.sendall(socket.gethostname().encode())
    print(address, flush=True)
"""
WORKER = """
import os, socket, time
where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
master = None
while master is None:
    try:
        master = socket.create_connection(where)
    except ConnectionRefusedError:  # it has a name before it listens
        time.sleep(0.1)
print(master.recv(100).decode(), master.getpeername()[0], flush=True)
"""
WHO = """
import json, os, pathlib, sys
status = dict(
    line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines()
)
print(json.dumps({
    "user": os.getuid(), "capabilities": int(status["CapEff"], 16),
    "seccomp": int(status["Seccomp"]), "python": sys.version,
}))
"""
ASKS = """
import json, os, ssl, urllib.request
where = "https://{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}/version".format(**os.environ)
account = "/var/run/secrets/kubernetes.io/serviceaccount"
trusted = ssl.create_default_context(cafile=f"{account}/ca.crt")
token = open(f"{account}/token").read()
asked = urllib.request.Request(where, headers={"Authorization": f"Bearer {token}"})
print(json.load(urllib.request.urlopen(asked, context=trusted))["gitVersion"])
"""


def test_the_nodes_are_real_and_ready(node_cluster: NodeCluster) -> None:
    node_cluster.wait_for(*node_cluster.components)
    about = {
        one["metadata"]["name"]: one["status"]["nodeInfo"] for one in node_cluster.get("nodes")
    }
    assert set(about) == {"node-0", "node-1"}
    for info in about.values():
        assert info["kubeletVersion"] == f"v{tools.KUBERNETES}"
        assert info["containerRuntimeVersion"].startswith("containerd://")


def test_another_process_finds_the_nodes(node_cluster: NodeCluster) -> None:
    found = bringup.find(node_cluster.layout.folder)
    found.wait_for(*found.components)
    assert [node.machine for node in found.nodes] == [node.machine for node in node_cluster.nodes]
    assert found.pools.read_text() == node_cluster.pools.read_text()


def test_a_pod_runs_this_python_as_the_restricted_standard_wants_it(restricted: Namespace) -> None:
    restricted.create(pod("who", WHO))
    restricted.until(phase("Succeeded"), "pod", "who")
    said = json.loads(restricted.kubectl("logs", "who"))
    assert said == {"user": 1000, "capabilities": 0, "seccomp": 2, "python": sys.version}


def test_a_running_pod_can_be_asked(restricted: Namespace) -> None:
    restricted.create(pod("one", "import signal; signal.pause()"))
    restricted.wait_for_pods(1)
    assert restricted.kubectl("exec", "one", "--", "sh", "-c", "echo $((6 * 7))") == "42\n"


def test_replicas_on_two_nodes_find_and_reach_each_other(restricted: Namespace) -> None:
    restricted.create(job({"Master": ("node-1", MASTER), "Worker": ("node-0", WORKER)}))
    restricted.wait("condition=Succeeded", "pytorchjob/pair")
    restricted.until(phase("Succeeded"), "pod", "pair-worker-0")
    master, worker = (restricted.get("pod", f"pair-{one}-0") for one in ("master", "worker"))
    assert [one["spec"]["nodeName"] for one in (master, worker)] == ["node-1", "node-0"]
    # By their own addresses, which nothing on the way hides.
    address = {one["metadata"]["name"]: one["status"]["podIP"] for one in (master, worker)}
    assert restricted.kubectl("logs", "pair-master-0") == f"{address['pair-worker-0']}\n"
    assert restricted.kubectl("logs", "--container=pytorch", "pair-worker-0") == (
        f"pair-master-0 {address['pair-master-0']}\n"
    )


def test_a_pod_reaches_the_api_server_by_its_service(restricted: Namespace) -> None:
    restricted.create(pod("asks", ASKS))
    restricted.until(phase("Succeeded"), "pod", "asks")
    assert restricted.kubectl("logs", "asks") == f"v{tools.KUBERNETES}\n"


def test_a_node_can_be_given_gpus(node_cluster: NodeCluster, restricted: Namespace) -> None:
    wanted = {"limits": {"nvidia.com/gpu": "4"}}
    with gpus(node_cluster, "node-1"):
        for number in range(3):
            restricted.create(
                pod(f"pod-{number}", "import time; time.sleep(0.2)", resources=wanted)
            )
        # The third waits for one of the two to end: there are eight.
        for number in range(3):
            done = restricted.until(phase("Succeeded"), "pod", f"pod-{number}")
            assert done["spec"]["nodeName"] == "node-1"
    left = node_cluster.get("node", "node-1")
    assert "nvidia.com/gpu" not in left["status"]["allocatable"]
    assert "nvidia.com/gpu.product" not in left["metadata"]["labels"]


def test_an_image_that_nobody_has_is_not_pulled(restricted: Namespace) -> None:
    # On the loopback address: no test asks a registry of others.
    wanted = pod("one", "pass")
    wanted["spec"]["containers"][0]["image"] = "127.0.0.1:1/no/such:1"
    restricted.create(wanted)
    seen = restricted.until(lambda one: waits_for(one) == "ErrImagePull", "pod", "one")
    assert seen["status"]["phase"] == "Pending"


def test_a_program_that_fails_tells_its_status(restricted: Namespace) -> None:
    restricted.create(pod("one", "raise SystemExit(4)"))
    failed = restricted.until(phase("Failed"), "pod", "one")
    assert (ended(failed)["exitCode"], ended(failed)["reason"]) == (4, "Error")


def waits_for(thing: dict[str, Any]) -> str | None:
    (status,) = thing["status"].get("containerStatuses") or [{"state": {}}]
    found: str | None = status["state"].get("waiting", {}).get("reason")
    return found


def job(replicas: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Make a PyTorchJob of one pod for each kind, on a node, with a program."""
    made = {}
    for kind, (node, program) in replicas.items():
        spec = pod("", program, nodeSelector=on(node))["spec"]
        spec["containers"][0] |= {"name": "pytorch", "image": image.PYTHON}
        template = {"spec": spec}
        made[kind] = {"replicas": 1, "restartPolicy": "Never", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "pair"},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": made},
    }

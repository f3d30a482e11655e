"""A private pool of nodes, and runs with predictable ids and logs."""

from collections.abc import Iterable, Mapping

from tests.harness.cluster.nodes import RUN_FOR, fake_nodes
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell
from tests.harness.cluster.trainer_logs import STEP_SECONDS, TrainerLogs

ENDLESS = """
pools:
  - name: rack
    gpus_per_node: 8
    gpu_model: Tesla V100-SXM2-32GB
    selector: {k8sbench.test/rack: NAME}
    tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
    cpu_per_gpu: "1"
    memory_per_gpu: 1Gi
    shm: 64Mi
"""
"""A pools file; its pods run until they are released."""
POOLS = f"{ENDLESS}    annotations: {{{RUN_FOR}: 1s}}\n"
"""The same; its pods end after a second."""


def pools(rack: str, *, endless: bool = False) -> str:
    """Write the pools file of a rack."""
    return (ENDLESS if endless else POOLS).replace("NAME", f'"{rack}"')


def start(
    cluster: OwnCluster, rack: str, count: int, *, small: Iterable[int] = (), away: int = 0
) -> list[str]:
    """Create nodes ``RACK-0`` etc.; some without a GPU, the last ones cordoned."""
    names = [f"{rack}-{number}" for number in range(count)]
    found = fake_nodes(count)
    for number, (name, node) in enumerate(zip(names, found, strict=True)):
        labels = node["metadata"]["labels"]
        del labels["nvidia.com/gpu.product"]
        node["metadata"]["name"] = name
        # A name that is no label: a pod is pinned by the first.
        labels |= {"kubernetes.io/hostname": f"host-of-{name}", "k8sbench.test/rack": rack}
        labels["k8sbench.test/row"] = "odd" if number % 2 else "even"
        if number in small:
            none = {**node["status"]["capacity"], "nvidia.com/gpu": "0"}
            node["status"] = {"capacity": none, "allocatable": none}
        node["spec"]["unschedulable"] = number >= count - away
    cluster.create(*found)
    cluster.kubectl("wait", "--for=condition=Ready", *(f"node/{name}" for name in names))
    return names


def logs(
    shell: Shell, runs: Iterable[int], lacking: Mapping[int, float] | None = None, **more: str
) -> None:
    """Assign logs of whole trainings to one-GPU runs; some are slower."""
    for number in runs:
        lack = (lacking or {}).get(number, 0.001 * number)
        log = TrainerLogs(
            shell.namespace,
            f"{more.get('name', 'resnet50')}-{number}",
            shell.folder,
            replicas=1,
            preset=more.get("preset", "full"),
            step_seconds=STEP_SECONDS / (1 - lack),
        )
        log.begin()
        log.end()

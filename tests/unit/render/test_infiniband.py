"""docs/examples/pools/infiniband.yaml: what its pods carry."""

import yaml

from tests.tiers import ROOT
from tests.unit.command_line import Cli

FILE = ROOT / "docs" / "examples" / "pools" / "infiniband.yaml"


def test_pods_have_the_devices_the_network_and_nccls_variables(cli: Cli) -> None:
    words = ("resnet50", "--replicas=2", f"--pools={FILE}", "--image=registry.example/pytorch:1")
    *_, job = yaml.safe_load_all(cli("render", *words).out)
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        template = replica["template"]
        assert template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "ib-network"
        (container,) = template["spec"]["containers"]
        assert container["resources"]["limits"]["rdma/rdma_shared_device_a"] == "1"
        assert "IPC_LOCK" in container["securityContext"]["capabilities"]["add"]
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert (env["NCCL_IB_HCA"], env["NCCL_SOCKET_IFNAME"]) == ("mlx5", "eth0")

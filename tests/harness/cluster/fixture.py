"""The cluster as pytest fixtures; a tier's conftest imports them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.harness.cluster import bringup, nodes, tools
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.namespace import ENFORCED, Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.readings import wait_for_nodes


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Give a cluster for this run."""
    own = bringup.start(new_folder(tmp_path_factory))
    yield own
    own.end()


def with_operators(
    factory: pytest.TempPathFactory, options: bringup.Options
) -> Iterator[OwnCluster]:
    """Provide a cluster with additional operators, shared by its fixtures."""
    own = bringup.start(new_folder(factory), options)
    yield own
    own.end()


def new_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a path for a cluster, short enough for the name of a socket."""
    return factory.mktemp("c") / "k"


@pytest.fixture(scope="session")
def own_cluster(cluster: OwnCluster) -> OwnCluster:
    """Give the cluster to a test that stops components of it."""
    return cluster


@pytest.fixture
def new_namespace(
    cluster: Cluster, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Namespace]]:
    """Make namespaces with labels; they are deleted afterwards. The cluster is the current one."""
    for name, value in cluster.variables().items():
        monkeypatch.setenv(name, value)
    title = request.node.name.removeprefix("test_")
    made: list[Namespace] = []

    def make(**labels: str) -> Namespace:
        made.append(Namespace.make(cluster, title, labels))
        return made[-1]

    yield make
    for one in made:
        one.delete()


@pytest.fixture
def namespace(new_namespace: Callable[..., Namespace]) -> Namespace:
    """Give the test a namespace of its own."""
    return new_namespace()


@pytest.fixture
def restricted(new_namespace: Callable[..., Namespace]) -> Namespace:
    """Give the test a namespace that enforces the restricted Pod Security Standard."""
    return new_namespace(**{ENFORCED: "restricted"})


@pytest.fixture
def user(namespace: Namespace, tmp_path: Path) -> Path:
    """Give the kubeconfig of a user with the permissions of role.yaml in the namespace."""
    return namespace.user(tmp_path)


@pytest.fixture
def monitoring(own_cluster: OwnCluster) -> Iterator[None]:
    """Install the Prometheus operator's types without running the operator."""
    files = [tools.built(tools.MONITORING).file(name) for name in tools.MONITORING.files]
    own_cluster.create(*(yaml.safe_load(file.read_text()) for file in files))
    served = "/apis/monitoring.coreos.com/v1"

    def both() -> bool:
        answer = own_cluster.ask(served)
        kinds = {each["kind"] for each in answer["resources"]} if answer else set()
        return {"ServiceMonitor", "PrometheusRule"} <= kinds

    own_cluster.until(both, lambda: "kube-apiserver")
    yield
    own_cluster.kubectl("delete", *(f"--filename={file}" for file in files))


MORE_NODES, MORE_GPUS = 2, 32
"""Room for 64 pods, so that all of a test run at once.

Other tests may leave pods. The master of a job that waits for a node would end without it.
"""


@pytest.fixture
def more_nodes(cluster: OwnCluster) -> Iterator[None]:
    """Give the cluster room for many pods for the time of a test."""
    more = nodes.fake_nodes(bringup.NODES + MORE_NODES, MORE_GPUS)[bringup.NODES :]
    cluster.create(*more)
    names = [node["metadata"]["name"] for node in more]
    wait_for_nodes(cluster, *names)
    yield
    cluster.kubectl("delete", "nodes", *names)

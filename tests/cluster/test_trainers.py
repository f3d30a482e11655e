"""Trainers travel once: one ConfigMap of a namespace and a version, for all runs."""

from pathlib import Path

from k8sbench.render.trainer_sources import CONFIG_MAP, config_map
from tests.harness.cluster import fault_proxy, following
from tests.harness.cluster.following import TRAINERS
from tests.harness.cluster.namespace import Namespace

NAME = TRAINERS.config_map_name
CONTENT = ("data", "immutable")


def trainers(namespace: Namespace) -> list[str]:
    """The names of the ConfigMaps with trainers."""
    names = [each["metadata"]["name"] for each in namespace.get("configmaps")]
    return [name for name in names if name.startswith(CONFIG_MAP)]


def test_two_runs_share_one_config_map(user: Path, namespace: Namespace) -> None:
    with fault_proxy.before(user) as (proxy, path), following.opened(path) as port:
        port.submit(following.plan("1x1"), None)
        before = len(proxy.requests())
        port.submit(following.plan("2x1"), None)
        first, second = proxy.requests()[:before], proxy.requests()[before:]
    # Nobody follows them: what was asked for is asked for by the creations alone.
    assert [request.method for request in first] == ["GET", "POST", "POST"]
    assert [request.method for request in second] == ["GET", "POST"]
    assert second[0].path.endswith(f"/configmaps/{NAME}")
    assert "/pytorchjobs?" in second[1].path
    assert trainers(namespace) == [NAME]
    found = namespace.get("configmap", NAME)
    assert {key: found[key] for key in CONTENT} == {
        key: config_map(TRAINERS)[key] for key in CONTENT
    }
    assert "ownerReferences" not in found["metadata"]

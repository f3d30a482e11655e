"""The rehearsal of a release: what its workflow runs, and an installation from what it made."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from k8sbench import __version__
from tests.harness import helm as programs
from tests.harness import release as releases
from tests.harness.cluster import tools
from tests.harness.cluster.components import Component
from tests.harness.cluster.namespace import Namespace
from tests.harness.helm import RELEASE, Helm, merged, nested
from tests.harness.node import configs, operator_image
from tests.harness.node.cluster import NodeCluster
from tests.harness.release import PATIENCE, Release
from tests.tiers import ROOT

USER = 65532
"""As whom the operator runs: the owner of its volume."""
PORT = 5000
SOURCE = f"k8sbench-{__version__}"
WHEEL, CHART = f"{SOURCE}-py3-none-any.whl", f"dlperf-{__version__}.tgz"

pytestmark = [
    pytest.mark.timeout(1800),
    *(pytest.mark.tier(name) for name in ("helm", "images", "package")),
]


@pytest.fixture(scope="module")
def registry(node_cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a registry without TLS that this machine and the nodes reach; give its address."""
    address = f"{node_cluster.layout.place.address}:{PORT}"
    crane = str(tools.built(tools.RELEASE).program("crane"))
    disk = str(tmp_path_factory.mktemp("registry"))
    argv = (crane, "registry", "serve", f"--address={address}", f"--disk={disk}")
    node_cluster.components["registry"] = Component("registry", argv, f"http://{address}/v2/")
    node_cluster.start("registry")
    node_cluster.wait_for("registry")
    for node in node_cluster.nodes:
        folder = configs.registries(node.machine) / address
        folder.mkdir(parents=True)
        (folder / "hosts.toml").write_text(configs.plain_http(address))
    yield address
    node_cluster.stop("registry")
    del node_cluster.components["registry"]


class Published(NamedTuple):
    """A release: the files that its page would have, and where image and chart are."""

    files: Path
    registry: str


@pytest.fixture(scope="module")
def published(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Build and push a release of this tree, as the workflow does."""
    scratch = tmp_path_factory.mktemp("release")
    tree = scratch / "tree"
    listed = operator_image.run(
        "git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"
    )
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    given = operator_image.without_network(scratch, tree)
    registries = scratch / "registries.conf"
    registries.write_text(f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n')
    given |= {
        "CONTAINERS_REGISTRIES_CONF": str(registries),
        "HELM": str(tools.built(tools.CLUSTER).program("helm")),
        "REGISTRY": registry,
        "TAG": f"v{__version__}",
        "PLAIN_HTTP": "1",
        **{f"HELM_{each}_HOME": str(scratch / "helm") for each in ("CACHE", "CONFIG", "DATA")},
    }
    # Not installed again: that would make this environment one of the copied tree.
    here = (f"PYTHON={sys.executable}", f"VENV={sys.prefix}", "SMALL_STAMP=LICENSE")
    for target in ("release", "publish"):
        operator_image.run("make", "-C", str(tree), target, *here, **given)
    return Published(tree / "dist", registry)


def test_a_release_has_all_files_and_their_checksums(published: Published) -> None:
    made = {each.name for each in published.files.iterdir()}
    assert made == {WHEEL, f"{SOURCE}.tar.gz", CHART, "NOTES.md", "SHA256SUMS"}
    lines = (published.files / "SHA256SUMS").read_text().splitlines()
    assert {line.split()[1] for line in lines} == made - {"NOTES.md", "SHA256SUMS"}
    check = ("sha256sum", "--check", "--strict", "SHA256SUMS")
    subprocess.run(check, cwd=published.files, check=True, capture_output=True)
    assert (published.files / "NOTES.md").read_text().startswith("### ")


def test_the_wheel_installs_into_an_empty_environment(published: Published, tmp_path: Path) -> None:
    folder = tmp_path / "env"
    clean = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}

    def run(*words: str | Path) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=clean, check=True, stdout=subprocess.PIPE)
        return done.stdout.decode()

    run(sys.executable, "-m", "venv", folder)
    pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet")
    run(*pip, f"--constraint={ROOT / 'constraints.txt'}", published.files / WHEEL)
    assert run(folder / "bin" / "k8sbench", "--version").split()[-1] == __version__


@pytest.mark.parametrize("major", sorted(programs.MODULES))
def test_the_chart_of_the_registry_brings_the_operator_up_with_the_image_of_the_registry(
    node_cluster: NodeCluster,
    restricted: Namespace,
    published: Published,
    tmp_path: Path,
    major: int,
) -> None:
    (disk := tmp_path / "disk").mkdir()
    os.chown(disk, USER, USER)
    helm = Helm(major, tmp_path, node_cluster.variables())
    image = {"registry": published.registry, "repository": "k8sbench-operator"}
    with releases.volume(node_cluster, restricted.name, disk) as claimed:
        values = merged(claimed, nested("operator.image", image))
        chart = (f"oci://{published.registry}/dlperf", f"--version={__version__}", "--plain-http")
        where = f"--namespace={restricted.name}"
        helm.run("install", RELEASE, *chart, *helm.given(values), where, *PATIENCE)
        pod = Release(helm, restricted).pod()
        (container,) = pod["status"]["containerStatuses"]
        assert container["ready"]
        assert container["image"] == f"{published.registry}/k8sbench-operator:{__version__}"
        helm.run("uninstall", RELEASE, where, *PATIENCE)

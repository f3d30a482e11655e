"""The wheel works alone, in an empty environment without the sources."""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml

from k8sbench import __version__
from k8sbench.trainers import paddle_launch
from tests import packaged
from tests.tiers import CACHE, ROOT
from tests.unit.kubernetes import servers

pytestmark = pytest.mark.timeout(900)

CONSTRAINTS = ROOT / "constraints.txt"
FIRST, LAST = "35.0.0", "37.0.2"
"""The official clients of Kubernetes between which k8sbench works."""
# The user's own downloads; and an index that is slow for a moment is asked again.
PIP = {"PIP_CACHE_DIR": str(CACHE / "pip"), "PIP_RETRIES": "10", "PIP_DEFAULT_TIMEOUT": "60"}


def run(*words: str | pathlib.Path, cwd: pathlib.Path, **more: str) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=clean | PIP | more,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The source distribution, and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    return out


@pytest.fixture(scope="module")
def wheel(dist: pathlib.Path) -> pathlib.Path:
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An environment with nothing but the wheel, not even pip, and with the last client."""
    place = tmp_path_factory.mktemp("elsewhere")
    text, changed = re.subn(r"(?m)^kubernetes==.*$", f"kubernetes=={LAST}", CONSTRAINTS.read_text())
    assert changed == 1
    (place / "constraints.txt").write_text(text)
    run(sys.executable, "-m", "venv", "--without-pip", place / "env", cwd=place)
    install(wheel, place)
    return place


def install(what: str | pathlib.Path, place: pathlib.Path) -> None:
    """Install into the environment at a place.

    Of the thousands of modules commands import few, and Python compiles these by itself.
    """
    pip = (sys.executable, "-m", "pip", "--python", place / "env" / "bin" / "python")
    words = ("install", "--quiet", "--no-compile", "-c", place / "constraints.txt", what)
    # `make` sets constraints.txt, which has the first client.
    run(*pip, *words, cwd=place, PIP_CONSTRAINT="")


def test_templates_catalog_pools_and_trainers_travel_in_the_wheel(wheel: pathlib.Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    benchmark, launcher = (
        packaged.BENCHMARKS / "deeplabv3p.yaml",
        pathlib.Path(paddle_launch.__file__),
    )
    read = (packaged.POOLS, benchmark, launcher)
    assert {
        "k8sbench/py.typed",
        *(str(path.relative_to(packaged.PACKAGE.parent)) for path in read),
        "k8sbench/_manifests/job.yaml.j2",
        "k8sbench/_crds/benchmarks.k8sbench.io.yaml",
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "manifests/"))]


def test_the_files_are_of_this_version_and_hold_the_pages_of_the_project(
    dist: pathlib.Path,
) -> None:
    source = f"k8sbench-{__version__}"
    assert {each.name for each in dist.iterdir()} == {
        f"{source}.tar.gz",
        f"{source}-py3-none-any.whl",
    }
    with tarfile.open(dist / f"{source}.tar.gz") as archive:
        names = set(archive.getnames())
    pages = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")
    assert {f"{source}/{each}.md" for each in pages} <= names
    assert f"{source}/charts/Chart.yaml" in names


def test_render_from_the_wheel_gives_what_the_source_tree_gives(installed: pathlib.Path) -> None:
    words = ("render", "resnet50", "--replicas", "4", "--amp", "--with-trainers")
    there = run(installed / "env" / "bin" / "k8sbench", *words, cwd=installed)
    here = run(sys.executable, "-m", "k8sbench", *words, cwd=ROOT)
    assert there == here
    assert [d["kind"] for d in yaml.safe_load_all(there)] == ["ConfigMap", "PyTorchJob"]


@pytest.mark.parametrize("version", [FIRST, LAST])
def test_the_first_and_the_last_official_client_reach_a_cluster_as_its_kubeconfig_says(
    installed: pathlib.Path, tmp_path: pathlib.Path, version: str
) -> None:
    """By a proxy, whatever NO_PROXY says, and with what a plugin prints."""
    # The first one is that of this environment.
    python = sys.executable if version == FIRST else str(installed / "env" / "bin" / "python")
    asks = "import importlib.metadata as all; print(all.version('kubernetes'))"
    assert run(python, "-c", asks, cwd=tmp_path).strip() == version
    api_version = "client.authentication.k8s.io/v1"
    credential = {"apiVersion": api_version, "kind": "ExecCredential", "status": {"token": "t"}}
    plugin = {
        "apiVersion": api_version,
        "command": "echo",
        "args": [json.dumps(credential)],
        "interactiveMode": "Never",
    }
    asked = []

    def refuse(connection: socket.socket) -> None:
        asked.append(connection.recv(1 << 16).decode().lower())
        connection.sendall(servers.answer(401, b"", Connection="close"))

    with servers.serving(refuse) as address:
        way = {"proxy-url": f"http://{address}"}
        user = {"exec": plugin}
        path = servers.kubeconfig(tmp_path / "config", "http://a.example", user, **way)
        done = subprocess.run(
            [python, "-m", "k8sbench", "doctor", "--kubeconfig", path],
            cwd=installed if version == LAST else ROOT,
            env={**os.environ, "NO_PROXY": "*", "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 6
    assert "does not accept these credentials" in done.stdout + done.stderr
    for one in asked:
        assert one.startswith("get http://a.example/version ")
        assert "authorization: bearer t\r\n" in one
    assert len(asked) == 2, "once more after signing in again"


@pytest.mark.soak
def test_a_smoke_submit_from_the_wheel_ends_with_a_measured_row(
    installed: pathlib.Path, wheel: pathlib.Path
) -> None:
    """With the smallest framework."""
    command = installed / "env" / "bin" / "k8sbench"
    install(f"{wheel}[paddle]", installed)
    store = str(installed / "store")
    words = ("submit", "deeplabv3p", "--framework", "paddle", "--iterations", "5", "--warmup", "1")
    run(command, *words, cwd=installed, K8SBENCH_STORE=store)
    found = run(command, "results", "-o", "json", cwd=installed, K8SBENCH_STORE=store)
    (row,) = json.loads(found)["rows"]
    assert row["framework"] == "paddle"
    assert row["throughput"] > 0

"""``k8sbench data`` on a real node: a set is drawn, fetched, resumed and checked on a claim."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import volumes
from tests.harness.cluster.manifests import pod
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.node import image
from tests.tiers import ROOT

SERVES = """
import http.server
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Authorization") != "Bearer open-sesame":
            return self.send_error(401)
        data = open("/data/archive.tar", "rb").read()
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        print("served from", begin, flush=True)
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        self.wfile.write(data[begin : begin + 50_000])
        self.wfile.flush()
        if not begin:
            self.connection.recv(1)  # until the reader is gone
        self.wfile.write(data[begin + 50_000 :])
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""
"""A server of one archive; the first answer is held after its first part."""


PACKAGES = ("numpy", "numpy.libs", "PIL", "pillow.libs")
POOL = """
default: data
pools:
  - {name: data, gpus_per_node: 0, gpu_model: null, cpu_per_gpu: "1", memory_per_gpu: 1Gi,
     shm: 64Mi, python_packages: pvc:data/packages}
"""


@pytest.fixture
def folder(restricted: Namespace, tmp_path: Path) -> Iterator[Path]:
    """Give the folder of this machine that the claim ``data`` stands for; it holds packages."""
    made = volumes.shared(tmp_path / "volume")
    for name in PACKAGES:
        shutil.copytree(Path(sysconfig.get_path("purelib"), name), made / "packages" / name)
    with volumes.claimed(restricted, "data", made):
        yield made


def serve(namespace: Namespace) -> str:
    """Start the server in a pod; returns the URL of the archive."""
    secured = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "main",
        "image": image.PYTHON,
        "command": ["python3", "-c", SERVES],
        "securityContext": secured,
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }
    user = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    more = {"volumes": [volume], "terminationGracePeriodSeconds": 0}
    namespace.create(pod("s", container, securityContext=user, **more))
    namespace.wait("condition=Ready", "pod/s")
    return f"http://{namespace.get('pod', 's')['status']['podIP']}:8000/archive.tar"


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_small_set_is_drawn_onto_a_claim_and_is_whole(
    restricted: Namespace, folder: Path, tmp_path: Path
) -> None:
    shell = Shell(restricted, restricted.user(tmp_path), tmp_path / "shell")
    site = on_the_node(tmp_path)
    clips = "pvc:data/sets/clips"
    drawn = shell.run("data", "make-sample", "kinetics", clips, "--pictures=4", *site)
    assert drawn.err.count("were drawn into") == 1
    assert len(list((folder / "sets/clips/images").glob("*/*/*.jpg"))) == 6 * 12
    shell.run("data", "check", "kinetics", f"--data={clips}", "--deep", *site)


def on_the_node(folder: Path) -> tuple[str, ...]:
    """Give the options of Jobs that the nodes here can run."""
    pools = folder / "pools.yaml"
    pools.write_text(POOL)
    return (f"--pools={pools}", "--node-pool=data", f"--image={image.PYTHON}")


@pytest.mark.soak
def test_a_set_is_fetched_onto_a_claim_though_its_pod_is_killed(
    restricted: Namespace, folder: Path, tmp_path: Path
) -> None:
    shell = Shell(restricted, restricted.user(tmp_path), tmp_path / "shell")
    site = on_the_node(tmp_path)
    drawn = tmp_path / "drawn"
    program = (sys.executable, "-m", "k8sbench.trainers.prepare_data", "make-sample", "cityscapes")
    subprocess.run([*program, str(drawn)], check=True, cwd=ROOT, capture_output=True)
    archive = folder / "archive.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(drawn, "cityscapes")
    md5 = hashlib.md5(archive.read_bytes(), usedforsecurity=False).hexdigest()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "account"}}
    restricted.create({**secret, "stringData": {"header": "Authorization: Bearer open-sesame"}})
    source = (f"--url={serve(restricted)}", f"--md5={md5}", "--secret=account")
    words = ("data", "prepare", "cityscapes", "--data=pvc:data/sets/city", *site, *source)
    with shell.started(*words) as running:
        running.until("fetch archive.tar: ")
        parts = folder / "sets/city/.k8sbench-prepare"
        until(
            lambda: [path.stat().st_size for path in parts.glob("*/*.partial")] == [50_000],
            "the first part",
        )
        (pod,) = (name for name in shell.on_cluster("pods") if name.startswith("data-prepare"))
        restricted.kubectl("delete", "pod", pod, "--grace-period=1")
        running.ends()
    assert "served from 50000" in restricted.kubectl("logs", "s")
    assert "all is there" in running.err
    assert "sesame" not in running.err
    assert contents(folder / "sets" / "city") == contents(drawn)
    assert restricted.kubectl("get", "jobs.batch", "--output=name") == ""
    # Once more: nothing is fetched.
    assert "All is there" in shell.run(*words).err

    lost = next((folder / "sets/city/gtFine/val").glob("*/*"))
    lost.unlink()
    done = shell.run("data", "check", "cityscapes", "--data=pvc:data/sets/city", *site, code=2)
    name = lost.name.replace("gtFine_labelTrainIds", "leftImg8bit")
    assert f"no labels for /data/sets/city/leftImg8bit/val/{lost.parent.name}/{name}" in done.out

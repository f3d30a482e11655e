"""The operator's image: its contents, and the chart's pod on a kubelet."""

import json
import stat
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from k8sbench import __version__
from tests.harness.cluster.manifests import pod
from tests.harness.cluster.namespace import Namespace

MEGABYTE = 1_000_000
USER = 65532
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
COMPILERS = {"as", "c++", "cc", "clang", "cpp", "g++", "gcc", "go", "ld", "make", "rustc", "tcc"}


class Image:
    """Configuration and merged files of an archived image."""

    def __init__(self, archive: Path) -> None:
        self.size = 0
        """Bytes of all layers, those that a later one hides or replaces included."""
        self.files: dict[PurePosixPath, tarfile.TarInfo] = {}
        with tarfile.open(archive) as tar:

            def read(name: str) -> Any:
                member = tar.extractfile(name)
                assert member is not None
                return member

            (manifest,) = json.load(read("manifest.json"))
            self.config: dict[str, Any] = json.load(read(manifest["Config"]))["config"]
            for layer in manifest["Layers"]:
                with tarfile.open(fileobj=read(layer)) as files:
                    for file in files:
                        self._take(file)

    def _take(self, file: tarfile.TarInfo) -> None:
        self.size += file.size
        path = PurePosixPath("/", file.name)
        if path.name.startswith(".wh."):
            gone = path.with_name(path.name.removeprefix(".wh."))
            self.files = {p: f for p, f in self.files.items() if not p.is_relative_to(gone)}
        else:
            self.files[path] = file

    def programs(self) -> set[str]:
        """Names of what is on its PATH, links included."""
        variables = dict(each.split("=", 1) for each in self.config["Env"])
        folders = {PurePosixPath(one) for one in variables["PATH"].split(":")}
        # /bin is a link to /usr/bin.
        return {
            p.name for p, file in self.files.items() if p.parent in folders and not file.isdir()
        }


@pytest.fixture(scope="module")
def image(operator_archive: Path) -> Image:
    return Image(operator_archive)


def test_it_is_small_and_holds_neither_compiler_nor_cache_nor_setuid_program(image: Image) -> None:
    assert image.size < 420 * MEGABYTE
    assert {"k8sbench", "python3"} <= image.programs()
    assert not image.programs() & COMPILERS
    caches = {".cache", "archives", "lists"}  # of pip, of Debian's packages, of their lists
    assert not [p for p, file in image.files.items() if file.size and caches & set(p.parts)]
    raised = stat.S_ISUID | stat.S_ISGID
    assert not [p for p, file in image.files.items() if file.isfile() and file.mode & raised]


def test_it_runs_as_a_user_with_a_number_and_says_what_it_is(image: Image) -> None:
    config = image.config
    assert config["User"] == f"{USER}:{USER}"
    assert (config["Entrypoint"], config["Cmd"]) == (["k8sbench"], ["operator"])
    assert {"HOME=/data", "TMPDIR=/tmp"} <= set(config["Env"])
    data = image.files[PurePosixPath("/data")]
    assert (data.uid, data.gid) == (USER, USER)
    labels = {
        key.removeprefix("org.opencontainers.image."): text
        for key, text in config["Labels"].items()
    }
    assert labels["title"] == "k8sbench-operator"
    assert labels["version"] == __version__
    assert {"description", "revision", "base.name"} <= labels.keys()


def test_a_restricted_pod_runs_it(restricted: Namespace, operator_image_name: str) -> None:
    writable = ("data", "tmp")
    said = {"version": ("--version",), "stores": ("store", "info")}
    containers = [
        {
            "name": name,
            "image": operator_image_name,
            "imagePullPolicy": "Never",
            "args": list(words),
            "securityContext": RESTRICTED,
            "volumeMounts": [{"name": one, "mountPath": f"/{one}"} for one in writable],
        }
        for name, words in said.items()
    ]
    restricted.create(
        pod(
            "once",
            *containers,
            restartPolicy="Never",
            automountServiceAccountToken=False,
            securityContext={"fsGroup": USER},
            volumes=[{"name": one, "emptyDir": {}} for one in writable],
        )
    )
    done = restricted.until(
        lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"), "pod", "once"
    )
    logs = {name: restricted.kubectl("logs", "once", "-c", name) for name in said}
    assert done["status"]["phase"] == "Succeeded", logs
    assert __version__ in logs["version"]
    assert "/data/" in logs["stores"]

"""Images built from local files without a registry: Python and pause.

The Python is the one that runs the tests, without its packages, so compiled packages that work here
also work there. Its files keep their paths; programs and libraries come with the libraries they
link to.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PYTHON = f"k8sbench.test/python:{sys.version_info.major}.{sys.version_info.minor}"
"""An image with this Python and a few of Debian's programs."""
PAUSE = "k8sbench.test/pause:1"
_PROGRAMS = (
    *("bash", "cat", "dd", "env", "getent", "grep", "head", "ls", "mkdir", "rm", "seq", "sh"),
    *("sleep", "tail", "tar", "true"),
)
# Of the host's: what the frameworks are linked to and do not bring along.
_LIBRARIES = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1", "libm.so.6"),
    # Empty, of an older C library.
    *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
)
_LEFT_OUT = {
    *("__phello__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "site-packages", "test"),
    *("tests", "tkinter", "turtledemo"),
}
_NOT_NEEDED = (".a", ".opt-1.pyc", ".opt-2.pyc")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


def python(folder: Path) -> Path:
    """Write the image with Python as an archive that ``ctr images import`` takes."""
    interpreter = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    layer = folder / "python-layer.tar"
    with tarfile.open(layer, "w", dereference=True) as tar:
        _add_folders(tar)
        _add_texts(tar, _FILES)
        files = {interpreter, *map(_found, _PROGRAMS), *_libraries()}
        library = {*_standard_library()}
        linked = {*files, *(file for file in library if file.suffix == ".so")}
        for file in sorted({_placed(one) for one in (*linked, *library, *_linked_to(linked))}):
            tar.add(file, str(file).lstrip("/"), recursive=False, filter=_owned_by_root)
        for name in ("python3", "python"):
            _add_link(tar, f"usr/local/bin/{name}", str(interpreter))
    path = {"/usr/local/bin": None, str(interpreter.parent): None, "/usr/bin": None, "/bin": None}
    return _archive(folder / "python.tar", PYTHON, layer, {"Env": [f"PATH={':'.join(path)}"]})


def pause(folder: Path, program: Path) -> Path:
    """Write the image of the program that holds a pod's namespaces."""
    layer = folder / "pause-layer.tar"
    with tarfile.open(layer, "w") as tar:
        tar.add(program, "pause", filter=_owned_by_root)
    return _archive(folder / "pause.tar", PAUSE, layer, {"Entrypoint": ["/pause"]})


def _standard_library() -> Iterator[Path]:
    for root in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        for folder, folders, names in os.walk(root):
            folders[:] = [
                name for name in folders if name not in _LEFT_OUT and not name.startswith("config-")
            ]
            for name in names:
                if not name.startswith("_tkinter") and not name.endswith(_NOT_NEEDED):
                    yield Path(folder, name)


def _libraries() -> Iterator[Path]:
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    listed = subprocess.run([str(ldconfig), "-p"], capture_output=True, text=True, check=True)
    for name in _LIBRARIES:
        found = re.search(rf"^\s+{re.escape(name)} .* => (\S+)$", listed.stdout, re.MULTILINE)
        if found is not None:
            yield Path(found[1])


def _found(program: str) -> Path:
    found = shutil.which(program, path="/usr/bin:/bin")
    if found is None:
        raise FileNotFoundError(f"{program}: no such program in /usr/bin")
    return Path(found)


def _linked_to(files: Iterable[Path]) -> Iterator[Path]:
    """Yield the shared libraries that files need, and the loader itself."""
    # Of texts among them it says that they are no dynamic executables.
    words = ["ldd", *map(str, sorted(files))]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    for name in set(re.findall(r"(?:=> |^\t)(/\S+) \(0x", said, re.MULTILINE)):
        yield Path(name)


def _placed(file: Path) -> Path:
    """Return the real path of a file.

    /lib is a link to /usr/lib, both here and in the image.
    """
    return file.parent.resolve() / file.name


def _archive(into: Path, name: str, layer: Path, config: Mapping[str, object]) -> Path:
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    about = {
        "architecture": machine,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(into, "w") as tar:
        tar.add(layer, "layer.tar")
        texts = {"config.json": json.dumps(about), "manifest.json": json.dumps(manifest)}
        _add_texts(tar, texts)
    layer.unlink()
    return into


def _add_folders(tar: tarfile.TarFile) -> None:
    for name in ("bin", "lib", "lib64", "sbin"):
        here = Path("/", name)
        if here.is_symlink():
            _add_link(tar, name, str(here.readlink()))
    for name in ("dev", "etc", "proc", "run", "sys", "tmp", "var/tmp"):
        folder = tarfile.TarInfo(name)
        folder.type = tarfile.DIRTYPE
        folder.mode = 0o1777 if name.endswith("tmp") else 0o755
        tar.addfile(folder)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type = tarfile.SYMTYPE
    link.linkname = target
    tar.addfile(link)


def _add_texts(tar: tarfile.TarFile, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        file = tarfile.TarInfo(name)
        file.size = len(text.encode())
        file.mode = 0o644
        tar.addfile(file, io.BytesIO(text.encode()))


def _owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info

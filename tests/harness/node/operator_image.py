"""The operator's image, built as users build it, on a Debian base.

The tests have no registry. ``mmdebstrap`` makes a base with the relevant parts of the public one
(Debian 12 and its Python), and pip downloads the packages beforehand, as docs/images.md describes
for a network without an index. Results are kept in the user's cache under a checksum of their
inputs, and built once however many processes need them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from k8sbench import __version__
from tests import tiers
from tests.harness.cluster import tools
from tests.harness.node.needs import PATH

REGISTRY = "k8sbench.test"
NAME = f"{REGISTRY}/k8sbench-operator:{__version__}"
VALUES = {"registry": REGISTRY, "repository": "k8sbench-operator", "pullPolicy": "Never"}
"""The same, for the chart."""
CACHE = tiers.CACHE / "k8sbench" / "images"
KEPT = 3
"""Finished images kept in the cache, so that branches share it."""
DOWNLOAD = "--no-deps --only-binary=:all: --python-version=3.11"
PIP_CONF = "[global]\nno-index = true\nfind-links = /operator\n"
"""Pip configuration for packages downloaded beforehand, as in docs/images.md."""
_BASE = f"{REGISTRY}/python:3.11-slim-bookworm"
_SUITE = "bookworm"
# usr-is-merged instead of what would do that later, with 45 MB of Perl.
_PACKAGES = ("ca-certificates", "python3", "python3-venv", "usr-is-merged")
# As Debian's own slim images leave them out.
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
_TREE = (
    *(".dockerignore", "LICENSE", "README.md", "images", "k8sbench", "manifests"),
    *("charts/crds", "pyproject.toml", "tests/harness/node/operator_image.py"),
)
_REQUIREMENTS = tiers.ROOT / "images" / "operator" / "requirements.txt"
_PROGRAMS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}


class BuildFailed(Exception):
    """A step failed; the message ends with what it said."""


def missing() -> str | None:
    """Say what is missing to build it; None if it can be built."""
    lacking = [
        f"no {program} (Debian: {package})"
        for program, package in _PROGRAMS.items()
        if shutil.which(program, path=PATH) is None
    ]
    lacking += [] if os.geteuid() == 0 else ["building images here needs root"]
    return "; ".join(lacking) or None


def built(say: Callable[[str], None] = print) -> Path:
    """Return the image as an archive for containerd; build if missing."""
    target = CACHE / f"operator-{_key(_files(_TREE))}.tar"
    CACHE.mkdir(parents=True, exist_ok=True)
    with tools.locked(CACHE / "lock", say):
        if target.exists():
            target.touch()
            return target
        say(f"building the operator's image into {target}")
        for left in CACHE.glob("build-*"):  # by a build that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="build-") as scratch:
            _build(Path(scratch)).rename(target)
        newest = sorted(CACHE.glob("operator-*.tar"), key=lambda one: -one.stat().st_mtime)
        for old in newest[KEPT:]:
            old.unlink()
    return target


def base(*packages: str) -> Path:
    """Have the base's root file system, with more packages, as an archive."""
    words = ["mmdebstrap", "--variant=minbase", f"--include={','.join((*_PACKAGES, *packages))}"]
    words += ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"]
    words += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    target = CACHE / f"base-{_key([' '.join((*words, _SUITE)).encode()])}.tar"
    if not target.exists():
        partial = target.with_suffix(".partial.tar")
        # Packages come from where, and by what rules, this machine's own come.
        fetching = run("apt-config", "dump", '--format=%f "%v";%n', "Acquire").splitlines()
        rules = [f"--aptopt={line}" for line in fetching if not line.endswith('"";')]
        run(*words, *rules, _SUITE, str(partial))
        partial.rename(target)
    return target


def _wheels() -> Path:
    """Have the packages of the image as files."""
    target = CACHE / f"wheels-{_key(_files(('images/operator/requirements.txt',)))}"
    if not target.exists():
        partial = target.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        into = (f"--dest={partial}", f"--requirement={_REQUIREMENTS}")
        run(sys.executable, "-m", "pip", "download", "--quiet", *DOWNLOAD.split(), *into)
        partial.rename(target)
    return target


def _build(scratch: Path) -> Path:
    tree = scratch / "tree"
    shutil.copytree(tiers.ROOT / "images", tree / "images")
    for name in (".dockerignore", "k8sbench/__init__.py"):
        tree.joinpath(name).parent.mkdir(exist_ok=True)
        shutil.copy(tiers.ROOT / name, tree / name)
    wheel_only = ("--wheel", "--no-isolation", f"--outdir={tree / 'dist'}")
    run(sys.executable, "-m", "build", *wheel_only, str(tiers.ROOT))
    given = without_network(scratch, tree)
    program = (sys.executable, str(tree / "images" / "build.py"))
    run(*program, "operator", **given)
    run(*program, "operator", f"--save={scratch}", **given)
    (archive,) = scratch.glob("*.tar")
    return archive


def without_network(scratch: Path, tree: Path) -> dict[str, str]:
    """Prepare a tree, and return variables, to build the image there without index and registry."""
    for wheel in _wheels().iterdir():
        tree.joinpath("images", "operator", wheel.name).hardlink_to(wheel)
    pip = scratch / "pip.conf"
    pip.write_text(PIP_CONF)
    given = buildah(scratch) | {"BASE": _BASE, "PIP_CONFIG_FILE": str(pip)}
    container = run("buildah", "from", "scratch", **given).strip()
    run("buildah", "add", container, str(base()), "/", **given)
    run("buildah", "commit", "--rm", container, _BASE, **given)
    return given


def buildah(scratch: Path) -> dict[str, str]:
    """Return variables with which buildah and ``images/build.py`` keep to a folder."""
    storage = scratch / "storage.conf"
    places = {"driver": "overlay", "graphroot": scratch / "store", "runroot": scratch / "run"}
    lines = (f'{key} = "{value}"' for key, value in places.items())
    storage.write_text("\n".join(("[storage]", *lines)) + "\n")
    return {
        "BUILDAH_ISOLATION": "chroot",
        "CONTAINERS_STORAGE_CONF": str(storage),
        "ENGINE": "buildah",
        "REGISTRY": REGISTRY,
        "TMPDIR": str(scratch),
    }


def run(*words: str, **given: str) -> str:
    """Run a program to its end and return its output; raises BuildFailed."""
    done = subprocess.run(
        words,
        env=os.environ | {"PATH": f"{os.environ['PATH']}:{PATH}"} | given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        raise BuildFailed(f"{' '.join(words[:3])} failed: {said[-3000:]}")
    return done.stdout


def _files(names: Iterable[str]) -> Iterable[bytes]:
    """Yield names and contents of files, of folders those below them."""
    for name in names:
        top = tiers.ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and path.suffix not in (".pyc", ".whl"):
                yield path.relative_to(tiers.ROOT).as_posix().encode()
                yield path.read_bytes()


def _key(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()[:16]

"""Builds, saves and pushes the images: what ``make images``, ``save`` and ``push`` run.

``python3 images/build.py [--push | --save FOLDER] [IMAGE...]``. Takes docker (with BuildKit),
podman or buildah, the first that works. Needs no package of k8sbench's: only Python and this tree;
for the operator also k8sbench's wheel in ``dist/``, which ``make dist`` makes; for a published
program the image of its framework, built before.

Variables: ``REGISTRY`` (HOST/PATH, for the names), ``ENGINE`` (docker, podman or buildah: not the
first that works), ``BASE`` (another base, such as a mirror's, or one with its digest),
``PIP_CONFIG_FILE`` (a pip.conf for the build: it is mounted as a secret and stays in no layer).

The tag of a framework's image, and of what is built on it, is k8sbench's version and the digest of
the trainers in it, so that a plan, which names both, can only ever run the trainers that it says.
The operator's is the version.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPERATOR = "operator"
IMAGES = ("pytorch", "paddle", OPERATOR)
"""What is built where no image is named."""
UPSTREAM = {"upstream-mmseg": "pytorch", "upstream-paddleseg": "paddle"}
"""Image of a published program → the image that it is built on."""
ENGINES: dict[str, tuple[str, ...]] = {
    "docker": ("docker", "info"),  # docker's client is often there without its daemon
    "podman": ("podman", "version"),
    "buildah": ("buildah", "version"),
}
"""Program → what it must be able to answer."""
SAVE: dict[str, tuple[str, ...]] = {
    "docker": ("save", "--output", "{file}", "{name}"),
    "podman": ("save", "--format", "docker-archive", "--output", "{file}", "{name}"),
    "buildah": ("push", "{name}", "docker-archive:{file}:{name}"),
}
"""Program → how it writes an image to a file that each of them, and containerd, loads."""
REGISTRY = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")


class Refused(Exception):
    """What is wrong, and what to do about it."""


def main(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Build, or push, and return the exit code."""
    parser = argparse.ArgumentParser(prog="images/build.py", description="Build k8sbench's images.")
    parser.add_argument("images", nargs="*", metavar="IMAGE", help=f"default: {' '.join(IMAGES)}")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--push", action="store_true", help="push what was built before")
    instead.add_argument("--save", metavar="FOLDER", help="write what was built before to files")
    given = parser.parse_args(words)
    verb = "push" if given.push else "save" if given.save else "build"
    try:
        wanted = given.images or IMAGES
        for image in wanted:
            if image not in (*IMAGES, *UPSTREAM):
                known = " or ".join((*IMAGES, *UPSTREAM))
                raise Refused(f"there is no image for {image!r}.", f"Take {known}.")
        registry = checked(environ.get("REGISTRY", ""), push=given.push)
        engine = choose(environ)
        for image in wanted:
            name = image_name(registry, image)
            if given.push:
                command = [engine, "push", name]
            elif given.save:
                command = save(engine, name, Path(given.save).absolute())
            else:
                command = build(engine, image, environ)
            say("$ " + " ".join(command))
            done = subprocess.run(command, cwd=ROOT, check=False)
            if done.returncode != 0:
                raise Refused(f"{engine} could not {verb} {name}.", "What it says stands above.")
        return 0
    except Refused as wrong:
        message, action = wrong.args
        say(f"error: {message}\n  {action}")
        return 2


def choose(environ: Mapping[str, str]) -> str:
    """The program that builds: the one asked for, or the first that works."""
    asked = environ.get("ENGINE", "")
    if asked and asked not in ENGINES:
        raise Refused(f"ENGINE={asked} is not known here.", f"Take one of {', '.join(ENGINES)}.")
    there = [name for name in ENGINES if (not asked or name == asked) and shutil.which(name)]
    for name in there:
        answer = subprocess.run(ENGINES[name], capture_output=True, check=False)
        if answer.returncode == 0:
            return name
    if there:
        raise Refused(
            f"{' and '.join(there)} is installed, but `{' '.join(ENGINES[there[0]])}` fails: its"
            " daemon may not run.",
            "Start it, or install podman or buildah, which need none.",
        )
    raise Refused(
        f"there is no {asked or 'docker, podman or buildah'} here, and one of them has to build.",
        "Install one. The public images need no build: see docs/images.md.",
    )


def build(engine: str, image: str, environ: Mapping[str, str]) -> list[str]:
    """The command that builds one image."""
    values = {"VERSION": version(), "REVISION": revision()}
    registry = checked(environ.get("REGISTRY", ""))
    if image == OPERATOR:
        wheel = ROOT / "dist" / f"k8sbench-{version()}-py3-none-any.whl"
        if not wheel.is_file():
            raise Refused(f"there is no dist/{wheel.name} for the operator.", "Run: make dist")
    else:
        values["TRAINERS_DIGEST"] = trainers_digest()
    if image in UPSTREAM:
        values["BASE"] = image_name(registry, UPSTREAM[image])
    if base := environ.get("BASE", ""):
        values["BASE"] = base
    command = [engine, "build", "--file", f"images/{image}/Dockerfile"]
    command += ["--tag", image_name(registry, image)]
    for name, value in values.items():
        command += ["--build-arg", f"{name}={value}"]
    if config := environ.get("PIP_CONFIG_FILE", ""):
        if not Path(config).is_file():
            raise Refused(f"PIP_CONFIG_FILE={config} is no file.", "Give a pip.conf.")
        command += ["--secret", f"id=pip,src={Path(config).resolve()}"]
    return [*command, "."]


def save(engine: str, name: str, folder: Path) -> list[str]:
    """The command that writes one image to a file named after it, instead of an older one."""
    file = folder / f"{name.rpartition('/')[2].replace(':', '-')}.tar"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # podman and buildah replace none
    except OSError as wrong:
        raise Refused(f"{file} cannot be written: {wrong.strerror}.", "Name a folder.") from wrong
    return [engine, *(word.format(name=name, file=file) for word in SAVE[engine])]


def checked(registry: str, *, push: bool = False) -> str:
    """REGISTRY as the beginning of an image's name; empty for this machine alone."""
    registry = registry.rstrip("/")
    if push and not registry:
        raise Refused("REGISTRY is not set, so there is nowhere to push to.", "REGISTRY=HOST/PATH")
    if registry and not REGISTRY.fullmatch(registry):
        raise Refused(
            f"REGISTRY={registry} cannot begin an image's name.",
            "Write HOST[:PORT]/PATH in lower case, without a scheme.",
        )
    return registry


def image_name(registry: str, image: str) -> str:
    """Name and tag of one image; of a program's, ``--image-registry`` asks for the same."""
    tag = version() if image == OPERATOR else f"{version()}-{trainers_digest()[:12]}"
    name = f"k8sbench-{image}:{tag}"
    return f"{registry}/{name}" if registry else name


def version() -> str:
    """Version of k8sbench, as its package says it."""
    text = (ROOT / "k8sbench" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise Refused("k8sbench/__init__.py states no __version__.", "Restore the file.")
    return found[1]


def revision() -> str:
    """Commit of the tree, marked where the tree differs from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def trainers_digest() -> str:
    """Digest of the trainers, as plans record it (k8sbench/render/trainer_sources.py)."""
    digest = hashlib.sha256()
    for path, data in sorted(_trainer_files()):
        for part in (path.encode(), data):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return digest.hexdigest()


def _trainer_files() -> Iterator[tuple[str, bytes]]:
    package = ROOT / "k8sbench"
    yield "k8sbench/__init__.py", b""
    for path in (package / "trainers").rglob("*.py"):
        if "__pycache__" not in path.parts:
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def say(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))

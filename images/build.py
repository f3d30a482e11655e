"""Builds and pushes the images: what ``make images`` and ``make push`` run.

``python3 images/build.py [--push] [pytorch] [paddle]``. Takes docker (with BuildKit), podman or
buildah, the first that works. Needs no package of k8sbench's: only Python and this tree.

Variables: ``REGISTRY`` (HOST/PATH, for the names), ``ENGINE`` (docker, podman or buildah: not the
first that works), ``BASE`` (another base, such as a mirror's, or one with its digest),
``PIP_CONFIG_FILE`` (a pip.conf for the build: it is mounted as a secret and stays in no layer).

An image's tag is k8sbench's version and the digest of the trainers in it, so that a plan, which
names both, can only ever run the trainers that it says.
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
FRAMEWORKS = ("pytorch", "paddle")
ENGINES: dict[str, tuple[str, ...]] = {
    "docker": ("docker", "info"),  # docker's client is often there without its daemon
    "podman": ("podman", "version"),
    "buildah": ("buildah", "version"),
}
"""Program → what it must be able to answer."""
REGISTRY = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")


class Refused(Exception):
    """What is wrong, and what to do about it."""


def main(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Build, or push, and return the exit code."""
    parser = argparse.ArgumentParser(prog="images/build.py", description="Build k8sbench's images.")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help="default: all of them")
    parser.add_argument("--push", action="store_true", help="push what was built before")
    given = parser.parse_args(words)
    try:
        wanted = given.frameworks or FRAMEWORKS
        for name in wanted:
            if name not in FRAMEWORKS:
                raise Refused(
                    f"there is no image for {name!r}.", f"Take {' or '.join(FRAMEWORKS)}."
                )
        registry = checked(environ.get("REGISTRY", ""), push=given.push)
        engine = choose(environ)
        for framework in wanted:
            name = image_name(registry, framework)
            command = [engine, "push", name] if given.push else build(engine, framework, environ)
            say("$ " + " ".join(command))
            done = subprocess.run(command, cwd=ROOT, check=False)
            if done.returncode != 0:
                verb = "push" if given.push else "build"
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


def build(engine: str, framework: str, environ: Mapping[str, str]) -> list[str]:
    """The command that builds one image."""
    values = {"VERSION": version(), "REVISION": revision(), "TRAINERS_DIGEST": trainers_digest()}
    if base := environ.get("BASE", ""):
        values["BASE"] = base
    command = [engine, "build", "--file", f"images/{framework}/Dockerfile"]
    command += ["--tag", image_name(checked(environ.get("REGISTRY", "")), framework)]
    for name, value in values.items():
        command += ["--build-arg", f"{name}={value}"]
    if config := environ.get("PIP_CONFIG_FILE", ""):
        if not Path(config).is_file():
            raise Refused(f"PIP_CONFIG_FILE={config} is no file.", "Give a pip.conf.")
        command += ["--secret", f"id=pip,src={Path(config).resolve()}"]
    return [*command, "."]


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


def image_name(registry: str, framework: str) -> str:
    """Name and tag of one image; ``--image-registry`` asks for the same."""
    name = f"k8sbench-{framework}:{version()}-{trainers_digest()[:12]}"
    return f"{registry}/{name}" if registry else name


def version() -> str:
    """Version of k8sbench, as its package says it."""
    text = (ROOT / "k8sbench" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise Refused("k8sbench/__init__.py states no __version__.", "Restore the file.")
    return found[1]


def revision() -> str:
    """Commit of the tree, marked where what goes into the images differs from it."""
    head = _git("rev-parse", "HEAD")
    if head is None:
        return "unknown"
    changed = _git("status", "--porcelain", "--", "images", "k8sbench/trainers")
    return head + ("-dirty" if changed else "")


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
    yield "k8sbench/__init__.py", (package / "__init__.py").read_bytes()
    for path in (package / "trainers").rglob("*.py"):
        if "__pycache__" not in path.parts:
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def say(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))

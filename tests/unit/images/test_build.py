"""``images/build.py``, which ``make images`` runs: which program builds what, under which name.

The programs are stand-ins that write down how they were called; nothing is built.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

from k8sbench import __version__
from k8sbench.adapters import templates
from tests.tiers import ROOT
from tests.unit import goldens

SCRIPT = ROOT / "images" / "build.py"
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "{calls}"
case "$1" in {fails}) exit 1;; esac
"""


class Machine:
    """A machine that has some of the programs."""

    def __init__(self, home: pathlib.Path) -> None:
        self.bin = home / "bin"
        self.bin.mkdir()
        self.log = home / "calls"
        self.log.touch()
        # What the stand-ins need, and no real docker.
        for name, program in (("git", "false"), ("sh", "sh"), ("basename", "basename")):
            (self.bin / name).symlink_to(f"/bin/{program}")
        self.tree = home / "tree"
        (self.tree / "images").mkdir(parents=True)
        shutil.copy(SCRIPT, self.tree / "images")
        (self.tree / "k8sbench").symlink_to(ROOT / "k8sbench")
        self.wheel = self.tree / "dist" / f"k8sbench-{__version__}-py3-none-any.whl"
        self.wheel.parent.mkdir()
        self.wheel.touch()

    def has(self, name: str, fails_at: str = "nothing") -> Machine:
        file = self.bin / name
        file.write_text(STAND_IN.format(calls=self.log, fails=fails_at))
        file.chmod(0o755)
        return self

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", str(self.tree / "images" / SCRIPT.name), *words],
            env={"PATH": str(self.bin), **variables},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )


AI = {"REGISTRY": "registry.example/ai"}
SCENES: dict[str, tuple[str, str, dict[str, str]]] = {
    **{f"{name} builds all": (name, "", AI) for name in ("docker", "podman", "buildah")},
    "a docker without its daemon": ("docker:info buildah", "pytorch", {}),
    "an index of one's own": ("docker", "paddle", {"PIP_CONFIG_FILE": "TREE/pip.conf"}),
    "a published program": ("podman", "upstream-mmseg", AI),
    "push": ("podman", "--push", {"REGISTRY": "registry.example:5000/ai/"}),
    **{
        f"{name} saves to a file": (name, "--save TREE/files operator", AI)
        for name in ("docker", "podman", "buildah")
    },
    "no wheel": ("podman", "operator", {}),
    "no wheel is needed": ("podman", "pytorch", {}),
    "a build that fails": ("podman:build", "", {}),
    "no program": ("", "", {}),
    "push to nowhere": ("podman", "--push", {}),
    "an address": ("podman", "", {"REGISTRY": "https://registry.example"}),
    "capitals": ("podman", "", {"REGISTRY": "registry.example/AI"}),
    "a blank": ("podman", "", {"REGISTRY": "registry.example/a b"}),
    "no such image": ("podman", "tensorflow", {}),
    "an unknown engine": ("podman", "", {"ENGINE": "kaniko"}),
    "an engine that is not here": ("podman", "", {"ENGINE": "buildah"}),
    "no such index": ("podman", "", {"PIP_CONFIG_FILE": "/nowhere/pip.conf"}),
}
"""The programs and at which verb one fails, words and variables."""


def test_which_program_is_called_how_is_golden(tmp_path: pathlib.Path) -> None:
    """All or nothing: what cannot be is refused before anything is built."""
    parts = []
    for number, (name, (programs, words, variables)) in enumerate(SCENES.items()):
        home = tmp_path / str(number)
        home.mkdir()
        machine = Machine(home)
        for program in programs.split():
            machine.has(*program.split(":"))
        if "no wheel" in name:
            machine.wheel.unlink()
        (machine.tree / "pip.conf").write_text("index-url = https://user:word@index.example/\n")
        older = machine.tree / "files" / f"k8sbench-operator-{__version__}.tar"
        older.parent.mkdir()
        older.touch()
        tree = str(machine.tree)
        given = {key: text.replace("TREE", tree) for key, text in variables.items()}
        done = machine.run(*words.replace("TREE", tree).split(), **given)
        shown = re.sub(r"^\$ .*\n", "", done.stdout + done.stderr, flags=re.MULTILINE)
        text = f"{machine.log.read_text()}{shown}exit {done.returncode}\n"
        assert "index.example" not in text
        # An image replaces an older file.
        assert older.exists() != (done.returncode == 0 and "--save" in words)
        for value, mask in (
            *((tree, "TREE"), (templates.trainer_sources().digest, "DIGEST")),
            *((templates.trainer_sources().digest[:12], "DIGEST"), (__version__, "VERSION")),
        ):
            text = text.replace(value, mask)
        parts.append(f"# {name}\n{text}")
    goldens.check(pathlib.Path(__file__).parent / "golden" / "builds.txt", "\n".join(parts))

"""``images/build.py``, which ``make images`` runs: which program builds what, under which name.

The programs are stand-ins that write down how they were called; nothing is built.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from k8sbench import __version__
from k8sbench.adapters.files import packaged
from k8sbench.model.image import built_image
from tests.tiers import ROOT
from tests.unit.images import dockerfiles

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

    def has(self, name: str, *, fails_at: str = "nothing") -> Machine:
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

    def calls(self, verb: str) -> list[list[str]]:
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [words for words in lines if words[1] == verb]


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


def option(words: list[str], name: str) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words) if word == name]


def our_name(registry: str, image: str) -> str:
    digest = f"-{packaged.trainer_sources().digest[:12]}" if image != "collector" else ""
    return f"{registry}/k8sbench-{image}:{__version__}{digest}"


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_all_images_are_built_by_whichever_program_is_there(machine: Machine, engine: str) -> None:
    done = machine.has(engine).run(REGISTRY="registry.example:5000/ai/")
    assert done.returncode == 0, done.stderr
    builds = machine.calls("build")
    assert {words[0] for words in builds} == {engine}
    for framework, words in zip(dockerfiles.IMAGES, builds, strict=True):
        assert option(words, "--file") == [f"images/{framework}/Dockerfile"]
        assert option(words, "--tag") == [our_name("registry.example:5000/ai", framework)]
        assert words[-1] == "."


def test_the_name_is_the_one_that_image_registry_asks_for(machine: Machine) -> None:
    machine.has("podman").run("paddle", REGISTRY="registry.example/ai")
    [words] = machine.calls("build")
    digest = packaged.trainer_sources().digest
    asked = built_image(
        "registry.example/ai", "paddle", version=__version__, trainers_digest=digest
    )
    assert option(words, "--tag") == [asked] == [our_name("registry.example/ai", "paddle")]
    assert f"TRAINERS_DIGEST={digest}" in option(words, "--build-arg")


def test_every_argument_of_the_dockerfiles_is_given(machine: Machine) -> None:
    machine.has("podman").run(BASE="mirror.example/python:3.11.14-slim-bookworm")
    for framework, words in zip(dockerfiles.IMAGES, machine.calls("build"), strict=True):
        given = dict(value.split("=", 1) for value in option(words, "--build-arg"))
        declared = {rest.partition("=")[0] for rest in dockerfiles.rests(framework, "ARG")}
        assert set(given) == declared
        assert given["BASE"] == "mirror.example/python:3.11.14-slim-bookworm"
        assert given["VERSION"] == __version__
        assert given["REVISION"] == "unknown"  # there is no git on this machine


def test_an_index_of_one_s_own_is_a_secret_of_the_build(
    machine: Machine, tmp_path: pathlib.Path
) -> None:
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://user:word@index.example/simple\n")
    done = machine.has("docker").run("paddle", PIP_CONFIG_FILE=str(config))
    [words] = machine.calls("build")
    assert option(words, "--secret") == [f"id=pip,src={config}"]
    assert "index.example" not in " ".join(words) + done.stderr


def test_a_docker_without_its_daemon_gives_way_to_the_next(machine: Machine) -> None:
    done = machine.has("docker", fails_at="info").has("buildah").run("pytorch")
    assert done.returncode == 0
    assert [words[0] for words in machine.calls("build")] == ["buildah"]


def test_push_takes_the_names_that_build_gave(machine: Machine) -> None:
    machine.has("podman").run(REGISTRY="registry.example/ai")
    assert machine.run("--push", REGISTRY="registry.example/ai").returncode == 0
    built = [option(words, "--tag")[0] for words in machine.calls("build")]
    assert [words[2:] for words in machine.calls("push")] == [[name] for name in built]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("docker", "save --output {file} {name}"),
        ("podman", "save --format docker-archive --output {file} {name}"),
        ("buildah", "push {name} docker-archive:{file}:{name}"),
    ],
)
def test_an_image_is_saved_to_a_file_instead_of_an_older_one(
    machine: Machine, tmp_path: pathlib.Path, engine: str, words: str
) -> None:
    file = tmp_path / "files" / f"k8sbench-collector-{__version__}.tar"
    file.parent.mkdir()
    file.touch()
    given = ("--save", str(file.parent), "collector")
    done = machine.has(engine).run(*given, REGISTRY="registry.example/ai")
    assert done.returncode == 0, done.stderr
    name = our_name("registry.example/ai", "collector")
    [said] = machine.calls(words.split(maxsplit=1)[0])
    assert said[1:] == words.format(file=file, name=name).split()
    assert not file.exists()


def test_the_collector_is_not_built_without_its_wheel(machine: Machine) -> None:
    machine.wheel.unlink()
    done = machine.has("podman").run("collector")
    assert done.returncode == 2
    assert done.stderr == (
        f"error: there is no dist/{machine.wheel.name} for the collector.\n  Run: make dist\n"
    )
    assert machine.run("pytorch").returncode == 0


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (["--push"], {}, "REGISTRY is not set"),
        ([], {"REGISTRY": "https://registry.example"}, "cannot begin an image's name"),
        ([], {"REGISTRY": "registry.example/AI"}, "cannot begin an image's name"),
        ([], {"REGISTRY": "registry.example/a b"}, "cannot begin an image's name"),
        (["tensorflow"], {}, "there is no image for 'tensorflow'"),
        ([], {"ENGINE": "kaniko"}, "ENGINE=kaniko is not known"),
        ([], {"ENGINE": "buildah"}, "there is no buildah here"),
        ([], {"PATH": "/nowhere"}, "there is no docker, podman or buildah here, and one of them"),
        ([], {"PIP_CONFIG_FILE": "/nowhere/pip.conf"}, "PIP_CONFIG_FILE=/nowhere/pip.conf is no"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_built(
    machine: Machine, words: list[str], variables: dict[str, str], said: str
) -> None:
    done = machine.has("podman").run(*words, **variables)
    assert done.returncode == 2
    assert said in done.stderr
    assert not machine.calls("build") + machine.calls("push")


def test_a_build_that_fails_ends_it(machine: Machine) -> None:
    done = machine.has("podman", fails_at="build").run()
    assert done.returncode == 2
    assert "error: podman could not build k8sbench-pytorch:" in done.stderr
    assert len(machine.calls("build")) == 1


def test_it_needs_python_alone() -> None:
    """No package of ours or anyone's: ``make images`` needs no virtual environment."""
    lines = SCRIPT.read_text().splitlines()
    names = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
    assert os.access(SCRIPT, os.R_OK)

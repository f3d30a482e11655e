"""Programs are built once, whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cluster import tools
from tests.harness.cluster.tools import BuildFailed, Module
from tests.tiers import ROOT

pytestmark = pytest.mark.tier("go")

PROGRAM = 'package main\n\nfunc main() { println("built") }\n'


@pytest.fixture
def module(tmp_path: Path) -> Module:
    """Make a module with one program, which needs no other module."""
    folder = tmp_path / "tools"
    source = folder / "hello" / "main.go"
    source.parent.mkdir(parents=True)
    source.write_text(PROGRAM)
    folder.joinpath("go.mod").write_text(
        "module example.test/m\n\ngo 1.24\n\ntool example.test/m/hello\n"
    )
    folder.joinpath("go.sum").touch()
    return Module(
        "small", folder, renamed={"hello": "greet"}, files={"go.mod": ("example.test/m", "go.mod")}
    )


def silent(text: str) -> None:
    """Say nothing."""


def run(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stderr


def test_a_build_has_the_programs_and_the_files_that_come_with_them(
    module: Module, tmp_path: Path
) -> None:
    built = tools.built(module, tmp_path / "cache", silent)
    assert run(built.program("greet")) == "built\n"
    assert built.file("go.mod").read_text() == (module.folder / "go.mod").read_text()


@pytest.mark.parametrize("name", ["go.mod", "go.sum"])
def test_another_pin_is_another_build(module: Module, name: str) -> None:
    before = module.key
    changed = module.folder / name
    changed.write_text(changed.read_text() + "\n")
    assert module.key != before


def test_a_build_that_fails_leaves_nothing_and_says_what_go_said(
    module: Module, tmp_path: Path
) -> None:
    source = module.folder / "hello" / "main.go"
    source.write_text("package main\n\nfunc main() { undefined() }\n")
    with pytest.raises(BuildFailed, match="undefined: undefined"):
        tools.built(module, tmp_path / "cache", silent)
    assert tools.found(module, tmp_path / "cache") is None
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
    source.write_text(PROGRAM)
    assert run(tools.built(module, tmp_path / "cache", silent).program("greet")) == "built\n"


def test_what_a_killed_build_left_is_not_taken_for_one(module: Module, tmp_path: Path) -> None:
    partial = tmp_path / "cache" / f"small-{module.key}.partial" / "bin"
    partial.mkdir(parents=True)
    partial.joinpath("greet").write_text("half")
    assert tools.found(module, tmp_path / "cache") is None
    built = tools.built(module, tmp_path / "cache", silent)
    assert run(built.program("greet")) == "built\n"
    assert not partial.exists()


def test_of_two_that_build_at_once_one_waits_for_the_other(module: Module, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.harness.cluster import tools;"
        "module = tools.Module('small', Path(sys.argv[1]), {'hello': 'greet'});"
        "tools.built(module, Path(sys.argv[2]))"
    )
    words = [sys.executable, "-c", code, str(module.folder), str(tmp_path / "cache")]
    builders = [
        subprocess.Popen(
            words, cwd=ROOT, env=tools.GO_ENVIRONMENT, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [builder.communicate()[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert "".join(outputs).count("built in") == 1

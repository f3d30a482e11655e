"""Programs are built once, whole or not at all."""

from __future__ import annotations

import re
import shutil
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


def test_what_is_built_is_not_built_again(module: Module, tmp_path: Path) -> None:
    said: list[str] = []
    one = tools.built(module, tmp_path / "cache", said.append)
    assert said
    said.clear()
    assert tools.built(module, tmp_path / "cache", said.append) == one
    assert not said


@pytest.mark.parametrize("name", ["go.mod", "go.sum"])
def test_another_pin_is_another_build(module: Module, name: str) -> None:
    before = module.key
    changed = module.folder / name
    changed.write_text(changed.read_text() + "\n")
    assert module.key != before


def test_another_source_of_its_own_is_another_build(module: Module) -> None:
    before = module.key
    source = module.folder / "hello" / "main.go"
    source.write_text(source.read_text() + "\n")
    assert module.key != before


def test_other_flags_are_another_build(module: Module) -> None:
    other = Module(module.name, module.folder, module.renamed, "-s", module.files)
    assert other.key != module.key


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


def test_without_go_the_reason_is_reported(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tools.GO_ENVIRONMENT, "PATH", str(tmp_path))
    reason = tools.missing(module, tmp_path)
    assert reason is not None
    assert reason.startswith("go is not on PATH")


def test_a_go_that_is_too_old_is_reported(module: Module, tmp_path: Path) -> None:
    mod = module.folder / "go.mod"
    mod.write_text(mod.read_text().replace("go 1.24", "go 9.1"))
    reason = tools.missing(module, tmp_path)
    assert reason is not None
    assert re.fullmatch(r"go is \S+; building the programs needs 9.1", reason)


def test_what_is_built_needs_no_go(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.built(module, tmp_path / "cache", silent)
    monkeypatch.setitem(tools.GO_ENVIRONMENT, "PATH", str(tmp_path))
    assert shutil.which("go", path=str(tmp_path)) is None
    assert tools.missing(module, tmp_path / "cache") is None


def test_the_cluster_s_module_pins_what_the_project_says() -> None:
    text = tools.CLUSTER.folder.joinpath("go.mod").read_text()
    for pin in (
        f"k8s.io/kubernetes v{tools.KUBERNETES}",
        f"helm.sh/helm/v3 v{tools.HELM}",
        "github.com/kubeflow/training-operator v1.9.3",
        "sigs.k8s.io/kwok v0.7.0",
        "go.etcd.io/etcd/server/v3 v3.5.21",
    ):
        assert pin in text


def test_the_nodes_module_pins_what_the_project_says() -> None:
    text = tools.NODE.folder.joinpath("go.mod").read_text()
    assert "github.com/coredns/coredns v1.12.4" in text


def test_a_module_without_programs_has_files_alone(tmp_path: Path) -> None:
    built = tools.built(tools.MONITORING, tmp_path / "cache", silent)
    assert "kind: ServiceMonitor" in built.file("crd-servicemonitors.yaml").read_text()
    assert not list(built.program("").iterdir())

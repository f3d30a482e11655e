"""Heavy libraries are imported only on the paths that need them."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest

from tests import import_cycles
from tests.tiers import ROOT

HEAVY = (
    *("kubernetes", "torch", "paddle", "sqlalchemy", "psycopg", "numpy", "rich", "matplotlib"),
    *("psutil", "requests", "oauthlib"),
)
EXAMPLE = str(ROOT / "docs" / "examples" / "mmseg.log")
MEASURE = ("measure", EXAMPLE, "--format", "mmseg", "--gpus", "8", "--warmup", "2")

PROBE = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from k8sbench.cli.main import main
with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
    code = main(sys.argv[1:])
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def modules(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], capture_output=True, text=True, check=True
    )
    code, names = json.loads(done.stdout)
    assert code == 0, done.stderr
    return set(names)


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (("--help",), set()),
        (("--version",), set()),
        (("submit", "--help"), set()),
        (("render", "resnet50"), set()),
        (("benchmarks",), set()),
        (MEASURE, set()),
        (("benchmarks", "deeplabv3p", "-o", "json"), set()),
        (("compare", "--help"), set()),
        (("logs", "--help"), set()),
        (("store", "--help"), set()),
        (("history", "--help"), set()),
        (("baseline", "save", "--help"), set()),
        (("baseline", "list"), {"sqlalchemy"}),
        (("results", "-o", "json"), {"sqlalchemy"}),
        (("list", "-o", "name"), {"sqlalchemy"}),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else "",
)
def test_a_command_imports_only_what_it_needs(words: tuple[str, ...], allowed: set[str]) -> None:
    assert modules(*words) & set(HEAVY) <= allowed


ASKED = """
from k8sbench.app import targets
from k8sbench.model.errors import Unreachable

def answer(api, *, asked):
    raise Unreachable("It does not answer.", "")

targets.check_answers = answer
"""
KUBECONFIG = """
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://192.0.2.1"}}]
users: [{name: u, user: {token: t}}]
"""


def test_a_detached_submit_imports_the_store_and_a_client_and_nothing_else_that_is_heavy(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    words = ["submit", "resnet50", "--gpus=1", "--detach", f"--kubeconfig={tmp_path}/kubeconfig"]
    done = subprocess.run(
        [sys.executable, "-c", ASKED + PROBE, *words], capture_output=True, text=True, check=True
    )
    code, names = json.loads(done.stdout)
    assert code == 6
    assert set(names) & set(HEAVY) <= {"sqlalchemy"}


@pytest.mark.parametrize("words", [("--help",), MEASURE], ids=["help", "measure"])
def test_help_and_measure_import_no_template_engine_and_no_yaml(words: tuple[str, ...]) -> None:
    assert not modules(*words) & {"jinja2", "yaml"}


def test_the_database_is_a_matter_of_the_stores_adapter() -> None:
    uses = re.compile(r"^\s*(import|from) (sqlalchemy|sqlite3|psycopg)", re.MULTILINE)
    using = {path for path in (ROOT / "k8sbench").rglob("*.py") if uses.search(path.read_text())}
    assert {path.parent for path in using} == {ROOT / "k8sbench" / "adapters" / "store"}


def test_the_package_itself_imports_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import k8sbench; print(set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'k8sbench'}"


def test_two_files_that_import_each_other_are_found(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "circular"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("def f():\n    from circular import two\n")
    (package / "two.py").write_text("from circular.one import f\n")
    (package / "three.py").write_text("from circular import one\n")
    monkeypatch.syspath_prepend(tmp_path)
    (circle,) = import_cycles.cycles("circular")
    assert set(circle) == {"circular.one", "circular.two"}

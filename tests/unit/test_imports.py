"""Heavy libraries are imported only on the paths that need them."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from k8sbench import results
from k8sbench.results.report import repeating, tables
from k8sbench.store import database
from k8sbench.store.run_folder import RunFolder
from tests import packaged
from tests.harness import children
from tests.results.report.factory import repeats
from tests.tiers import ROOT
from tests.unit import importing

HEAVY = (
    *("kubernetes", "torch", "paddle", "numpy", "rich"),
    *("psutil", "requests", "oauthlib", "jinja2", "yaml"),
)
CATALOG = {"jinja2", "yaml"}
"""For the manifests and the catalog."""
EXAMPLE = str(ROOT / "docs" / "examples" / "mmseg.log")
MEASURE = ("measure", EXAMPLE, "--format", "mmseg", "--gpus", "8", "--warmup", "2")


def modules(*words: str) -> set[str]:
    done = subprocess.run(
        children.command(importing.run, *words), capture_output=True, text=True, check=True
    )
    code, names = json.loads(done.stdout)
    assert code == 0, done.stderr
    return set(names)


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (("--help",), set()),
        (("submit", "--help"), set()),
        (("render", "resnet50"), CATALOG),
        (MEASURE, set()),
        (("benchmarks", "deeplabv3p", "-o", "json"), CATALOG),
        (("history", "--help"), set()),
        (("results", "-o", "json"), CATALOG),
        (("list", "-o", "json"), CATALOG),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else "",
)
def test_a_command_imports_only_what_it_needs(words: tuple[str, ...], allowed: set[str]) -> None:
    assert modules(*words) & set(HEAVY) <= allowed


ABSENT = ("click", "kubernetes", "rich", "sqlite3", "psutil", "urllib3")


def test_the_reader_measures_a_log_where_the_libraries_of_the_other_parts_are_absent() -> None:
    absent = (*ABSENT, "jinja2")
    program = children.command(importing.measure_without, absent, EXAMPLE, "mmseg", 8)
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # 180 iterations of 8 × 4 samples, in the seconds that their lines state.
    assert float(done.stdout) == pytest.approx(180 * 8 * 4 / 98.89, rel=1e-4)


def test_the_results_make_rows_where_the_libraries_of_the_other_parts_are_absent(
    tmp_path: pathlib.Path,
) -> None:
    for run in repeats([100.0, 102.0, 101.0]):
        RunFolder(tmp_path / "runs" / run.run_id).save(run)
    program = children.command(importing.rows_without, ABSENT, tmp_path)
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [pytest.approx(101.0)]


KUBECONFIG = """
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://192.0.2.1"}}]
users: [{name: u, user: {token: t}}]
"""


def test_a_detached_submit_imports_only_store_and_client(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    words = ["submit", "resnet50", "--gpus=1", "--detach", f"--kubeconfig={tmp_path}/kubeconfig"]
    program = children.calling(importing.refuse_answers) + children.calling(importing.run, *words)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    code, names = json.loads(done.stdout)
    assert code == 6
    assert set(names) & set(HEAVY) <= CATALOG


def test_the_database_is_a_matter_of_the_stores_adapter() -> None:
    uses = re.compile(r"^\s*(import|from) sqlite3", re.MULTILINE)
    using = {path for path in packaged.PACKAGE.rglob("*.py") if uses.search(path.read_text())}
    assert {path.parent for path in using} == {pathlib.Path(database.__file__).parent}


PATTERNS = {repeating, tables}
"""Modules of the results that use patterns: on commands of others, and on lines that are broken."""


def test_the_results_take_no_text_apart_by_patterns() -> None:
    uses = re.compile(r"^\s*(import|from) (re|re2)\b", re.MULTILINE)
    folder = pathlib.Path(results.__file__).parent
    using = {path for path in folder.rglob("*.py") if uses.search(path.read_text("utf-8"))}
    assert using == {pathlib.Path(str(module.__file__)) for module in PATTERNS}

"""Commands of README and docs do as described, in page order."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.docs import pages
from tests.tiers import ROOT

# Their commands need a cluster: test_pages, test_nodes, test_train_jobs_observed and
# test_benchmark_objects of tests/cluster.
ON_A_CLUSTER = {"kubernetes.md", "observe.md", "operator.md"}
SHORT = """
[submit]
warmup = 0
iterations = 5
"""
"""The reader's own k8sbench.toml: runs of the fewest steps that are measured."""
PAGES = [page for page in pages.pages() if pages.commands(page) and page.name not in ON_A_CLUSTER]
LINK = re.compile(r"\]\(([^):#]+\.md)(?:#[^)]*)?\)")
SOAK = {"compare.md", "results.md"}
"""Pages that train as README does, and whose further commands tests/unit/cli types."""
RUN = [
    pytest.param(page, id=page.name, marks=[pytest.mark.soak] if page.name in SOAK else [])
    for page in PAGES
]


@pytest.mark.tier("frameworks")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_page_run_in_its_order(
    page: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    (tmp_path / ".config" / "k8sbench").mkdir(parents=True)
    (tmp_path / ".config" / "k8sbench" / "k8sbench.toml").write_text(SHORT)
    environment = {
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_DATA_HOME": str(tmp_path / ".local" / "share"),
        "HOME": str(tmp_path),
        "PYTHONWARNINGS": "default",
    }
    for command in pages.commands(page):
        if command.text.startswith("make "):
            continue  # the test below holds these
        pages.run(command, tmp_path, environment)
    if page.name in AFTERWARDS:
        AFTERWARDS[page.name](page, tmp_path)


def test_the_make_commands_of_the_pages_are_the_ones_that_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    makefile = (ROOT / "Makefile").read_text()
    texts = (c.text for page in (*PAGES, ROOT / "CONTRIBUTING.md") for c in pages.commands(page))
    shown = {text for text in texts if text.startswith("make ")}
    assert {"make demo", "make test"} <= shown
    for command in shown:
        assert re.search(rf"^{re.escape(command)}$", ci, re.MULTILINE) or (
            re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE)
        ), command
    assert all(re.search(rf"^{c}$", ci, re.MULTILINE) for c in ("make demo", "make test"))


def in_a_run(page: str) -> set[str]:
    """Return the files in docs/store.md below ``runs/<run id>/``.

    This is for a local run.
    """
    drawn = page.partition("runs/<run id>/")[2].partition("```")[0]
    lines = (line for line in drawn.splitlines() if not re.search("on a cluster|, if it", line))
    return {line.split()[0] for line in lines}


def check_store(page: pathlib.Path, home: pathlib.Path) -> None:
    """A run's folder holds what docs/store.md draws."""
    run = home / ".local" / "share" / "k8sbench" / "runs" / "first"
    drawn = in_a_run(page.read_text())
    assert {"run.json", "logs/<replica>.log", "measurement.json"} <= drawn
    for name in drawn:
        assert list(run.glob(name.replace("<replica>", "*"))), f"{page.name}: no {name} in {run}"


def check_local(page: pathlib.Path, home: pathlib.Path) -> None:
    """The run of two replicas is measured, and its row says what it is worth."""
    store = home / ".local" / "share" / "k8sbench"

    def said(*words: str) -> Any:
        command = [sys.executable, "-m", "k8sbench", *words, "--store", str(store), "-o", "json"]
        return json.loads(subprocess.check_output(command, cwd=home, text=True))

    (run,) = said("list")
    assert run["phase"] == "Succeeded"
    measured = said("status", run["run_id"])["measurement"]
    assert measured["verdict"] == "valid"
    assert measured["iterations"] == 5
    assert measured["throughput"]["time_weighted"] > 0
    assert (measured["impl"], measured["format"]) == ("k8sbench", "k8sbench")
    assert measured["parameters"] == 25_557_032
    (row,) = said("results")["rows"]
    assert row["case"] == "2x1-cpu"
    assert row["speedup"] is None
    assert "smoke" in json.dumps(row)
    assert len(list((store / "runs").glob("*/logs/*.log"))) == 2


AFTERWARDS = {"local.md": check_local, "store.md": check_store}
"""Page → what holds once its commands have run."""


def test_the_commands_for_contributors_are_there() -> None:
    commands = pages.commands(ROOT / "CONTRIBUTING.md")
    assert "make quick" in {command.text for command in commands}
    for command in commands:
        program, *words = shlex.split(command.text)
        if program == "make":
            shown = ["make", "--dry-run", *words]
        else:
            assert command.text.startswith(".venv/bin/python -m pytest tests/"), command
            shown = [sys.executable, "-m", "pytest", "--collect-only", "-q", *words[2:]]
        done = subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_every_page_is_reached_from_the_readme() -> None:
    reached, new = set[pathlib.Path](), {ROOT / "README.md"}
    while new:
        reached |= new
        links = {page.parent / to for page in new for to in LINK.findall(page.read_text())}
        new = {link.resolve() for link in links} - reached
    assert set(pages.prose()) <= reached

"""The trainers' sources as they are found, and the digest that names them."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from k8sbench import trainers
from k8sbench.adapters import templates
from k8sbench.model.errors import BenchError
from k8sbench.render.trainer_sources import TrainerSources, config_map, difference
from tests.tiers import ROOT


def test_every_source_file_of_the_trainers_is_found_and_the_package_s_own() -> None:
    found = templates.trainer_sources().files
    there = {
        str(path.relative_to(ROOT))
        for path in Path(trainers.__file__).parent.rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert set(found) == there | {"k8sbench/__init__.py"}
    assert found.pop("k8sbench/__init__.py") == ""  # a version alone changes no trainer
    for path, text in found.items():
        assert text == (ROOT / path).read_text(encoding="utf-8")


SOURCES = TrainerSources.from_files({"k8sbench/__init__.py": "", "k8sbench/trainers/a.py": "1"})
MADE = config_map(SOURCES)
METADATA, LABELS = MADE["metadata"], MADE["metadata"]["labels"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, None),
        # What the API server and others add says nothing of what it is.
        ({"metadata": METADATA | {"uid": "u", "labels": LABELS | {"team": "a"}}}, None),
        ({"immutable": False}, "immutable"),
        ({"immutable": None}, "immutable"),
        ({"data": {"k8sbench.__init__.py": "", "k8sbench.trainers.a.py": "2"}}, "data"),
        ({"data": {"k8sbench.trainers.a.py": "1"}}, "data"),
        ({"data": None}, "data"),
        # One without our labels is somebody else's.
        ({"metadata": METADATA | {"labels": None}}, "labels"),
        ({"metadata": METADATA | {"labels": LABELS | {"k8sbench.io/shared": "x"}}}, "labels"),
    ],
)
def test_a_config_map_is_known_by_its_content(changed: dict[str, Any], why: str | None) -> None:
    assert (METADATA["name"], MADE["immutable"]) == (f"k8sbench-trainers-{SOURCES.digest}", True)
    found = difference({**MADE, **changed})
    assert found is None if why is None else why in (found or "")


def test_the_sources_are_a_package_that_python_reads_from_a_bare_folder(tmp_path: Path) -> None:
    """The mount alone suffices to import each module."""
    for path, text in templates.trainer_sources().files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
        ast.parse(text, feature_version=(3, 10))
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROBE}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == str(tmp_path / "k8sbench" / "trainers" / "__init__.py")


PROBE = "import k8sbench.trainers; print(k8sbench.trainers.__file__)"


def test_without_templates_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(templates, "PACKAGE", tmp_path / "a")
    with pytest.raises(BenchError, match="no templates"):
        templates.template_texts()

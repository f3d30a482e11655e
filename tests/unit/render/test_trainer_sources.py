"""The trainers' sources as they are found, and the digest that names them."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.files import packaged
from k8sbench.model.errors import BenchError
from k8sbench.render.trainer_sources import (
    TrainerSources,
    config_key,
    config_map,
    difference,
)
from tests.tiers import ROOT


def test_every_source_file_of_the_trainers_is_found_and_the_package_s_own() -> None:
    found = packaged.trainer_sources().files
    there = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "k8sbench" / "trainers").rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert set(found) == there | {"k8sbench/__init__.py"}
    assert found.pop("k8sbench/__init__.py") == ""  # a version alone changes no trainer
    for path, text in found.items():
        assert text == (ROOT / path).read_text(encoding="utf-8")


def test_the_config_map_of_all_sources_takes_less_than_700_kb() -> None:
    made = config_map(packaged.trainer_sources())
    assert len(msgspec.json.encode(made)) < 700_000


def test_every_module_that_a_trainer_imports_is_among_the_sources() -> None:
    files = packaged.trainer_sources().files
    for text in files.values():
        for module in imports(text):
            assert {f"{module}.py", f"{module}/__init__.py"} & files.keys(), module


def imports(text: str) -> Iterator[str]:
    """Yield the path, without its ending, of every module of ours that a text imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("k8sbench"):
            yield str(node.module).replace(".", "/")
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.replace(".", "/")
                for alias in node.names
                if alias.name.startswith("k8sbench")
            )


def test_a_config_map_is_known_by_its_content() -> None:
    sources = TrainerSources.of({"k8sbench/__init__.py": "", "k8sbench/trainers/a.py": "1"})
    made = config_map(sources)
    assert made["metadata"]["name"] == f"k8sbench-trainers-{sources.digest}"
    assert made["immutable"] is True
    assert difference(made) is None
    # What the API server and others add says nothing of what it is.
    metadata = {**made["metadata"], "uid": "u", "annotations": {"team": "a"}}
    metadata["labels"] = {**metadata["labels"], "team": "a"}
    assert difference({**made, "metadata": metadata}) is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"immutable": False}, "immutable"),
        ({"immutable": None}, "immutable"),
        ({"data": {"k8sbench.__init__.py": "", "k8sbench.trainers.a.py": "2"}}, "data"),
        ({"data": {"k8sbench.trainers.a.py": "1"}}, "data"),
        ({"data": None}, "data"),
        ({"data": {"other": "1"}}, "data"),
    ],
)
def test_other_content_under_the_name_is_seen(changed: dict[str, Any], why: str) -> None:
    sources = TrainerSources.of({"k8sbench/__init__.py": "", "k8sbench/trainers/a.py": "1"})
    assert why in (difference({**config_map(sources), **changed}) or "")


def test_a_config_map_without_our_labels_is_somebody_else_s() -> None:
    made = config_map(TrainerSources.of({"k8sbench/trainers/a.py": "1"}))
    for labels in ({}, None, {**made["metadata"]["labels"], "k8sbench.io/shared": "other"}):
        metadata = {**made["metadata"], "labels": labels}
        assert "labels" in (difference({**made, "metadata": metadata}) or "")


def test_the_sources_are_a_package_that_python_reads_from_a_bare_folder(tmp_path: Path) -> None:
    """What the mount shows is enough to find each module, with nothing else of ours beside it."""
    for path, text in packaged.trainer_sources().files.items():
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


def test_the_digest_is_that_of_the_paths_and_texts() -> None:
    files = {"b.py": "2", "a.py": "é"}
    expected = hashlib.sha256(b"4:a.py2:" + "é".encode() + b"4:b.py1:2").hexdigest()
    assert TrainerSources.of(files).digest == expected
    assert list(TrainerSources.of(files).files) == ["a.py", "b.py"]


def test_keys_of_different_sources_differ() -> None:
    paths = list(packaged.trainer_sources().files)
    assert len({config_key(path) for path in paths}) == len(paths)


def test_the_templates_of_the_source_tree_are_found() -> None:
    there = {path.name: path.read_text() for path in (ROOT / "manifests").glob("*.j2")}
    assert packaged.template_texts() == there
    assert there


def test_an_installation_without_templates_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packaged, "PACKAGE", tmp_path / "a")
    with pytest.raises(BenchError, match="no templates"):
        packaged.template_texts()


def test_packaged_templates_come_before_those_of_a_source_tree(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "_manifests").mkdir()
    (tmp_path / "_manifests" / "job.yaml.j2").write_text("packaged")
    (tmp_path / "_manifests" / "README.md").write_text("no template")
    monkeypatch.setattr(packaged, "PACKAGE", tmp_path)
    assert packaged.template_texts() == {"job.yaml.j2": "packaged"}


def test_rendering_loads_jinja_yaml_and_msgspec_and_no_other_library() -> None:
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import k8sbench.render\n"
        "from k8sbench.adapters.files import packaged\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "known = sys.stdlib_module_names | {'k8sbench'}\n"
        "print(*sorted(name for name in new if name not in known))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    # Cython's own bookkeeping, of PyYAML's libyaml binding, is no library.
    loaded = {name for name in done.stdout.split() if not name.startswith(("_", "cython"))}
    assert loaded == {"jinja2", "markupsafe", "msgspec", "yaml", "typing_extensions"}

"""The trainers' sources as they are found, and the digest that names them."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.adapters.files import templates, trainer_sources
from k8sbench.model.errors import BenchError
from k8sbench.render import manifests
from k8sbench.render.job import config_key
from k8sbench.render.trainer_sources import TrainerSources
from tests.tiers import ROOT
from tests.unit.render.plans import plan, ready


def test_every_source_file_of_the_trainers_is_found_and_the_package_s_own() -> None:
    found = trainer_sources.read().files
    there = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "k8sbench" / "trainers").rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert set(found) == there | {"k8sbench/__init__.py"}
    for path, text in found.items():
        assert text == (ROOT / path).read_text(encoding="utf-8")


def test_the_sources_are_in_the_order_of_their_paths() -> None:
    found = list(trainer_sources.read().files)
    assert found == sorted(found)


def test_the_sources_fit_a_config_map_with_room_to_grow() -> None:
    sources = trainer_sources.read()
    assert sum(len(text.encode()) for text in sources.files.values()) < 2**20 * 0.75
    wanted = plan(trainers_digest=sources.digest)
    config, _ = manifests(wanted, templates=ready(), trainers=sources)
    assert config["metadata"]["annotations"]["k8sbench.io/trainers-digest"] == sources.digest
    carried = sum(len(text.encode()) for text in config["data"].values())
    assert carried < 2**20 / 4


def imports(text: str) -> Iterator[str]:
    """Every module of ours that a text imports, and what may be a module of it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


@pytest.mark.parametrize(
    "command",
    [
        ("python3", "-m", "k8sbench.trainers.resnet50", "--amp"),
        ("torchrun", "-m", "k8sbench.trainers.deeplabv3p_pytorch"),
        ("python3", "/t/k8sbench/trainers/paddle_launch.py", "/t/k8sbench/trainers/arcface.py"),
    ],
)
def test_a_job_carries_the_programs_of_its_command_and_all_that_they_import(
    command: tuple[str, ...],
) -> None:
    everything = trainer_sources.read()
    found = everything.of_command(command)
    programs = [path for path in found.files if path.count("/") == 2 and "__init__" not in path]
    assert len(programs) == sum("k8sbench" in word for word in command)
    ours = {path.removesuffix(".py").replace("/", "."): path for path in everything.files}
    wanted = {ours[name] for text in found.files.values() for name in imports(text) if name in ours}
    assert wanted <= set(found.files)
    folders = {path.rpartition("/")[0] for path in found.files}
    assert {f"{folder}/__init__.py" for folder in folders} <= set(found.files)
    assert found.digest == everything.digest
    assert len(found.files) < len(everything.files)


def test_a_command_that_names_no_program_carries_all() -> None:
    everything = trainer_sources.read()
    assert everything.of_command(("bash", "-c", "true")).files == everything.files


def test_the_sources_are_a_package_that_python_reads_from_a_bare_folder(tmp_path: Path) -> None:
    """What the mount shows is enough to find each module, with nothing else of ours beside it."""
    for path, text in trainer_sources.read().files.items():
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


@given(st.dictionaries(st.text(), st.text(), max_size=4), st.data())
def test_any_change_changes_the_digest(files: dict[str, str], data: st.DataObject) -> None:
    files = {f"{path.encode('utf-8', 'ignore').decode()}.py": "" for path in files} | {"x.py": "1"}
    digest = TrainerSources.of(files).digest
    assert TrainerSources.of(dict(reversed(files.items()))).digest == digest
    changed = data.draw(st.sampled_from(sorted(files)))
    assert TrainerSources.of({**files, changed: files[changed] + " "}).digest != digest
    assert TrainerSources.of({**files, "new.py": ""}).digest != digest
    moved = {("y.py" if path == "x.py" else path): text for path, text in files.items()}
    assert TrainerSources.of(moved).digest != digest


def test_texts_do_not_run_into_each_other_in_the_digest() -> None:
    one = TrainerSources.of({"a": "bc", "d": ""})
    other = TrainerSources.of({"a": "b", "cd": ""})
    assert one.digest != other.digest


@pytest.mark.parametrize("path", ["k8sbench/x.y.py", "../x.py", "/x.py", "k8sbench/é.py", "x.txt"])
def test_a_source_that_a_config_map_cannot_carry_is_our_error(path: str) -> None:
    with pytest.raises(BenchError, match="cannot carry"):
        config_key(path)


def test_keys_of_different_sources_differ() -> None:
    paths = list(trainer_sources.read().files)
    assert len({config_key(path) for path in paths}) == len(paths)


def test_the_templates_of_the_source_tree_are_found() -> None:
    there = {path.name: path.read_text() for path in (ROOT / "manifests").glob("*.j2")}
    assert templates.read() == there
    assert there


def test_an_installation_without_templates_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(templates, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    with pytest.raises(BenchError, match="no templates"):
        templates.read()


def test_packaged_templates_come_before_those_of_a_source_tree(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "_manifests").mkdir()
    (tmp_path / "_manifests" / "job.yaml.j2").write_text("packaged")
    (tmp_path / "_manifests" / "README.md").write_text("no template")
    monkeypatch.setattr(templates, "__file__", str(tmp_path / "adapters" / "files" / "x.py"))
    assert templates.read() == {"job.yaml.j2": "packaged"}


def test_rendering_loads_jinja_yaml_and_msgspec_and_no_other_library() -> None:
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import k8sbench.render\n"
        "from k8sbench.adapters.files import templates, trainer_sources\n"
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

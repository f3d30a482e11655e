"""Templates are compiled once per user and render the same from cache."""

import sys
from pathlib import Path

import jinja2
import pytest

from k8sbench import __version__
from k8sbench.adapters.files import packaged
from k8sbench.render import manifests, to_yaml
from tests.unit.render.plans import SOURCES, plan


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "cache" / "k8sbench" / f"templates-{__version__}"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The names of the templates that are compiled."""
    names: list[str | None] = []
    compile_ = jinja2.Environment.compile

    def counted(self: jinja2.Environment, source: str, name: str | None, *rest: object) -> object:
        names.append(name)
        return compile_(self, source, name, *rest)  # type: ignore[call-overload]

    monkeypatch.setattr(jinja2.Environment, "compile", counted)
    return names


def text() -> str:
    """Render as a process of its own does."""
    return to_yaml(manifests(plan(), templates=packaged.load_templates(), trainers=SOURCES))


ALL = {"job.yaml.j2", "pod.yaml.j2"}


def test_the_next_process_compiles_nothing(compiled: list[str | None], cache: Path) -> None:
    first = text()
    assert set(compiled) == ALL
    assert len(list(cache.iterdir())) == len(ALL)
    assert cache.stat().st_mode & 0o077 == 0
    compiled.clear()
    assert text() == first
    assert not compiled


@pytest.mark.parametrize("keep", [0, 40, -1])
def test_a_damaged_file_is_made_anew(compiled: list[str | None], cache: Path, keep: int) -> None:
    first = text()
    for file in cache.iterdir():
        file.write_bytes(file.read_bytes()[:keep] + b"\0" * 8)
    assert text() == first
    compiled.clear()
    assert text() == first
    assert not compiled


def test_a_place_that_cannot_or_shall_not_be_written_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "dont_write_bytecode", True)
        first = text()
    assert not cache.exists()
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", Path("relative"), Path("/proc/none")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
        assert text() == first
    assert not Path("relative").exists()

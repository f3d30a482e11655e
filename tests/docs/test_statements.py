"""Statements of the pages about the repository: libraries, paths, targets, hooks."""

from __future__ import annotations

import functools
import pathlib
import re
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from k8sbench import trainers
from tests import packaged
from tests.docs import pages
from tests.tiers import ROOT

MODULES = {
    "fluent-runtime": "fluent",
    "google-re2": "re2",
    "jinja2": "jinja2",
    "nvidia-ml-py": "pynvml",
    "prometheus-client": "prometheus_client",
    "pyyaml": "yaml",
}
"""Distribution → the module that is imported, where its name is another."""
OF_TESTS = {"kubernetes"}
"""Distributions that only tests import: kubeflow-training's models need a version of it."""
OPTIONAL = ("operator",)
"""Extras whose libraries the product imports where they are installed."""
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
# But for images/s, a unit.
PATH = re.compile(r"(?<![\w./:{-])((?:k8sbench|tests|docs|images|manifests|\.ci)/(?!s\b)[\w./*-]*)")


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


def runtime() -> set[str]:
    """The distributions that the product may import."""
    extras = project()["optional-dependencies"]
    return names(project()["dependencies"]).union(*(names(extras[each]) for each in OPTIONAL))


def named_in_the_architecture() -> list[tuple[str, str, str]]:
    """The modules under "Packages" of docs/architecture.md: part, file, and a name in it if any."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.partition("## Packages")[2].partition("\n## ")[0]
    found = []
    for block in re.split(r"\n(?=\*\*`|Rules that)", section):
        part = re.match(r"\*\*`(\w+/)`\*\*", block)
        for file, name in re.findall(r"`([\w/]+\.py)(?:: (\w+))?`", block):
            found.append(("" if part is None else part[1], file, name))
    return found


@functools.cache
def imported() -> set[str]:
    """The top-level modules that k8sbench/ imports, but for the programs inside containers."""
    name = re.compile(r"^[ \t]*(?:import|from) (\w+)|import_module\(\"(\w+)", re.MULTILINE)
    inside = pathlib.Path(trainers.__file__).parent
    paths = {*packaged.PACKAGE.rglob("*.py")} - {*inside.rglob("*.py")}
    return {word for path in paths for found in name.findall(path.read_text()) for word in found}


def libraries() -> list[str]:
    """The rows of the table of libraries in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.partition("## Choices of libraries")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert rows
    return rows


def glossary() -> list[str]:
    """The code names of the glossary in docs/architecture.md: its terms, and names in capitals."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.partition("## Glossary")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    found: set[str] = set()
    for row in rows:
        found.update(re.findall(r"`(\w+)`", row.split("|")[1]))
        found.update(re.findall(r"`([A-Z]\w+)`", row))
    return sorted(found)


def defined() -> set[str]:
    """The classes, functions and variables that k8sbench/ defines at the top of a module."""
    name = re.compile(r"^(?:class |def )?(\w+)", re.MULTILINE)
    texts = (path.read_text() for path in packaged.PACKAGE.rglob("*.py"))
    return {word for text in texts for word in name.findall(text)}


def test_every_code_name_of_the_glossary_exists() -> None:
    names = glossary()
    assert len(names) > 15
    assert set(names) <= defined()


def mentions(row: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", row, re.IGNORECASE) is not None


@pytest.mark.parametrize("name", sorted(runtime()))
def test_every_dependency_is_imported_and_explained(name: str) -> None:
    if name not in OF_TESTS:
        assert MODULES.get(name, name) in imported()
    assert [row for row in libraries() if mentions(row, name)], (
        f"{name} is missing from the table in docs/architecture.md"
    )


@pytest.mark.parametrize(("part", "file", "name"), named_in_the_architecture())
def test_every_module_that_the_architecture_names_is_there(part: str, file: str, name: str) -> None:
    paths = (packaged.PACKAGE / part / file, packaged.PACKAGE / file, ROOT / file)
    path = next(filter(pathlib.Path.exists, paths))
    assert not name or re.search(rf"^(?:def|class) {name}\b", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("row", libraries(), ids=lambda row: row.split("|")[1].strip())
def test_every_library_that_is_explained_is_a_dependency(row: str) -> None:
    declared = runtime() | names(project()["optional-dependencies"]["lint"])
    assert [name for name in declared if mentions(row, name)], row


@pytest.mark.parametrize("page", pages.prose(), ids=lambda page: page.name)
def test_every_path_link_and_make_target_that_a_page_names_is_there(page: pathlib.Path) -> None:
    text = page.read_text()
    for found in PATH.finditer(text):
        path = found[1].rstrip(".").replace("NAME", "*")
        assert list(ROOT.glob(path)), f"{page.name}: there is no {path}"
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name}: there is no {target}"
    written = r"(?:`|^ *\$ )make ((?:[a-z-]+ ?)+)"
    for target in " ".join(re.findall(written, text, re.MULTILINE)).split():
        assert target in TARGETS, f"{page.name}: make {target}"


def anchors(page: pathlib.Path) -> set[str]:
    """The names by which links reach the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages.prose(), ids=lambda page: page.name)
def test_every_section_that_a_page_links_to_is_there(page: pathlib.Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:\s]*\.md)?#([^)]+)\)", page.read_text()):
        there = page.parent / target if target else page
        assert anchor in anchors(there), f"{page.name}: there is no {target}#{anchor}"


def test_the_pages_and_sections_that_the_product_names_are_there() -> None:
    named = re.compile(r"(?<![\w/])(docs/[\w-]+\.md)(?:#([\w-]+))?")
    found = {
        match.groups()
        for path in packaged.PACKAGE.rglob("*.py")
        for match in named.finditer(path.read_text())
    }
    assert len(found) > 5
    for page, anchor in found:
        assert (ROOT / page).exists(), page
        assert anchor is None or anchor in anchors(ROOT / page), f"{page}#{anchor}"

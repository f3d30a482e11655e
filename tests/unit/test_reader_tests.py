"""The tests of the reader need the reader alone, and what it stands on."""

import ast
import configparser
from collections.abc import Iterator
from pathlib import Path

from tests import parts
from tests.tiers import ROOT
from tests.unit.model import plans

FOLDER = ROOT / "tests" / "reader"
PARTS = {"reader", *parts.ALLOWED["reader"], "trainers"}
"""Trainers write the lines that the reader's own family reads."""


def imported(file: Path) -> Iterator[str]:
    """Yield the full names that a file imports, those inside functions included."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{file}: a relative import"
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def file_of(name: str) -> Path | None:
    """Return the file of a module of the tests, or of a package's __init__."""
    place = ROOT.joinpath(*name.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def all_imports() -> dict[Path, set[str]]:
    """Return what each test of the reader imports, and each helper that they import."""
    found: dict[Path, set[str]] = {}
    left = sorted(FOLDER.rglob("*.py"))
    while left:
        file = left.pop()
        if file in found:
            continue
        found[file] = {*imported(file)}
        helpers = (file_of(name) for name in found[file] if name.startswith("tests."))
        left += [helper for helper in helpers if helper is not None]
    return found


def libraries() -> set[str]:
    """Return the libraries that the reader's contract of imports forbids."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    forbidden = contracts["importlinter:contract:reader"]["forbidden_modules"].split()
    return {name for name in forbidden if "." not in name}


def is_allowed(name: str, forbidden: set[str]) -> bool:
    top = name.partition(".")[0]
    return parts.part_of(name) in PARTS if top == "k8sbench" else top not in forbidden


def test_no_test_of_the_reader_imports_a_part_above_it_or_a_library_of_one() -> None:
    forbidden = libraries()
    assert {"click", "jinja2", "kubernetes", "rich"} <= forbidden
    every = all_imports()
    assert Path(plans.__file__) in every, "helpers elsewhere are looked at, too"
    found = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file, names in sorted(every.items())
        for name in sorted(names)
        if not is_allowed(name, forbidden)
    ]
    assert not found

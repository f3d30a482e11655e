"""The tests of a part need that part alone, and what it stands on."""

import ast
import configparser
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import parts, tiers
from tests.tiers import ROOT
from tests.unit.model import plans

MORE = {"reader": {"trainers"}, "results": set[str]()}
"""Part with tests of its own → parts that these may import beside those that the part may.

Trainers write the lines that the reader's own family reads.
"""
NOT_FOLLOWED = {Path(tiers.__file__)}
"""It imports what a tier needs in the function that looks for it; tests of a part have no tier."""


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


def all_imports(part: str) -> dict[Path, set[str]]:
    """Return what each test of a part imports, and each helper that they import."""
    found: dict[Path, set[str]] = {}
    left = sorted((ROOT / "tests" / part).rglob("*.py"))
    while left:
        file = left.pop()
        if file in found or file in NOT_FOLLOWED:
            continue
        found[file] = {*imported(file)}
        helpers = (file_of(name) for name in found[file] if name.startswith("tests."))
        left += [helper for helper in helpers if helper is not None]
    return found


def libraries(part: str) -> set[str]:
    """Return the libraries that a part's contract of imports forbids."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    forbidden = contracts[f"importlinter:contract:{part}"]["forbidden_modules"].split()
    return {name for name in forbidden if "." not in name}


@pytest.mark.parametrize("part", MORE)
def test_no_test_of_a_part_imports_a_part_above_it_or_a_library_of_one(part: str) -> None:
    allowed = {part, *parts.ALLOWED[part], *MORE[part]}
    forbidden = libraries(part)
    assert {"click", "kubernetes", "rich"} <= forbidden
    every = all_imports(part)
    assert Path(plans.__file__) in every, "helpers elsewhere are looked at, too"

    def is_allowed(name: str) -> bool:
        top = name.partition(".")[0]
        return parts.part_of(name) in allowed if top == "k8sbench" else top not in forbidden

    found = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file, names in sorted(every.items())
        for name in sorted(names)
        if not is_allowed(name)
    ]
    assert not found

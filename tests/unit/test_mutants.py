"""``make mutants``: which tokens it changes, which of them it samples, and whose tests it runs."""

from __future__ import annotations

import pathlib

import coverage
import pytest

from tests import tiers
from tests.mutants import __main__ as program
from tests.mutants import mutations
from tests.mutants.coverage_map import CoverageMap
from tests.mutants.mutations import Mutant

SOURCE = '''
"""Docstring: 1 < 2."""
LIMIT = 0.5


class Found(Base, frozen=True):
    count: int = 0


def far(*args: int | None, ratio: float = -1.5) -> bool:
    if ratio is not None and ratio not in args:
        return abs(ratio * 2 - 1) > LIMIT  # 1 < 2
    return any(f"{each + 1}" for each in args)
'''


def test_each_mutant_is_one_token_of_the_code() -> None:
    found = {(each.line, each.becomes) for each in mutations.mutants("a.py", SOURCE)}
    test = "if ratio is not None and ratio not in args:"
    far = "return abs(ratio * 2 - 1) > LIMIT  # 1 < 2"
    head = "def far(*args: int | None, ratio: float = -1.5) -> bool:"
    text = 'return any(f"{each + 1}" for each in args)'
    assert found == {
        ("LIMIT = 0.5", "LIMIT = 1.0"),
        ("count: int = 0", "count: int = 1"),
        (head, head.replace("-1.5", "+1.5")),
        (head, head.replace("1.5", "3.0")),
        (test, test.replace("is not", "is ")),
        (test, test.replace("not in", " in")),
        (test, test.replace("and", "or")),
        (far, far.replace("*", "/")),
        (far, far.replace("* 2", "* 3")),
        (far, far.replace(" - ", " + ")),
        (far, far.replace("1)", "2)")),
        (far, far.replace(">", ">=")),
        (text, text.replace("any", "all")),
    }


def written(root: pathlib.Path, text: str) -> pathlib.Path:
    (root / "k8sbench").mkdir(exist_ok=True)
    path = root / "k8sbench" / "a.py"
    path.write_text(text)
    return path


def names(root: pathlib.Path, seed: int) -> set[tuple[str, str, str]]:
    return {each.name for each in mutations.sample(root, ["k8sbench"], 5, seed)}


def test_a_sample_is_the_same_after_lines_have_moved(tmp_path: pathlib.Path) -> None:
    written(tmp_path, SOURCE)
    before = names(tmp_path, 1)
    assert (len(before), before == names(tmp_path, 2)) == (5, False)
    written(tmp_path, SOURCE.replace("LIMIT = 0.5", "# A comment.\n\nLIMIT = 0.5"))
    assert names(tmp_path, 1) == before


def test_a_line_has_the_tests_that_run_it_and_a_constant_those_of_its_readers(
    tmp_path: pathlib.Path,
) -> None:
    path = str(written(tmp_path, SOURCE))
    data = coverage.CoverageData(str(tmp_path / ".coverage"))
    for context, rows in {
        "": [3, 6, 7, 10],
        "t.py::first|setup": [3, 6, 7, 10, 11],
        "t.py::first|run": [11, 13],
        "t.py::near|run": [11, 12],
    }.items():
        data.set_context(context)
        data.add_lines({path: rows})
    data.write()
    found = CoverageMap(tmp_path, tmp_path / ".coverage")
    limit, in_class, test, far, text = 3, 7, 11, 12, 13
    assert found.tests("k8sbench/a.py", far) == ["t.py::near"]
    assert found.tests("k8sbench/a.py", text) == ["t.py::first"]
    assert found.tests("k8sbench/a.py", test) == ["t.py::first", "t.py::near"]
    # A constant's readers, and then all tests of its file, as of what nobody reads.
    assert found.tests("k8sbench/a.py", limit) == ["t.py::near", "t.py::first"]
    assert found.tests("k8sbench/a.py", in_class) == ["t.py::first", "t.py::near"]


def test_a_survivor_has_to_be_listed_and_the_list_has_to_be_true(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    written(tmp_path, SOURCE)
    mutants = mutations.sample(tmp_path, ["k8sbench"], 20, 1)

    def listed(mutant: Mutant, line: str | None = None) -> program.Survivor:
        return program.Survivor(
            mutant.file, line or mutant.line, mutant.becomes, "Says the same.", equivalent=True
        )

    def complaints(alive: list[Mutant], *survivors: program.Survivor) -> list[str]:
        return [each.partition(":")[0] for each in program.complaints(mutants, alive, [*survivors])]

    first, second, *_ = mutants
    assert complaints([first], listed(first)) == []
    assert complaints([]) == []
    assert complaints([first, second], listed(first))[0] == "survives, and is not listed"
    assert complaints([], listed(first)) == ["is listed, and is killed"]
    gone = "is listed, and is not in the file any more"
    assert complaints([], listed(first, "LIMIT = 7")) == [gone]
    assert complaints(mutants[:3], *map(listed, mutants[:2]))[-1].startswith("90.9% killed")

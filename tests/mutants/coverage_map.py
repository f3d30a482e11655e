"""Tests that run a line, by the contexts of one measured run."""

import ast
import pathlib
import re
from collections import Counter, defaultdict

import coverage

from tests.mutants import mutations

Line = tuple[str, int]
WORD = re.compile(r"\w+")


class Source:
    """One file: its lines, and what stands where."""

    def __init__(self, path: pathlib.Path) -> None:
        text = path.read_text("utf-8")
        self.lines = text.splitlines()
        tree = ast.parse(text)
        self._statements = mutations.statements(tree)
        self._bodies: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                self._bodies.update(range(node.body[0].lineno, (node.end_lineno or 0) + 1))

    def runs_on_import(self, row: int) -> bool:
        """Return True if a line is outside of functions.

        Its context is then whichever test imported it first.
        """
        return row not in self._bodies

    def rows(self, row: int) -> set[int]:
        """Return a line and its statement's others; the interpreter may report few."""
        around = self._statements.get(row)
        if around is None or hasattr(around, "body"):
            return {row}
        return set(range(around.lineno, (around.end_lineno or 0) + 1))

    def names(self, row: int) -> set[str]:
        """Return the names that the statement around a line binds."""
        around = self._statements.get(row)
        if around is None:
            return set()
        if isinstance(around, ast.FunctionDef | ast.ClassDef):
            return {around.name}
        return {
            node.id
            for node in ast.walk(around)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }


class CoverageMap:
    """The tests of each line of k8sbench."""

    def __init__(self, root: pathlib.Path, data_file: pathlib.Path) -> None:
        data = coverage.CoverageData(str(data_file))
        data.read()
        self._sources: dict[str, Source] = {}
        self._lines: defaultdict[str, list[Line]] = defaultdict(list)
        """Word → the lines that hold it."""
        self._tests: dict[Line, set[str]] = {}
        self._size: Counter[str] = Counter()
        self._share: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for path in sorted((root / "k8sbench").rglob("*.py")):
            file = str(path.relative_to(root))
            self._sources[file] = source = Source(path)
            for row, text in enumerate(source.lines, 1):
                for word in set(WORD.findall(text)):
                    self._lines[word].append((file, row))
            for row, contexts in data.contexts_by_lineno(str(path)).items():
                if source.runs_on_import(row):
                    continue
                # "tests/unit/test_a.py::test_b|run"
                tests = {context.rpartition("|")[0] for context in contexts if context}
                self._tests[file, row] = tests
                self._size.update(tests)
                self._share[file].update(tests)

    def tests(self, file: str, row: int) -> list[str]:
        """Return the tests that run a line, the most specific to its file first.

        A line that runs on import has the tests of the lines that name what it defines, and then
        those of its file: which test runs the lines that make a table first is chance.
        """
        found: set[str] = set()
        seen: set[Line] = set()
        named: set[str] = set()
        ways = [(file, each) for each in self._sources[file].rows(row)]
        while ways:
            line = ways.pop()
            if line in seen:
                continue
            seen.add(line)
            found |= self._tests.get(line, set())
            if self._sources[line[0]].runs_on_import(line[1]):
                for name in self._sources[line[0]].names(line[1]) - named:
                    named.add(name)
                    ways += self._lines.get(name, ())
        share = self._share[file] or self._of_room(file)
        every = found if found and not self._sources[file].runs_on_import(row) else found | {*share}
        return sorted(
            every, key=lambda test: (test not in found, -share[test] / self._size[test], test)
        )

    def _of_room(self, file: str) -> Counter[str]:
        """Return the tests of a data file's neighbours and of its parent folder."""
        room = str(pathlib.PurePath(file).parent.parent)
        found = Counter[str]()
        for each, tests in self._share.items():
            if each.startswith(room):
                found.update(tests)
        return found

"""Plant faults in the product, one at a time, and say which of them no test finds.

    python -m tests.mutations [PART...]     PART is a part of a path, such as measure/group

The list is ``tests/mutations.toml``. Each fault is planted in a copy of the tree, where the unit
tests and the simulation run that reach its line: those that reach the fewest lines first, until one
fails or ``SECONDS`` are over. Verdicts are kept in ``build/mutations`` by the checksum of product
and tests, so that a run that was cut goes on where it was. Ends with 1 if a fault survives for
which the list has no reason. Before and after a redesign both lists of survivors are compared: what
was found before it is found after it.
"""

import ast
import collections
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import queue
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

from tests.tiers import ROOT

LIST = ROOT / "tests" / "mutations.toml"
FOLDER = ROOT / "build" / "mutations"
CHOSEN = (
    "tests/unit",
    "tests/reader",
    "tests/results",
    "tests/simulation",
    "-m",
    "not tier and not slow",
)
SIMULATION = "tests/simulation/"
QUICK = "--hypothesis-profile=quick"
SECONDS = 60
"""For the tests of one fault."""
TEST_SECONDS = 40
"""For one of them: a fault may make it wait for ever. Slower ones have a mark with their own."""
COPIES = min(2, os.cpu_count() or 1)
PASSED, FAILED, INTERRUPTED, CUT = 0, 1, 2, 124


class Mutation(NamedTuple):
    """A fault: text that stands once in a file, and what replaces it."""

    file: str
    old: str
    new: str
    survives: str | None = None
    """The reason why no test needs to find it."""

    @property
    def key(self) -> str:
        """Its name among the verdicts."""
        return f"{self.file}: {self.old} -> {self.new}"

    def line(self, source: str) -> int:
        """Return the number of its line.

        Raises ValueError if the text does not stand there exactly once.
        """
        if (count := source.count(self.old)) != 1:
            raise ValueError(f"{self.key}: the text stands there {count} times")
        return source.count("\n", 0, source.index(self.old)) + 1

    def planted(self, source: str) -> str:
        """Return the source with the fault; raises ValueError or SyntaxError."""
        self.line(source)
        changed = source.replace(self.old, self.new)
        ast.parse(changed)
        return changed


def mutations(text: str) -> list[Mutation]:
    """Return the faults of a list."""
    tables = tomllib.loads(text)
    return [Mutation(file, **one) for file, table in tables.items() for one in table["changes"]]


# -- which tests reach a line ---------------------------------------------------------------------


def _files() -> list[str]:
    """Return the files of the working tree that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


def _checksum(files: list[str]) -> str:
    """Return the checksum of all that can change a verdict, the list aside."""
    found = hashlib.sha256()
    for name in files:
        if name != LIST.relative_to(ROOT).as_posix():
            found.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _copy(files: list[str], to: pathlib.Path) -> None:
    for name in files:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)


def _environment(copy: pathlib.Path) -> dict[str, str]:
    # Children that a test starts elsewhere import the copy, too.
    return {**os.environ, "PYTHONPATH": str(copy), "COVERAGE_FILE": str(copy / ".coverage")}


def _measure(copy: pathlib.Path, to: pathlib.Path) -> None:
    """Run all tests once, and keep which lines each of them reaches."""
    settings = copy / ".coveragerc"
    settings.write_text("[run]\nsource = k8sbench\nrelative_files = true\n")
    command = [sys.executable, "-m", "pytest", "-q", *CHOSEN, QUICK, "-p", "no:cacheprovider"]
    command += ["--numprocesses", str(COPIES), "--dist", "loadfile", "--timeout", "1200"]
    command += ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    subprocess.run(command, cwd=copy, env=_environment(copy), check=True)
    (copy / ".coverage").rename(to)


class Reached:
    """The tests that reach each line of the product."""

    def __init__(self, tests: dict[tuple[str, int], set[str]]) -> None:
        self.tests = tests
        self.lines = collections.Counter(test for found in tests.values() for test in found)

    @classmethod
    def read(cls, file: pathlib.Path) -> "Reached":
        """Read what coverage measured."""
        from coverage.numbits import numbits_to_nums

        found = collections.defaultdict[tuple[str, int], set[str]](set)
        with contextlib.closing(sqlite3.connect(file)) as db:
            names = dict(db.execute("SELECT id, path FROM file"))
            contexts = dict(db.execute("SELECT id, context FROM context"))
            lines = db.execute("SELECT file_id, context_id, numbits FROM line_bits")
            for of_file, of_context, bits in lines:
                # Without a test: as a module was imported.
                if test := contexts[of_context].rpartition("|")[0]:
                    for number in numbits_to_nums(bits):
                        found[names[of_file], number].add(test)
        return cls(dict(found))

    def of_mutation(self, mutation: Mutation, sources: dict[str, str]) -> list[str]:
        """Return the tests that may find a fault, the most specific first.

        A line outside functions is reached as its module is imported, by whichever test is first.
        The tests of lines that name its definition come first, in files without the module's name
        after the others: there it may be a namesake. All other tests of its file come last.
        """
        line = mutation.line(sources[mutation.file])
        found = self.tests.get((mutation.file, line), set())
        ranked = [found] if found else self._of_definition(mutation.file, line, sources)
        ranks: dict[str, int] = {}
        for rank, tests in enumerate(ranked):
            for test in tests:
                ranks.setdefault(test, rank)
        # Schedules of the simulation take seconds, also those that reach few lines.
        return sorted(
            ranks,
            key=lambda test: (test.startswith(SIMULATION), ranks[test], self.lines[test], test),
        )

    def _of_definition(self, file: str, line: int, sources: dict[str, str]) -> list[set[str]]:
        """Return the tests by rank: of a definition's users, of possible ones, of its file."""
        names = _defined(sources[file], line)
        users, possible = set[str](), set[str]()
        if names:
            word = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
            module = re.compile(rf"\b{re.escape(pathlib.PurePath(file).stem)}\b")
            for each, source in sources.items():
                found = users if each == file or module.search(source) else possible
                for number, text in enumerate(source.splitlines(), 1):
                    if word.search(text):
                        found |= self.tests.get((each, number), set())
        of_file = (tests for (each, _), tests in self.tests.items() if each == file)
        return [users, possible, set().union(*of_file)]


def _defined(source: str, line: int) -> set[str]:
    """Return the names that the statement of a line defines: a function's, or all around it."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if not (isinstance(node, ast.stmt) and first <= line <= (last or 0)):
            continue
        if isinstance(node, ast.Assign):
            found |= {name.id for target in node.targets for name in _names(target)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
    return found


def _names(target: ast.expr) -> Iterator[ast.Name]:
    return (node for node in ast.walk(target) if isinstance(node, ast.Name))


# -- faults ---------------------------------------------------------------------------------------


def _tried(mutation: Mutation, tests: list[str], copy: pathlib.Path) -> dict[str, object]:
    """Plant a fault in a copy, run the tests, and return the verdict."""
    begin = time.monotonic()
    file = copy / mutation.file
    source = file.read_text()
    before = file.stat().st_mtime
    chosen = copy / "chosen-tests.txt"
    chosen.write_text("\n".join(tests))
    try:
        file.write_text(mutation.planted(source))
        # Python takes compiled code for that of the source by size and second.
        later = time.time() + 10 * (1 + hash(mutation.key) % 1000)
        os.utime(file, (later, later))
        code, output = _run_tests(copy, chosen, tests)
    finally:
        file.write_text(source)
        os.utime(file, (before, before))
    return {
        "mutation": mutation.key,
        **_verdict(code, output),
        "tests": len(tests),
        "seconds": round(time.monotonic() - begin, 1),
    }


def _verdict(code: int, output: str) -> dict[str, str]:
    """Return what an exit code of pytest says: an error where it ran no test."""
    if code == PASSED:
        return {"verdict": "survived", "by": "all passed"}
    if code == CUT:
        return {"verdict": "survived", "by": f"none failed within {SECONDS} s"}
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if code in {FAILED, INTERRUPTED} or "while loading conftest" in output:
        return {"verdict": "found", "by": failed[1] if failed else "nothing could be imported"}
    return {"verdict": "error", "by": f"pytest ended with {code}: {output[-400:]}"}


def _run_tests(copy: pathlib.Path, chosen: pathlib.Path, tests: list[str]) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:cov"]
    # tests/simulation has no conftest that registers the profile.
    if not all(test.startswith(SIMULATION) for test in tests):
        command.append(QUICK)
    command += ["--timeout", str(TEST_SECONDS), "--tb=line", f"@{chosen}"]
    with subprocess.Popen(
        command,
        cwd=copy,
        env=_environment(copy),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            return CUT, output
    return process.returncode, output


def main(parts: list[str]) -> int:
    """Try what was not tried yet, print the survivors, and return the exit code."""
    listed = mutations(LIST.read_text())
    files = _files()
    sources = {
        name: (ROOT / name).read_text()
        for name in files
        if name.startswith("k8sbench/") and name.endswith(".py")
    }
    for mutation in listed:
        mutation.planted(sources.get(mutation.file, ""))
    wanted = [one for one in listed if not parts or any(part in one.file for part in parts)]
    if not wanted:
        print(f"error: no fault of the list is in {' '.join(parts)}", file=sys.stderr)
        return 2
    place = FOLDER / _checksum(files)
    copies = [place / f"copy-{number}" for number in range(COPIES)]
    for copy in copies:
        shutil.rmtree(copy, ignore_errors=True)
        _copy(files, copy)
    coverage = place / "coverage"
    if not coverage.exists():
        _measure(copies[0], coverage)
    reached = Reached.read(coverage)
    verdicts = place / "verdicts.jsonl"
    known = _known(verdicts)
    free = queue.SimpleQueue[pathlib.Path]()
    for copy in copies:
        free.put(copy)

    def attempt(mutation: Mutation) -> dict[str, object]:
        copy = free.get()
        try:
            tests = reached.of_mutation(mutation, sources)
            if not tests:
                none = {"verdict": "survived", "by": "no test reaches it"}
                return {"mutation": mutation.key, **none, "tests": 0, "seconds": 0.0}
            return _tried(mutation, tests, copy)
        finally:
            free.put(copy)

    with concurrent.futures.ThreadPoolExecutor(COPIES) as pool, verdicts.open("a") as file:
        new = [one for one in wanted if one.key not in known]
        for verdict in pool.map(attempt, new):
            known[str(verdict["mutation"])] = verdict
            if verdict["verdict"] != "error":  # it is tried again
                file.write(json.dumps(verdict) + "\n")
                file.flush()
            print(f"{verdict['verdict']} {verdict['seconds']} s {verdict['mutation']}", flush=True)
    return _report(wanted, known)


def _known(verdicts: pathlib.Path) -> dict[str, dict[str, object]]:
    lines = verdicts.read_text().splitlines() if verdicts.exists() else []
    return {str(one["mutation"]): one for one in map(json.loads, lines)}


def _report(wanted: list[Mutation], known: dict[str, dict[str, object]]) -> int:
    alive = [one for one in wanted if known[one.key]["verdict"] != "found"]
    print(f"\n{len(wanted)} faults, {len(wanted) - len(alive)} found, {len(alive)} not:")
    for one in alive:
        reason = one.survives or "NO REASON"
        print(f"  {one.key}\n    {known[one.key]['by']}; {reason}")
    for one in wanted:
        if one.survives is not None and one not in alive:
            print(f"  has a reason to survive, and is found: {one.key}")
    return int(any(one.survives is None for one in alive))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

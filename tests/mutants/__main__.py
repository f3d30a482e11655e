"""Changes single tokens and runs the tests that should notice: ``make mutants``.

It works on copies in a temporary folder. It fails where a mutant survives that
``survivors.toml`` does not list, where that list is not true any more, and where fewer than
95 % of the mutants that change anything are killed.

Why no tool of others: mutmut 3 changes neither constants nor decorated functions and takes no
sample; cosmic-ray runs all tests for each mutant; mutatest, which samples by a seed, is not
maintained and fails on Python 3.11.
"""

import argparse
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent import futures

import msgspec

from tests import tiers
from tests.mutants import mutations
from tests.mutants.coverage_map import CoverageMap
from tests.mutants.mutations import Mutant

TARGETS = [
    "k8sbench/measure",
    "k8sbench/parse",
    "k8sbench/model",
    "k8sbench/diagnose",
    "k8sbench/render",
]
TESTS = ["tests/unit", "tests/corpus"]
LIST = pathlib.Path(__file__).parent / "survivors.toml"
GOAL = 0.95
NEAREST = 60
"""Tests of the first of two runs: most mutants need no second one."""
SLOWER = 10
"""Factor of the usual test time after which a mutant counts as killed."""
START_SECONDS = 6.0
"""Start of pytest: imports and collection."""
DURATION = re.compile(r"^(\d+\.\d+)s (?:call|setup|teardown) +(.+)$", re.MULTILINE)
"""A line of pytest's ``--durations``."""
LEFT_OUT = (".git", ".venv", ".*_cache", ".hypothesis", ".demo", ".coverage*", "dist", "build")


class Survivor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant that no test kills, and why not."""

    file: str
    line: str
    becomes: str
    reason: str
    equivalent: bool = False
    """Nothing that k8sbench does changes with it."""

    @property
    def name(self) -> tuple[str, str, str]:
        """As a mutant's."""
        return (self.file, self.line, self.becomes)


class Survivors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The list of them."""

    survivor: list[Survivor] = []


def _pytest(folder: pathlib.Path, *arguments: str, limit: float | None = None) -> int:
    """Run pytest on a copy, which stands before the installed package on the path."""
    shared = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"K8SBENCH_LOG_CORPUS": str(tiers.corpus()), "PYTHONHASHSEED": "0"}
    if limit is not None:
        # A mutant as long as its file and written in the same second would be taken for it.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    log = folder / "pytest.log"
    with log.open("w") as output:
        result = subprocess.run(
            [*shared, "--hypothesis-profile=quick", *arguments],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=limit,
            check=False,
        )
    return result.returncode


def measured(folder: pathlib.Path, jobs: int) -> tuple[CoverageMap, defaultdict[str, float]]:
    """Run all tests without a mutant; return tests per line and their seconds."""
    shutil.copytree(
        tiers.ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True
    )
    chosen = [*TESTS, "-m", "not slow and not tier"]
    spread = ["--numprocesses", str(jobs), "--dist", "loadfile"]
    spread += ["--durations=0", "--durations-min=0"]
    if _pytest(folder, *chosen, *spread, "--cov", "--cov-context=test", "--cov-report="):
        sys.exit(f"The tests fail without a mutant:\n{(folder / 'pytest.log').read_text()[-5000:]}")
    seconds = defaultdict[str, float](float)
    for spent, test in DURATION.findall((folder / "pytest.log").read_text()):
        seconds[test] += float(spent)
    return CoverageMap(folder, folder / ".coverage"), seconds


def survives(
    mutant: Mutant, tests: list[str], seconds: defaultdict[str, float], folder: pathlib.Path
) -> bool:
    """Return True if all tests pass with a mutant in its file."""
    file = folder / mutant.file
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()
    whole = file.read_text("utf-8")
    chosen = folder / "chosen.txt"
    file.write_text(mutant.apply(whole), "utf-8")
    try:
        for part in filter(None, (tests[:NEAREST], tests[NEAREST:])):
            chosen.write_text("\n".join(part))
            limit = SLOWER * (START_SECONDS + sum(seconds[test] for test in part))
            if _pytest(folder, "-x", f"@{chosen}", limit=limit):
                return False
    except subprocess.TimeoutExpired:
        return False
    finally:
        file.write_text(whole, "utf-8")
    return True


def run(chosen: list[Mutant], jobs: int, folder: pathlib.Path) -> list[Mutant]:
    """Try each mutant and return those that survive."""
    began = time.monotonic()
    tests, seconds = measured(folder / "0", jobs)
    print(f"The tests without a mutant: {time.monotonic() - began:.0f} s.", flush=True)
    copies: queue.SimpleQueue[pathlib.Path] = queue.SimpleQueue()
    copies.put(folder / "0")
    for number in range(1, jobs):
        copies.put(pathlib.Path(shutil.copytree(folder / "0", folder / str(number))))

    def tried(mutant: Mutant) -> bool:
        nearest = tests.tests(mutant.file, mutant.row)
        copy = copies.get()
        start = time.monotonic()
        try:
            alive = survives(mutant, nearest, seconds, copy)
        finally:
            copies.put(copy)
        print(
            f"{'SURVIVES' if alive else 'killed'}  {mutant.file}:{mutant.row}  "
            f"{time.monotonic() - start:.0f} s, {len(nearest)} tests\n"
            f"    {mutant.line}\n    {mutant.becomes}",
            flush=True,
        )
        return alive

    with futures.ThreadPoolExecutor(jobs) as pool:
        alive = list(pool.map(tried, chosen))
    return [mutant for mutant, survived in zip(chosen, alive, strict=True) if survived]


def complaints(chosen: list[Mutant], alive: list[Mutant], listed: list[Survivor]) -> list[str]:
    """Return the problems of a run."""
    names = {each.name: each for each in listed}
    wrong = [
        f"survives, and is not listed: {each.file}:{each.row} {each.becomes}"
        for each in alive
        if each.name not in names
    ]
    killed = {mutant.name for mutant in chosen} - {mutant.name for mutant in alive}
    for each in listed:
        path = tiers.ROOT / each.file
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        if each.name in killed:
            wrong.append(f"is listed, and is killed: {each.file} {each.becomes}")
        elif each.line not in map(str.strip, lines):
            wrong.append(f"is listed, and is not in the file any more: {each.file} {each.line}")
    equivalent = sum(m.name in names and names[m.name].equivalent for m in alive)
    all_that_matter = len(chosen) - equivalent
    share = (len(chosen) - len(alive)) / all_that_matter if all_that_matter else 1.0
    print(
        f"{len(chosen)} mutants, {len(chosen) - len(alive)} killed, {len(alive)} survive, "
        f"{equivalent} of these equivalent: {share:.1%} (goal {GOAL:.0%})"
    )
    if share < GOAL:
        wrong.append(f"{share:.1%} killed, the goal is {GOAL:.0%}")
    return wrong


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many mutants (100)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time (all cores)")
    parser.add_argument("targets", nargs="*", default=TARGETS, help="files and folders to change")
    options = parser.parse_args()
    chosen = mutations.sample(tiers.ROOT, options.targets, options.count, options.seed)
    listed = msgspec.toml.decode(LIST.read_bytes(), type=Survivors).survivor
    with tempfile.TemporaryDirectory(prefix="k8sbench-mutants-") as folder:
        alive = run(chosen, options.jobs, pathlib.Path(folder))
    wrong = complaints(chosen, alive, listed)
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

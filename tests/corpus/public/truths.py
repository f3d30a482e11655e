"""Right values of published training logs, computed without the reader.

Each row of ``truths.tsv`` names a log and a method that computes its value (``methods.py``). Every
row is written down before a family reads its program.

``python -m tests.corpus.public.truths values FOLDER`` computes the values of the logs in a folder;
``... measure FOLDER`` measures them as ``k8sbench measure`` does, and prints a table. A third word
is another table, such as ``truths_modded_nanogpt.tsv``.
"""

import collections
import csv
import hashlib
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from click.testing import CliRunner

from k8sbench.cli.commands.measure import command
from tests.corpus.public.methods import METHODS
from tests.corpus.public.rates import TOKENS, Rate

TABLE = pathlib.Path(__file__).with_name("truths.tsv")
MODDED_NANOGPT = TABLE.with_name("truths_modded_nanogpt.tsv")
"""Table of one log of each plan of modded-nanogpt."""
REFUSE = "refuse"
"""The right value of a log that states no figure: only a refusal or a rejection is right."""


class Truth(NamedTuple):
    """A row of a table."""

    name: str
    """Path of the log within the folder of logs."""
    repository: str
    commit: str
    path: str
    sha256: str
    program: str
    options: str
    """Options of ``measure`` that a user has to give."""
    right: str
    """Rates with ``|`` between them, each of which is right, or :data:`REFUSE`."""
    within: str
    """Percent by which a figure may differ, or ``-``."""
    method: str
    """Name of a method, or ``-`` where the reader has to refuse the log."""
    statement: str
    """Source of the value, or the reason that there is none."""

    @property
    def rates(self) -> list[Rate]:
        """Right values; none where the log has to be refused."""
        if self.right == REFUSE:
            return []
        return [Rate(float(value), unit) for value, unit in map(str.split, self.right.split(" | "))]

    def accepts(self, rate: Rate) -> bool:
        """True if a figure is one of the right values."""
        return any(
            rate.unit == right.unit
            and abs(rate.value - right.value) <= float(self.within) / 100 * right.value
            for right in self.rates
        )


def truths(table: pathlib.Path = TABLE) -> list[Truth]:
    """Return the rows of a table."""
    with table.open(newline="") as lines:
        return [
            Truth(**row) for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def read(log: pathlib.Path) -> str:
    """Return a log's text with a progress bar's lines apart."""
    return log.read_bytes().decode(errors="replace").replace("\r", "\n")


def computed(folder: pathlib.Path, table: pathlib.Path = TABLE) -> Iterator[tuple[Truth, str]]:
    """Yield each row whose log is in a folder, with the right value by its method."""
    for truth in truths(table):
        log = folder / truth.name
        if not log.is_file():
            continue
        if hashlib.sha256(log.read_bytes()).hexdigest() != truth.sha256:
            yield truth, "another log"
        elif truth.method in METHODS:
            yield truth, " | ".join(map(str, METHODS[truth.method](read(log))))
        else:
            yield truth, REFUSE


def outcome(truth: Truth, output: str, errors: str) -> tuple[str, str]:
    """Return the class of what ``measure -o json`` printed for a log, and its figure or reason."""
    documents: list[dict[str, Any]] = json.loads(output or "[]")
    rightly = "rightly " * (truth.right == REFUSE)
    if not documents:
        return f"{rightly}refused", errors.strip().splitlines()[0]
    (measured,) = documents
    figures: dict[str, Any] = measured["throughput"] or measured["unverified"] or {}
    value = figures.get("time_weighted") or figures.get("printed_steps")
    rates = [Rate(value, figures["unit"])] if value else []
    if tokens := figures.get("tokens_per_second"):
        rates.append(Rate(tokens, TOKENS))
    near = any(map(truth.accepts, rates))
    shown = " = ".join(map(str, rates)) or "no figure"
    if measured["verdict"] == "valid":
        return ("right" if near else "wrong and valid"), shown
    reasons = " ".join(each["id"] for each in measured["reasons"] if each["severity"] == "reject")
    return ("rejected though right" if near else f"{rightly}rejected"), f"{shown} ({reasons})"


def measured(folder: pathlib.Path, table: pathlib.Path = TABLE) -> Iterator[tuple[Truth, str, str]]:
    """Yield each row whose log is in a folder, with class and figure of its measurement."""
    for truth in truths(table):
        log = folder / truth.name
        if log.is_file():
            options = [] if truth.options == "-" else truth.options.split()
            done = CliRunner().invoke(command, [str(log), *options, "-o", "json"])
            errors = str(done.exception) if done.exception else done.stderr
            yield truth, *outcome(truth, done.stdout, errors)


def main(words: list[str]) -> int:
    """Print the right values of a folder's logs, or how they are measured; 1 if any is wrong."""
    action, folder, *rest = words
    table = pathlib.Path(rest[0]) if rest else TABLE
    if action == "values":
        wrong = 0
        for truth, value in computed(pathlib.Path(folder), table):
            wrong += value != truth.right
            print(
                f"{truth.name:34}  {value}" + f"  (table: {truth.right})" * (value != truth.right)
            )
        return int(wrong > 0)
    counts: collections.Counter[str] = collections.Counter()
    for truth, kind, shown in measured(pathlib.Path(folder), table):
        counts[kind] += 1
        print(f"{truth.name:34}  {kind:22}  {shown}  (right: {truth.right}, ±{truth.within} %)")
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return int(counts["wrong and valid"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

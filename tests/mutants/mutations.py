"""Single-token mutants of the sources, and a sample stable under moved lines."""

import ast
import hashlib
import io
import keyword
import pathlib
import tokenize
from collections import Counter
from collections.abc import Iterator

import msgspec

OTHER = {
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "//": "/",
    "%": "*",
    "**": "*",
    "+=": "-=",
    "-=": "+=",
    "*=": "/=",
    "&": "|",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "is": "is not",
    "in": "not in",
    "not": "",
    "and": "or",
    "or": "and",
    "True": "False",
    "False": "True",
    "any": "all",
    "all": "any",
    "min": "max",
    "max": "min",
    "break": "continue",
    "continue": "break",
}
"""Token → its replacement, numbers apart.

Not ``|``, which is mostly of types.
"""
BINARY = {"*", "**", "/"}
"""Operators that are also signs of a list of arguments."""


class Mutant(msgspec.Struct, frozen=True):
    """One file with one token changed."""

    file: str
    row: int
    column: int
    line: str
    """Line before and after, without indentation: they name the mutant."""
    becomes: str
    end: int
    """The column after the token."""
    other: str

    def apply(self, source: str) -> str:
        """The whole file with the token changed."""
        lines = source.splitlines(keepends=True)
        line = lines[self.row - 1]
        lines[self.row - 1] = line[: self.column] + self.other + line[self.end :]
        return "".join(lines)

    @property
    def name(self) -> tuple[str, str, str]:
        """Identity of the mutant, independent of line numbers."""
        return (self.file, self.line, self.becomes)


def _other(token: tokenize.TokenInfo, before: tokenize.TokenInfo | None) -> str | None:
    if token.type == tokenize.NUMBER:
        number = ast.literal_eval(token.string)
        return repr(number + 1 if isinstance(number, int) else 2 * number or 1.0)
    if token.string in BINARY and before is not None:
        operand = before.type in {tokenize.NAME, tokenize.NUMBER} or before.string in {")", "]"}
        if not operand or keyword.iskeyword(before.string):
            return None
    return OTHER.get(token.string)


def statements(tree: ast.AST) -> dict[int, ast.stmt]:
    """Line → the innermost statement around it."""
    found: dict[int, ast.stmt] = {}
    for node in ast.walk(tree):  # from the outside to the inside
        if isinstance(node, ast.stmt):
            found |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), node)
    return found


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a file, in its order."""
    around = statements(ast.parse(source))
    lines = source.splitlines()
    before, in_loop = None, False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        other = _other(token, before)
        before = token
        # The "in" of a loop is not a comparison.
        of_loop = in_loop and token.string == "in"
        in_loop = token.string == "for" or (in_loop and not of_loop)
        (row, column), end = token.start, token.end[1]
        # What the header of a class says (frozen, kw_only) is for mypy to check.
        if other is None or of_loop or isinstance(around.get(row), ast.ClassDef):
            continue
        line = lines[row - 1]
        # Of "is not" and "not in" the "not" changes.
        if (other == "is not" and line[end:].startswith(" not")) or (
            other == "not in" and line[:column].endswith("not ")
        ):
            continue
        becomes = (line[:column] + other + line[end:]).strip()
        yield Mutant(file, row, column, line.strip(), becomes, end, other)


def sample(root: pathlib.Path, targets: list[str], count: int, seed: int) -> list[Mutant]:
    """``count`` mutants of the files and folders, always the same ones for a seed.

    Each mutant has a number of its own, by its text, so that a change elsewhere does not choose
    others.
    """
    paths = [path for each in targets for path in [root / each, *(root / each).rglob("*.py")]]
    seen: Counter[tuple[str, str, str]] = Counter()
    ranked = []
    for path in sorted({path for path in paths if path.is_file()}):
        for mutant in mutants(str(path.relative_to(root)), path.read_text("utf-8")):
            key = repr((seed, *mutant.name, seen[mutant.name]))
            seen[mutant.name] += 1
            ranked.append((hashlib.sha256(key.encode()).digest(), mutant))
    chosen = [mutant for _, mutant in sorted(ranked, key=lambda each: each[0])[:count]]
    return sorted(chosen, key=lambda mutant: (mutant.file, mutant.row, mutant.column))

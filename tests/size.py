"""Limits on the size of the project: ``make size``.

Code lines are lines that hold code: no blank lines, comments or docstrings (those of fields
included). Words of pages are those written by hand: parts between ``<!-- NAME -->`` and
``<!-- NAME: end -->`` are generated and do not count. ``tests/size.toml`` holds the limits, which
only fall: whoever removes something lowers them, and raising one needs a reason in its commit.
A size up to 5 % above its limit is a warning; beyond that it fails.
"""

import ast
import io
import pathlib
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = pathlib.Path("tests/size.toml")
TOLERANCE = 1.05
"""A size above its limit by more than this factor fails."""
GENERATED = re.compile(r"<!-- (\w+)\b[^>]*-->.*?<!-- \1: end -->", re.DOTALL)
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Return the number of lines of Python source that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def words(page: str) -> int:
    """Return the number of words of a page that are not generated."""
    return len(GENERATED.sub("", page).split())


def sizes(root: pathlib.Path) -> dict[str, int]:
    """Return the sizes of the tree by the names that the limits have."""

    def python(folder: str) -> int:
        return sum(code_lines(path.read_text()) for path in (root / folder).rglob("*.py"))

    def lines(paths: Iterable[pathlib.Path]) -> int:
        return sum(len(path.read_text().splitlines()) for path in paths)

    package = root / "k8sbench"
    pages = [root / "README.md", root / "charts/README.md", root / "tests/README.md"]
    example = root / "docs/examples/report"  # a test writes it
    pages += sorted(set((root / "docs").glob("**/*.md")) - set(example.glob("*.md")))
    return {
        "product": python("k8sbench"),
        "data": lines(
            path
            for folder in (package, root / "manifests")
            for path in folder.rglob("*")
            if path.suffix in {".yaml", ".j2", ".html", ".js"}
        ),
        "tests": python("tests"),
        "goldens": lines(
            path
            for path in (*(root / "tests").rglob("golden/**/*"), *example.rglob("*"))
            if path.is_file() and path.suffix != ".py"
        ),
        "words": sum(words(page.read_text()) for page in pages if page.exists()),
    }


def main(root: pathlib.Path = ROOT) -> int:
    """Print each size with its limit; return 1 if one fails."""
    limits = tomllib.loads((root / LIMITS).read_text())
    measured = sizes(root)
    if set(limits) != set(measured):
        print(f"error: {LIMITS} holds {sorted(limits)}; it needs {sorted(measured)}.")
        return 1
    above = [name for name, size in measured.items() if size > limits[name]]
    too_far = [name for name in above if measured[name] > TOLERANCE * limits[name]]
    for name, size in measured.items():
        print(f"{name:8} {size:7,}  of {limits[name]:7,}{'  ABOVE' if name in above else ''}")
    if above:
        severity = f"error, more than {TOLERANCE - 1:.0%}" if too_far else "warning"
        print(f"{severity}: {' and '.join(too_far or above)} above the limit of {LIMITS}.")
        print("  Take something out; or raise the limit, with the reason in the commit.")
    return bool(too_far)


if __name__ == "__main__":
    sys.exit(main())

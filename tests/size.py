"""Sizes of the project beside those of the last release: ``make size``.

Statements are those of Python without docstrings. Words of pages are those written by hand: parts
between ``<!-- NAME -->`` and ``<!-- NAME: end -->`` are generated and do not count. A size is no
goal; a review asks what a new idea replaces. Calls with packed arguments, such as ``f(*(a, b))``,
fail: they hide the arguments from readers and type checkers.
"""

import ast
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASED = pathlib.Path("tests/size.toml")
GENERATED = re.compile(r"<!-- (\w+)\b[^>]*-->.*?<!-- \1: end -->", re.DOTALL)


def statements(source: str) -> int:
    """Return the number of statements of Python source, without docstrings."""
    return sum(
        isinstance(node, ast.stmt) and not _is_text(node) for node in ast.walk(ast.parse(source))
    )


def packed_calls(source: str) -> list[int]:
    """Return the lines of calls whose arguments are packed into a tuple or list."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return sorted(call.lineno for call in calls if any(map(_is_packed, call.args)))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_packed(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple | ast.List)


def words(page: str) -> int:
    """Return the number of words of a page that are not generated."""
    return len(GENERATED.sub("", page).split())


def sizes(root: pathlib.Path) -> dict[str, int]:
    """Return the sizes of the tree by name."""

    def python(folder: str) -> int:
        return sum(statements(path.read_text()) for path in (root / folder).rglob("*.py"))

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
    """Print each size with the last release's; return 1 for packed arguments."""
    released = tomllib.loads((root / RELEASED).read_text())
    for name, size in sizes(root).items():
        print(f"{name:8} {size:7,}  {size - released[name]:+7,}")
    packed = [
        f"{path.relative_to(root)}:{line}"
        for folder in ("k8sbench", "tests")
        for path in sorted((root / folder).rglob("*.py"))
        for line in packed_calls(path.read_text())
    ]
    if packed:
        print(
            f"error: arguments are packed into a tuple: {', '.join(packed)}. Write them one by one."
        )
    return bool(packed)


if __name__ == "__main__":
    sys.exit(main())

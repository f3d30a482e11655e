"""Limits are read when a wait begins, so that a test can replace them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import k8sbench

FOLDER = Path(k8sbench.__file__).parent


def bound_at_import(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that read ``limits.now`` while a module is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from bound_at_import(node.args)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "limits.now":
            yield node.lineno
        else:
            yield from bound_at_import(node)


def test_no_limit_is_bound_at_import() -> None:
    found = [
        f"{path.relative_to(FOLDER)}:{line}"
        for path in sorted(FOLDER.rglob("*.py"))
        for line in bound_at_import(ast.parse(path.read_text()))
    ]
    assert found == []

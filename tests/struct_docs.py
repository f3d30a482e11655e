"""Generated parts of pages, and what fields and constants are: the string below each."""

import ast
import functools
import inspect
import os
import pathlib
import re
import sys
from typing import Any


def descriptions(struct: type[Any]) -> dict[str, str]:
    """Return field → description on one line; empty without one.

    Fields of base classes are included.
    """
    told: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        module = sys.modules[base.__module__]
        if "__annotations__" not in vars(base) or not getattr(module, "__file__", None):
            continue
        body = _body(module, base.__name__)
        for field, below in zip(body, [*body[1:], ast.Pass()], strict=True):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = ""
                if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                    text = " ".join(str(below.value.value).split())
                told[field.target.id] = text
    return told


def assert_generated(page: pathlib.Path, name: str, table: str) -> None:
    """Assert that a page's marked part has this text, or write it there."""
    text = page.read_text()
    pattern = re.compile(rf"(<!-- {name} -->\n\n)(.*?)(\n\n<!-- {name}: end -->)", re.DOTALL)
    if os.environ.get("K8SBENCH_UPDATE_GOLDEN"):
        text = pattern.sub(lambda m: m[1] + table + m[3], text)
        page.write_text(text)
    between = pattern.search(text)
    assert between is not None
    assert between[2] == table, "K8SBENCH_UPDATE_GOLDEN=1 writes it anew"


def _body(module: Any, name: str) -> list[ast.stmt]:
    tree = _tree(module)
    return next(
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name
    )


@functools.cache
def _tree(module: Any) -> ast.Module:
    return ast.parse(inspect.getsource(module))

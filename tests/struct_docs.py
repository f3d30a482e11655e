"""What a Struct's fields are, as its source says: the string below each field."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from typing import Any


def descriptions(struct: type[Any]) -> dict[str, str]:
    """Field → the string below it in the source on one line; empty where there is none.

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


def summary(struct: type[Any]) -> str:
    """The Struct's docstring on one line, as Markdown."""
    return " ".join((inspect.getdoc(struct) or "").split()).replace("``", "`")


def _body(module: Any, name: str) -> list[ast.stmt]:
    tree = _tree(module)
    return next(
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name
    )


@functools.cache
def _tree(module: Any) -> ast.Module:
    return ast.parse(inspect.getsource(module))

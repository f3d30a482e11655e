"""Every time limit has its reason below it."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from k8sbench.limits import Limits
from tests import struct_docs
from tests.tiers import ROOT

NAME = re.compile(r"SECONDS$|_S$|EVERY$|PAUSE$")


class Limit(NamedTuple):
    module: str
    name: str
    seconds: float
    reason: str


def limits() -> list[Limit]:
    """Return all modules' time limits, except the trainers'."""
    paths = sorted((ROOT / "k8sbench").rglob("*.py"))
    return [
        Limit(str(path.relative_to(ROOT)), *found)
        for path in paths
        if "trainers" not in path.relative_to(ROOT).parts
        for found in of_module(ast.parse(path.read_text()).body)
    ]


def of_module(body: list[ast.stmt]) -> Iterator[tuple[str, float, str]]:
    """The name, value and docstring of each time limit of a module."""
    for node, below in zip(body, [*body[1:], ast.Pass()], strict=True):
        if not isinstance(node, ast.Assign):
            continue
        reason = ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            reason = " ".join(str(below.value.value).split())
        (target,) = node.targets
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = [*zip(target.elts, node.value.elts, strict=True)]
        for named, value in pairs:
            if isinstance(named, ast.Name) and NAME.search(named.id) and (n := number(value)):
                yield named.id, n, reason


def number(node: ast.expr) -> float | None:
    """Return a number or a product of two; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = number(node.left), number(node.right)
        return None if left is None or right is None else left * right
    is_number = isinstance(node, ast.Constant) and type(node.value) in {int, float}
    return float(node.value) if is_number else None  # type: ignore[attr-defined]


def test_a_time_limit_has_its_reason_beside_it() -> None:
    found = limits()
    assert len(found) > 60
    assert [f"{one.module}: {one.name}" for one in found if not one.reason] == []
    assert struct_docs.descriptions(Limits).keys() == set(Limits.__struct_fields__)

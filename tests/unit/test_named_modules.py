"""Tests refer to modules of the product by imports, which a script can rewrite, not in strings."""

import ast
import pkgutil
import re
from collections.abc import Iterator

import k8sbench
from k8sbench import trainers
from tests.packaged import PACKAGE
from tests.tiers import ROOT

NAME = re.compile(r"k8sbench(?:[./]\w+)+")
IMPORT = re.compile(r"from (k8sbench[\w.]*) import (\w+)")


def names() -> set[str]:
    """The modules, but the trainers' programs, which users and manifests name."""
    paths = (path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py"))
    found = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    found -= {f"{trainers.__name__}.{one.name}" for one in _programs()}
    return found - {k8sbench.__name__, trainers.__name__}


def _programs() -> Iterator[pkgutil.ModuleInfo]:
    return (one for one in pkgutil.iter_modules(trainers.__path__) if not one.ispkg)


def text_of(node: ast.AST) -> str:
    """The text of a string, or of the end of a path that is put together of strings."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(ast.BinOp(right=ast.Constant(value=str(folder))), ast.Div(), right):
            return f"{folder}/{text_of(right)}"
    return ""


def named(source: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line of each string that names a module, and the name."""
    for node in ast.walk(ast.parse(source)):
        for name in NAME.findall(IMPORT.sub(r"\1.\2", text_of(node))):
            words = name.replace("/", ".").split(".")
            if any(".".join(words[:end]) in known for end in range(2, len(words) + 1)):
                yield getattr(node, "lineno", 0), name


def test_no_string_of_a_test_names_a_module_of_the_product() -> None:
    known = names()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, name in named(path.read_text("utf-8"), known)
    ]
    assert not found, "import it, and use its __name__, its __file__ or tests.harness.children"


def test_a_name_is_found_in_each_kind_of_string() -> None:
    sources = (
        'patch("{0}.load")',
        'f"{0}.{{name}}"',
        '"import {0}"',
        '"from {1} import {2}"',
        '"{3}.py"',
        'ROOT / "k8sbench" / "{4}"',
    )
    for known in names():
        if known.count(".") == 1:
            package, _, name = known.rpartition(".")
            words = (known, package, name, known.replace(".", "/"), name)
            assert all([*named(source.format(*words), {known})] for source in sources), known

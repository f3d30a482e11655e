"""The catalogue of messages, parsed as a whole."""

import importlib.resources
from collections.abc import Iterator
from typing import Any

from fluent.syntax import FluentParser, ast, visitor

from k8sbench import messages
from k8sbench.messages import Lang

LANGUAGES: tuple[Lang, ...] = ("en", "zh")


def files(lang: Lang) -> dict[str, str]:
    """Map the names of the files of a language → their texts."""
    folder = importlib.resources.files(messages).joinpath(lang)
    return {file.name: file.read_text("utf-8") for file in folder.iterdir()}


def entries(lang: Lang) -> dict[str, ast.Message]:
    """Map id → message; raises ``ValueError`` for what is none."""
    found = {}
    for name, text in files(lang).items():
        for entry in FluentParser().parse(text).body:
            if isinstance(entry, ast.Message):
                found[entry.id.name] = entry
            elif not isinstance(entry, ast.BaseComment):
                raise ValueError(f"{lang}/{name}: {entry}")
    return found


class _Arguments(visitor.Visitor):
    def __init__(self) -> None:
        self.names = set[str]()

    def visit_VariableReference(self, node: Any) -> None:
        self.names.add(node.id.name)

    def visit_SelectExpression(self, node: Any) -> None:
        for variant in node.variants:
            self.visit(variant)


def arguments(entry: ast.Message) -> set[str]:
    """Return the names of the arguments that a message shows; a plural alone shows none."""
    found = _Arguments()
    found.visit(entry)
    return found.names


def all_arguments(entry: ast.Message) -> set[str]:
    """Return the names of the arguments of a message, with those that only choose a variant."""
    found = set[str]()

    class References(visitor.Visitor):
        def visit_VariableReference(self, node: Any) -> None:
            found.add(node.id.name)

    References().visit(entry)
    return found


def references(entry: ast.Message) -> Iterator[str]:
    """Yield the ids of other messages and terms that a message refers to."""

    class References(visitor.Visitor):
        def __init__(self) -> None:
            self.ids = list[str]()

        def visit_MessageReference(self, node: Any) -> None:
            self.ids.append(node.id.name)

        def visit_TermReference(self, node: Any) -> None:
            self.ids.append(node.id.name)

    found = References()
    found.visit(entry)
    yield from found.ids

"""YAML loader and syntax errors."""

from __future__ import annotations

from typing import Any, ClassVar

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if PyYAML has it, as its wheels do: ten times faster."""


def load(text: str) -> Any:
    """Read one document as plain values; raises :class:`yaml.YAMLError`."""
    return yaml.load(text, Loader=LOADER)  # noqa: S506 - a safe loader


def load_texts(text: str) -> Any:
    """Read one document with texts for values: ``450.80`` keeps its zero.

    Builds lists, dictionaries and texts alone. Raises :class:`yaml.YAMLError`.
    """
    return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - a safe loader


def load_all(text: str) -> list[Any]:
    """Read all documents as plain values; raises :class:`yaml.YAMLError`."""
    return list(yaml.load_all(text, Loader=LOADER))


class _ManifestLoader(LOADER):  # type: ignore[misc]
    """Reads dates as text, as kubectl does."""

    yaml_implicit_resolvers: ClassVar = {
        first: [resolver for resolver in resolvers if resolver[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in LOADER.yaml_implicit_resolvers.items()
    }


def load_manifests(text: str) -> list[Any]:
    """Read all documents as kubectl reads them; raises :class:`yaml.YAMLError`."""
    documents = yaml.load_all(text, Loader=_ManifestLoader)
    return [document for document in documents if document is not None]


def describe_syntax_error(error: Exception) -> tuple[int | None, str]:
    """Return the line (None if unknown) and the text of a syntax error."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    return mark.line + 1 if mark else None, str(problem or "it cannot be read")

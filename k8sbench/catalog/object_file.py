"""Files of Benchmark objects, as ``kubectl apply`` takes them."""

from __future__ import annotations

import sys
from typing import Any

import yaml

from k8sbench.catalog import packaged, strict_yaml, yaml_text
from k8sbench.model.errors import InputError

STDIN = "-"


def read(file: str) -> list[dict[str, Any]]:
    """Read the objects of a file, each as the API server would take it; ``-`` is stdin.

    Raises :class:`UsageError`.
    """
    where = "stdin" if file == STDIN else file
    text = (
        strict_yaml.decode(sys.stdin.buffer.read(strict_yaml.LIMIT), file=where)
        if file == STDIN
        else strict_yaml.read_text(file)
    )
    try:
        documents = yaml_text.load_manifests(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        line, problem = yaml_text.describe_syntax_error(error)
        message = f"is not YAML: {problem}."
        raise InputError(message, strict_yaml.HOW_TO_WRITE, file=where, line=line) from error
    objects = [kube_object for document in documents for kube_object in _items(document)]
    if not objects:
        raise InputError("holds no Benchmark.", "Is it the right file?", file=where)
    schema = packaged.object_schema()
    return [schema.check(kube_object) for kube_object in objects]


def _items(document: Any) -> list[Any]:
    """Return the objects of a document, which may be a list of them."""
    is_list = isinstance(document, dict) and document.get("kind") in {"List", "BenchmarkList"}
    items = document.get("items") if is_list else [document]
    return items if isinstance(items, list) else []

"""The JSON Schemas that ``k8sbench schema`` prints, and documents held against them."""

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema

import k8sbench

FOLDER = Path(k8sbench.__file__).parent / "schema"


@functools.cache
def printed(name: str) -> Any:
    """Return a packaged schema, as the command prints it."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def validate(name: str, value: Any, document: str | None = None) -> None:
    """Hold a document against a schema; unnamed keys fail."""
    whole = printed(name)
    schema = whole if document is None else whole["documents"][document]
    closed = {
        key: about | {"additionalProperties": False} if "properties" in about else about
        for key, about in whole["$defs"].items()
    }
    jsonschema.Draft202012Validator(schema | {"$defs": closed}).validate(value)

"""An index of another layout is never read, so that what it stores may change."""

import hashlib
import json
from typing import Any

import msgspec

from k8sbench.model.group import Group
from k8sbench.store import database, index

LATEST = 21, "14425baff8a20a7b"
"""Layout, and the digest of what an index of it holds."""


def without_words(schema: Any) -> Any:
    """Leave out descriptions, which nothing reads."""
    if isinstance(schema, dict):
        return {key: without_words(of) for key, of in schema.items() if key != "description"}
    return [without_words(each) for each in schema] if isinstance(schema, list) else schema


def test_whoever_changes_what_an_index_holds_raises_its_layout() -> None:
    _, components = msgspec.json.schema_components([Group])
    held = json.dumps([index.TABLES, without_words(components)], sort_keys=True)
    digest = hashlib.sha256(held.encode()).hexdigest()[:16]
    assert (database.LAYOUT, digest) == LATEST, "raise LAYOUT, too"

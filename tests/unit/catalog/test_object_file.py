"""Files of Benchmark objects, as kubectl takes them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from k8sbench.catalog import object_file
from k8sbench.model.errors import UsageError
from tests.unit.model import object_examples

ACCEPTED = object_examples.FOLDER / "accepted.yaml"


def test_the_documents_of_a_file_are_objects_and_dates_are_text() -> None:
    found = object_file.read(str(ACCEPTED))
    assert [one["metadata"]["name"] for one in found] == [
        one["metadata"]["name"] for one in object_examples.accepted()
    ]
    assert found[2]["spec"]["set"] == "2026-11-27"
    assert not any("status" in one for one in found)


def test_a_list_in_json_and_stdin_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = object_examples.accepted()
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    (tmp_path / "list.json").write_text(text)
    stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    from_file = object_file.read(str(tmp_path / "list.json"))
    assert from_file == object_file.read(object_file.STDIN) == object_file.read(str(ACCEPTED))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---\n---\n",
        "a: [",
        "just a word",
        "apiVersion: v1\nkind: List\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        ACCEPTED.read_text() + "---\nkind: Benchmark\n",
        "? [a]\n: b\n",
        "metadata: 2\nspec: {}\n",
    ],
)
def test_a_file_of_something_else_is_refused_whole(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(UsageError):
        object_file.read(str(tmp_path / "a.yaml"))

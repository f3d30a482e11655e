"""JSON documents of code, JSON Schema and page agree."""

import functools
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from k8sbench.adapters.store.artifacts import RunRecord, Wishes
from k8sbench.adapters.store.exchange import ImportedLogs, Pruned
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.app.catalog import DataSetList
from k8sbench.cli.commands.doctor import PoolList
from k8sbench.cli.main import main
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Baseline
from k8sbench.operator.documents import Artifact
from k8sbench.report.run_document import BaselineInfo, ListedRun, RunStatus
from tests import struct_docs
from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.store.examples import OWNER, REJECTION, measurement, plan, step

FILE = ROOT / "k8sbench" / "schema" / "v2.json"
PAGE = ROOT / "docs" / "schema.md"
CATALOG_PAGE = ROOT / "docs" / "catalog.md"
DOCUMENTS: dict[str, Any] = {
    "k8sbench list -o json": list[ListedRun],
    "k8sbench status RUN -o json": RunStatus,
    "k8sbench measure LOG -o json": list[Measurement],
    "k8sbench pools -o json": PoolList,
    "k8sbench data list -o json": DataSetList,
    "k8sbench baseline list -o json": list[BaselineInfo],
    "GET /api/v1/baselines": list[Baseline],
    "GET /api/v1/runs": list[ListedRun],
    "GET /api/v1/runs?detail=status": list[RunStatus],
    "GET /api/v1/runs/{run}": RunStatus,
    "GET /api/v1/runs/{run}/artifacts": list[Artifact],
    "run.json": RunRecord,
    "wishes.json": Wishes,
    "measurement.json": Measurement,
    "events.jsonl, each line": Transition,
    "imported.json": ImportedLogs,
    "pruned.json": Pruned,
    "baselines/NAME.json": Baseline,
}
OF_THE_CATALOG = {"NodePool", "Toleration", "Rdma", "Fingerprint", "LogFormat"}
"""Users write these; docs/catalog.md describes them."""


@functools.cache
def json_schema() -> dict[str, Any]:
    """Make the JSON Schema of every document from the code."""
    schemas, components = msgspec.json.schema_components(
        DOCUMENTS.values(), ref_template="#/$defs/{name}"
    )
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "k8sbench documents",
        "description": "Described in docs/schema.md.",
        "documents": dict(zip(DOCUMENTS, schemas, strict=True)),
        "$defs": components,
    }
    # \Z is Python's; JSON Schema's expressions are ECMAScript's.
    text = json.dumps(made).replace("\\\\Z", "$")
    return json.loads(text)  # type: ignore[no-any-return]


def components() -> dict[str, dict[str, Any]]:
    """The schema of each structure, without enumerations."""
    found: dict[str, dict[str, Any]] = json_schema()["$defs"]
    return {name: one for name, one in found.items() if "properties" in one}


def structs() -> dict[str, type[Any]]:
    """Return the documents' classes in order of appearance."""
    met: dict[str, type[Any]] = {}

    def visit(info: Any) -> None:
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls.__name__ not in met:
                met[info.cls.__name__] = info.cls
                for field in info.fields:
                    visit(field.type)
            return
        for part in ("item_type", "item_types", "key_type", "value_type", "types", "type"):
            inner = getattr(info, part, ())
            for one in inner if isinstance(inner, tuple) else (inner,):
                visit(one)

    for document in DOCUMENTS.values():
        visit(msgspec.inspect.type_info(document))
    return met


def printed_by(name: str) -> str:
    """The documents that are a structure, or a list of it."""
    reference = {"$ref": f"#/$defs/{name}"}
    documents = json_schema()["documents"].items()
    whole = [f"`{title}`" for title, schema in documents if schema == reference]
    lists = [
        f"`{title}` (a list)" for title, schema in documents if schema.get("items") == reference
    ]
    return "".join(f"In {', '.join([*whole, *lists])}.\n\n" if whole or lists else "")


def tables() -> str:
    """Return the page's generated part: a table per structure from docstrings."""
    parts = []
    for name, struct in structs().items():
        if name in OF_THE_CATALOG:
            continue
        told = struct_docs.descriptions(struct)
        names = dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
        rows = ""
        for key, schema in components()[name]["properties"].items():
            said = told[names[key]]
            assert "null" not in kind(schema) or "None" in said, f"{name}.{key}: when is it null?"
            rows += f"| `{key}` | {kind(schema)} | {meaning(said)} |\n"
        parts.append(
            f"## {name}\n\n{struct_docs.summary(struct)}\n\n{printed_by(name)}"
            f"| key | type | meaning |\n|---|---|---|\n{rows}"
        )
    return "\n".join(parts)


def meaning(description: str) -> str:
    """Write a field's description as Markdown about JSON."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", description).replace("``", "`")
    return re.sub(r"\bNone\b", "null", text).replace("|", "\\|")


def kind(schema: dict[str, Any]) -> str:
    """Write a type as the page does."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return "text" if name == "Phase" else name
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " \\| ".join(f"`{one}`" for one in schema["enum"])
    if schema["type"] == "array":
        return f"list of {kind(schema['items'])}"
    if schema["type"] == "object":
        return f"map of {kind(schema['additionalProperties'])}"
    return {"string": "text"}.get(schema["type"], str(schema["type"]))


def test_the_schema_file_is_the_golden_of_the_code() -> None:
    made = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    goldens.check(FILE, made)


def test_the_page_is_what_the_code_says_golden() -> None:
    struct_docs.assert_generated(PAGE, "documents", tables().strip())


@pytest.mark.parametrize("name", sorted(OF_THE_CATALOG))
def test_what_users_write_is_described_with_the_catalog(name: str) -> None:
    text = CATALOG_PAGE.read_text()
    for key in components()[name]["properties"]:
        assert f"| `{key}` |" in text, f"{name}.{key}"


def test_the_page_names_every_phase() -> None:
    text = PAGE.read_text()
    assert all(f"`{phase}`" in text for phase in Phase)


def test_every_document_carries_its_version() -> None:
    for name in ("ListedRun", "RunStatus", "RunPlan", "Measurement", "RunRecord"):
        assert components()[name]["properties"]["schema"]["default"] == SCHEMA == 2


def validate(document: str, value: Any) -> None:
    """Hold a real document against the schema file."""
    validator(document).validate(value)


@functools.cache
def validator(document: str) -> Any:
    whole = json.loads(FILE.read_text())
    schema = whole["documents"][document] | {"$defs": closed(whole["$defs"])}
    return jsonschema.Draft202012Validator(schema)


def closed(definitions: dict[str, Any]) -> dict[str, Any]:
    """The same without room for keys that the schema does not name."""
    return {
        name: one | {"additionalProperties": False} if "properties" in one else one
        for name, one in definitions.items()
    }


@pytest.mark.slow
def test_real_documents_keep_to_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    with open_store() as store:
        for number in (1, 2, 3, 4):
            store.record(plan(f"seg-{number}", repeat=number), at=1e9 + number, owner=OWNER)
        store.move("seg-1", step(Phase.RUNNING))
        store.move("seg-1", step(Phase.SUCCEEDED))
        store.measured("seg-1", measurement())
        store.move("seg-2", step(Phase.SUCCEEDED))
        store.measured(
            "seg-2",
            measurement(
                throughput=None,
                unverified=measurement().throughput,
                verdict="rejected",
                reasons=(REJECTION,),
                window=None,
                accuracy=None,
            ),
        )
    (tmp_path / "store" / "runs" / "seg-4" / "measurement.json").write_text("{")

    def printed(*words: str) -> Any:
        main(list(words))
        return json.loads(capsys.readouterr().out)

    for where in ("none", "store"):
        listed = printed("list", "-o", "json", "--store", str(tmp_path / where))
        validate("k8sbench list -o json", listed)
    for number in (1, 2, 3):
        said = printed("status", f"seg-{number}", "-o", "json")
        validate("k8sbench status RUN -o json", said)
        folder = tmp_path / "store" / "runs" / f"seg-{number}"
        validate("run.json", json.loads((folder / "run.json").read_text()))
        for line in (folder / "events.jsonl").read_text().splitlines():
            validate("events.jsonl, each line", json.loads(line))
        if number < 3:
            kept = json.loads((folder / "measurement.json").read_text())
            validate("measurement.json", kept)
            validate("k8sbench measure LOG -o json", [kept])


def test_the_schema_travels_with_the_package() -> None:
    import importlib.resources

    assert importlib.resources.files("k8sbench").joinpath("schema/v2.json").is_file()

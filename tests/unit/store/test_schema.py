"""The JSON documents: what the code prints, the JSON Schema file and the page say the same."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any

import jsonschema
import msgspec
import pytest

from k8sbench.adapters.store.artifacts import RunRecord, Wishes
from k8sbench.adapters.store.exchange import Digests, Header
from k8sbench.adapters.store.intake import ImportedLogs
from k8sbench.adapters.store.removal import Pruned
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.adapters.store.upkeep import StoreInfo, StoreReport
from k8sbench.app.baselines import BaselineInfo
from k8sbench.app.data import DataSetList
from k8sbench.app.reading import Artifact
from k8sbench.cli.commands.config import ShownSetting
from k8sbench.cli.commands.images import ImageList
from k8sbench.cli.commands.pools import PoolList
from k8sbench.cli.main import main
from k8sbench.model.baseline import Baseline
from k8sbench.model.explanation import FormatExplanation, GroupExplanation, RunExplanation
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Origin
from k8sbench.report.nodes import NodesDocument
from k8sbench.runs.live_metrics import RunTop
from k8sbench.runs.records import ListedRun, RunStatus
from tests.tiers import ROOT
from tests.unit.store.examples import OWNER, REJECTION, measurement, plan, step

FILE = ROOT / "k8sbench" / "schema" / "v2.json"
PAGE = ROOT / "docs" / "schema.md"
CATALOG_PAGE = ROOT / "docs" / "catalog.md"
DOCUMENTS: dict[str, Any] = {
    "k8sbench list -o json": list[ListedRun],
    "k8sbench status RUN -o json": RunStatus,
    "k8sbench top RUN --once -o json": RunTop,
    "k8sbench measure LOG -o json": list[Measurement],
    "k8sbench explain RUN -o json": RunExplanation,
    "k8sbench explain GROUP -o json": GroupExplanation,
    "k8sbench explain FILE.yaml -o json": FormatExplanation,
    "k8sbench nodes BENCH -o json": NodesDocument,
    "k8sbench images -o json": ImageList,
    "k8sbench pools -o json": PoolList,
    "k8sbench data list -o json": DataSetList,
    "k8sbench config show -o json": list[ShownSetting],
    "k8sbench store info -o json": StoreInfo,
    "k8sbench store check -o json": StoreReport,
    "k8sbench store rebuild -o json": StoreReport,
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
    "source.json": Origin,
    "imported.json": ImportedLogs,
    "k8sbench-export.json": Header,
    "digests.json": Digests,
    "pruned.json": Pruned,
    "baselines/NAME.json": Baseline,
}
OF_THE_CATALOG = {"NodePool", "Toleration", "Rdma", "Fingerprint", "LogFormat"}
"""Users write these; docs/catalog.md describes them."""
HEADING = re.compile(r"^## (\w+)$", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", re.MULTILINE)


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


def page() -> dict[str, dict[str, tuple[str, str]]]:
    """The page's tables: heading → key → (type, meaning)."""
    parts = HEADING.split(PAGE.read_text())[1:]
    return {
        name: {key: (kind, meaning) for key, kind, meaning in ROW.findall(text)}
        for name, text in zip(parts[::2], parts[1::2], strict=True)
        if name != "Phases"
    }


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
    if os.environ.get("K8SBENCH_UPDATE_GOLDEN"):
        FILE.write_text(made)
    assert FILE.read_text() == made, "renew it with: make golden"


def test_the_schema_file_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(FILE.read_text()))


def test_the_page_names_every_document() -> None:
    text = PAGE.read_text()
    for name in DOCUMENTS:
        assert name.split(",")[0].replace(" LOG", "") in text, name


def test_the_page_has_a_table_for_every_structure() -> None:
    assert set(page()) == set(components()) - OF_THE_CATALOG


@pytest.mark.parametrize("name", sorted(set(components()) - OF_THE_CATALOG))
def test_a_table_has_a_line_for_every_key_with_its_type(name: str) -> None:
    properties = components()[name]["properties"]
    rows = page()[name]
    assert {key: said for key, (said, _) in rows.items()} == {
        key: kind(schema) for key, schema in properties.items()
    }
    assert list(rows) == list(properties)


@pytest.mark.parametrize("name", sorted(set(components()) - OF_THE_CATALOG))
def test_a_table_says_when_a_key_is_null(name: str) -> None:
    silent = [
        key
        for key, (said, meaning) in page()[name].items()
        if "null" in said and "null" not in meaning
    ]
    assert silent == []


@pytest.mark.parametrize("name", sorted(OF_THE_CATALOG))
def test_what_users_write_is_described_with_the_catalog(name: str) -> None:
    text = CATALOG_PAGE.read_text()
    for key in components()[name]["properties"]:
        assert f"| `{key}` |" in text, f"{name}.{key}"


def test_the_page_names_every_phase() -> None:
    text = PAGE.read_text()
    assert all(f"`{phase}`" in text for phase in Phase)


def test_every_document_carries_its_version() -> None:
    for name in (
        "ListedRun",
        "RunStatus",
        "RunTop",
        "RunPlan",
        "Measurement",
        "RunRecord",
        "StoreInfo",
        "NodesDocument",
    ):
        assert components()[name]["properties"]["schema"]["default"] == SCHEMA == 2


def validate(document: str, value: Any) -> None:
    """Hold a real document against the schema file."""
    whole = json.loads(FILE.read_text())
    schema = whole["documents"][document] | {"$defs": closed(whole["$defs"])}
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)


def closed(definitions: dict[str, Any]) -> dict[str, Any]:
    """The same without room for keys that the schema does not name."""
    return {
        name: one | {"additionalProperties": False} if "properties" in one else one
        for name, one in definitions.items()
    }


@pytest.mark.slow
def test_real_documents_keep_to_the_schema(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    with open_store() as store:
        for number in (1, 2, 3):
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
    (tmp_path / "store" / "runs" / "seg-3" / "measurement.json").write_text("{")

    def printed(*words: str) -> Any:
        main(list(words))
        return json.loads(capsys.readouterr().out)

    validate("k8sbench list -o json", printed("list", "-o", "json"))
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
    validate("k8sbench store info -o json", printed("store", "info", "-o", "json"))
    validate("k8sbench store check -o json", printed("store", "check", "-o", "json"))
    validate("k8sbench store rebuild -o json", printed("store", "rebuild", "-o", "json"))


def test_the_empty_store_prints_documents_too(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    for words in (("list",), ("store", "info"), ("store", "check")):
        assert main([*words, "-o", "json"]) == 0
        validate(f"k8sbench {' '.join(words)} -o json", json.loads(capsys.readouterr().out))


def test_the_list_of_images_keeps_to_the_schema(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine = str(ROOT / "docs" / "examples" / "my-model.yaml")
    for words in ([], ["--image-registry", "registry.example/ai"], [mine]):
        assert main(["images", *words, "-o", "json"]) == 0
        said = json.loads(capsys.readouterr().out)
        validate("k8sbench images -o json", said)
        assert said["images"]


def test_the_schema_travels_with_the_package() -> None:
    import importlib.resources

    assert importlib.resources.files("k8sbench").joinpath("schema/v2.json").is_file()

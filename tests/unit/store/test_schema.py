"""``k8sbench schema``: JSON Schemas of documents and files, made from the types."""

import inspect
import json
import re
from pathlib import Path
from typing import Any, cast

import jsonschema
import msgspec
import pytest
import yaml

from k8sbench.app.data_sets import DataSetList
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.cli.commands.cluster import PoolList
from k8sbench.cli.commands.store import SCHEMAS
from k8sbench.cli.main import main
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.pool import PoolsFile
from k8sbench.model.run import Baseline
from k8sbench.operator.http import Artifact
from k8sbench.results.report.document import BaselineInfo, ListedRun, RunStatus
from k8sbench.store.exchange import ImportRecord, Pruned
from k8sbench.store.open_store import open_store
from k8sbench.store.run_folder import RunRecord, Wishes
from tests import packaged, struct_docs
from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.model.measurements import measurement
from tests.unit.store import schemas
from tests.unit.store.examples import PROCESS, REJECTION, plan, step

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
    "imported.json": ImportRecord,
    "pruned.json": Pruned,
    "baselines/NAME.json": Baseline,
}
FILES: dict[str, Any] = {"benchmark": BenchmarkSpec, "pools": PoolsFile}
ROOTS: dict[str, Any] = {"measurement": Measurement, **FILES}
"""Type of each schema of a single document."""
NAMES = ("documents", *ROOTS)
STORE_PAGE = ROOT / "docs" / "store.md"


def structs(*roots: Any) -> list[type[Any]]:
    """Return the classes of documents, with those of their fields."""
    met: dict[type[Any], None] = {}

    def visit(info: Any) -> None:
        if isinstance(info, msgspec.inspect.StructType) and info.cls not in met:
            met[info.cls] = None
            for field in info.fields:
                visit(field.type)
        for part in ("item_type", "item_types", "key_type", "value_type", "types", "type"):
            inner = getattr(info, part, ())
            for one in inner if isinstance(inner, tuple) else (inner,):
                visit(one)

    for root in roots:
        visit(msgspec.inspect.type_info(root))
    return list(met)


USERS_OWN = {found.__name__ for root in FILES.values() for found in structs(root)}
"""Structures that users write, and whose keys they may leave out."""


def made(name: str) -> dict[str, Any]:
    """Make a schema from the types; the string below a field describes it."""
    roots = list(DOCUMENTS.values()) if name == "documents" else [ROOTS[name]]
    found, components = msgspec.json.schema_components(roots, ref_template="#/$defs/{name}")
    for struct in structs(*roots):
        about = components[struct.__name__]
        about["description"] = plain(inspect.getdoc(struct) or "")
        keys = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
        for field, text in struct_docs.descriptions(struct).items():
            described = about["properties"][keys[field]]
            form = described.get("description")
            described["description"] = plain(text) + (f" It is {form}." if form else "")
    if name == "documents":
        root = {"documents": dict(zip(DOCUMENTS, found, strict=True))}
    else:
        (root,) = found
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"k8sbench {name}",
        **root,
        "$defs": components,
    }


def plain(text: str) -> str:
    """Return a docstring as text about JSON."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", " ".join(text.split()))
    return re.sub(r"\bNone\b", "null", text.replace("``", ""))


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_the_codes_golden(name: str) -> None:
    # \Z is Python's; JSON Schema's expressions are ECMAScript's.
    text = json.dumps(made(name), indent=1, ensure_ascii=False).replace("\\\\Z", "$")
    goldens.check(schemas.FOLDER / f"{name}.json", f"{text}\n")


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_command_prints_a_valid_schema_with_a_description_of_each_key(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", name]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(found)
    for struct, component in found["$defs"].items():
        for key, about in component.get("properties", {}).items():
            assert about.get("description") or "$ref" in about, key
            kinds = {each.get("type") for each in about.get("anyOf", ())}
            says_when = "null" in about.get("description", "") or struct in USERS_OWN
            assert "null" not in kinds or says_when, f"{struct}.{key}: when is it null?"


def test_every_document_carries_its_version() -> None:
    for name in ("ListedRun", "RunStatus", "RunPlan", "Measurement", "RunRecord"):
        found = schemas.printed("documents")["$defs"][name]["properties"]["schema"]
        assert found["default"] == SCHEMA == 2


@pytest.mark.parametrize("path", [*sorted(packaged.BENCHMARKS.glob("*.yaml"))], ids=str)
def test_a_benchmark_file_keeps_to_its_schema(path: Path) -> None:
    schemas.validate("benchmark", yaml.safe_load(path.read_text()))


def test_the_built_in_pools_keep_to_their_schema() -> None:
    text = packaged.POOLS.read_text()
    schemas.validate("pools", yaml.safe_load(text))


def documented_measurement() -> dict[str, Any]:
    """Return the example of docs/store.md."""
    (example,) = re.findall(r"```json\n(.*?)```", STORE_PAGE.read_text(), re.DOTALL)
    return cast(dict[str, Any], json.loads(example))


def test_the_documented_measurement_keeps_to_its_schema_and_is_read() -> None:
    example = documented_measurement()
    schemas.validate("measurement", example)
    found = msgspec.convert(example, Measurement)
    assert found.rate == 2560.0
    assert {name for name in found.missing if getattr(found, name) is not None} == set()


def test_the_schema_of_a_measurement_refuses_what_the_store_cannot_read() -> None:
    for change in ({"verdict": "good"}, {"iterations": "many"}, {"files": None}):
        with pytest.raises(jsonschema.ValidationError):
            schemas.validate("measurement", documented_measurement() | change)
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(documented_measurement() | change, Measurement)


@pytest.mark.slow
def test_real_documents_keep_to_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    with open_store() as store:
        for number in (1, 2, 3, 4):
            store.record(plan(f"seg-{number}", repeat=number), at=1e9 + number, process=PROCESS)
        store.move("seg-1", step(Phase.RUNNING))
        store.move("seg-1", step(Phase.SUCCEEDED))
        store.save_measurement("seg-1", measurement())
        store.move("seg-2", step(Phase.SUCCEEDED))
        store.save_measurement(
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

    def answer(*words: str) -> Any:
        main(list(words))
        return json.loads(capsys.readouterr().out)

    for where in ("none", "store"):
        listed = answer("list", "-o", "json", "--store", str(tmp_path / where))
        schemas.validate("documents", listed, "k8sbench list -o json")
    for number in (1, 2, 3):
        said = answer("status", f"seg-{number}", "-o", "json")
        schemas.validate("documents", said, "k8sbench status RUN -o json")
        folder = tmp_path / "store" / "runs" / f"seg-{number}"
        schemas.validate("documents", json.loads((folder / "run.json").read_text()), "run.json")
        for line in (folder / "events.jsonl").read_text().splitlines():
            schemas.validate("documents", json.loads(line), "events.jsonl, each line")
        if number < 3:
            kept = json.loads((folder / "measurement.json").read_text())
            schemas.validate("documents", kept, "measurement.json")
            schemas.validate("documents", [kept], "k8sbench measure LOG -o json")

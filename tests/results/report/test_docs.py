"""``docs/results.md`` names every reason, id and field that there is."""

import json
import re

import msgspec

from k8sbench.results.report import document
from tests.results.groups.sides import NOT_COMPARABLE
from tests.results.report import example
from tests.tiers import ROOT
from tests.unit.store import schemas

PAGE = (ROOT / "docs" / "results.md").read_text()


def test_the_page_explains_every_id_and_no_other() -> None:
    explained = set(re.findall(r"^\| `([a-z][a-z0-9-]*)` \|", PAGE, re.MULTILINE))
    fields = {name for name in explained if name in ("state", "published", "missing")}
    assert explained - fields == {*NOT_COMPARABLE}


def test_every_field_of_the_csv_is_explained() -> None:
    header, _ = document.flat(example.made().results)
    known = schemas.printed("results")["$defs"]["Row"]["properties"]
    for name in {*header} - {*known}:
        generic = re.sub(r"^(published|deviation) \w+", r"\1 SOURCE", name)
        assert f"`{generic}`" in PAGE, name


def test_the_documents_of_results_keep_to_their_schema() -> None:
    made = example.made()
    found = msgspec.json.encode(document.document(made.results, made.parities))
    example_report = (ROOT / "docs/examples/report/results.json").read_bytes()
    for text in (found, example_report):
        schemas.validate("results", json.loads(text))

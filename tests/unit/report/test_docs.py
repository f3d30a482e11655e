"""``docs/results.md`` names every reason, id and field that there is."""

import re

from k8sbench.report import document
from tests.tiers import ROOT
from tests.unit.measure.support import NOT_COMPARABLE
from tests.unit.report import example

PAGE = (ROOT / "docs" / "results.md").read_text()


def test_the_page_explains_every_id_and_no_other() -> None:
    start = PAGE.index("## What makes two runs the same case")
    ids = PAGE[:start] + PAGE[PAGE.index("\n## ", start) :]
    explained = set(re.findall(r"^\| `([a-z][a-z0-9-]*)` \|", ids, re.MULTILINE))
    fields = {name for name in explained if name in ("state", "published", "missing")}
    assert explained - fields == {*NOT_COMPARABLE}


def test_every_field_of_a_row_and_of_the_csv_is_explained() -> None:
    made = example.made()
    rows = document.document(made.results, made.parities)["rows"]
    header, _ = document.flat(made.results)
    for name in {*rows[0], *header}:
        generic = re.sub(r"^(published|deviation) \w+", r"\1 SOURCE", name)
        assert f"`{generic}`" in PAGE.replace("deviation\nSOURCE", "deviation SOURCE"), name

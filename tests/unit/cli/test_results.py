"""``k8sbench results``: what it prints where, what it refuses, what it imports."""

import csv
import io
import json

from tests.results.report import example
from tests.results.report.factory import START, repeats, run
from tests.unit.cli.conftest import Fill, Typed


def test_runs_are_named_by_ids_or_beginnings_of_them(fill: Fill, typed: Typed) -> None:
    new, old = repeats([100.0, 101.0, 102.0]), run(90.0, set_name="old", run_id="aged", at=START)
    fill([*new, old])

    def rows(*words: str) -> list[list[str]]:
        code, out, err = typed("results", *words, "-o", "json")
        found = json.loads(out)["rows"]
        assert (code, bool(err)) == (0, not found)
        return [[one["run_id"] for one in row["members"]] for row in found]

    # A row of an older set, too; a run's row is that of all repeats of its case.
    assert rows("aged") == rows("ag") == [["aged"]]
    group = [one.run_id for one in new]
    assert rows(group[1]) == [group]
    assert sorted(rows("aged", *group)) == sorted([["aged"], group])


def test_every_format_comes_from_the_same_rows(fill: Fill, typed: Typed) -> None:
    fill(example.runs())
    document = json.loads(typed("results", "-o", "json")[1])
    assert document["schema"] == 2
    lines = list(csv.DictReader(io.StringIO(typed("results", "-o", "csv")[1])))
    assert [line["group"] for line in lines] == [row["group"] for row in document["rows"]]
    assert typed("results", "-o", "markdown")[1].startswith("| benchmark | framework | case |")
    as_reports = typed("results", "-o", "report")[1]
    assert "\n| gpu_num_per_node | batch_size_per_device | samples/s(PyTorch) | " in as_reports
    assert "TFLOP/s PER GPU" in typed("results", "-o", "wide")[1]


def test_accept_overrules_by_id(fill: Fill, typed: Typed) -> None:
    fill(repeats([100.0, 101.0, 40.0]))
    assert "2/3" in typed("results")[1]
    code, out, err = typed("results", "--accept", "outlier")
    assert (code, err) == (0, "")
    assert "3/3" in out
    assert "accepted: outlier" in out


def test_an_entry_that_the_catalog_has_not_is_said_and_not_fatal(fill: Fill, typed: Typed) -> None:
    fill([run(100.0, benchmark="mine", spec_source="gone/mine.yaml")])
    code, out, err = typed("results", "--published")
    assert code == 0
    assert "no catalog entry mine in gone/mine.yaml" in out
    assert "gone/mine.yaml" in err

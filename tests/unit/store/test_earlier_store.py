"""A store of an earlier release answers as that release did.

``fixtures/stores/0.5.0.json`` is a store that the code of 0.5.0 wrote, but for its index, and what
its commands printed: ten nights of two cases, one with an open change and one whose level was
accepted, a baseline, two imported logs and two observed jobs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.model.plan import RunPlan
from k8sbench.store.run_folder import RunFolder
from tests.tiers import ROOT
from tests.unit.command_line import Cli

KEPT = json.loads((ROOT / "tests/fixtures/stores/0.5.0.json").read_text())
PRINTED: dict[str, Any] = KEPT["answers"]
GROUPS: dict[str, dict[str, Any]] = PRINTED["groups"]


def of_operator(name: str, text: str) -> str:
    """Return a file of the store as an operator in namespace team-a wrote it."""
    document = json.loads(text)
    runs = document["runs"] if name.startswith("baselines/") else [document]
    for run in runs if {"plan", "runs"} & document.keys() else ():
        if run["plan"]["backend"] not in {"imported", "observed"}:
            run["plan"] |= {"requested_by": "0b5f6c1e", "object_name": "night"}
            if run is document:
                run["location"] = {"server": "https://192.0.2.1", "namespace": "team-a"}
    return json.dumps(document)


@pytest.fixture(params=["submit", "operator"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the store's files; commands read it.

    An operator wrote the same, but for the place of the runs: keys had no namespace.
    """
    for name, text in KEPT["files"].items():
        path = tmp_path / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        is_of_operator = request.param == "operator" and name.endswith(".json")
        path.write_text(of_operator(name, text) if is_of_operator else text)
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def rows(cli: Cli, *words: str) -> list[dict[str, Any]]:
    """Return the rows of ``results``."""
    found: list[dict[str, Any]] = cli.json("results", *words, "-o", "json")["rows"]
    return found


@pytest.mark.usefixtures("store")
def test_it_has_the_same_runs_and_figures(cli: Cli) -> None:
    assert [row["run_id"] for row in cli.json("list", "-o", "json")] == PRINTED["runs"]
    found = {
        (row["benchmark"], row["case"], row["set"]): (row["throughput"], row["state"])
        for row in rows(cli, "--all")
    }
    assert found == {
        (group["benchmark"], group["case"], group["set"]): (group["throughput"], group["state"])
        for group in GROUPS.values()
    }


def test_its_imported_and_observed_runs_have_facts_and_no_plan(store: Path) -> None:
    unplanned = 0
    for folder in sorted((store / "runs").iterdir()):
        plan = msgspec.convert(json.loads((folder / "run.json").read_text())["plan"], RunPlan)
        run = RunFolder(folder).run()
        has_namespace = plan.is_asked_of_operator
        assert run.plan == msgspec.structs.replace(
            plan, namespace="team-a" if has_namespace else None
        )
        assert (run.planned is None) == (plan.backend in {"imported", "observed"})
        RunFolder(folder).save(run)
        written = json.loads((folder / "run.json").read_text())
        assert (written["plan"] is None, written["facts"] is not None) == 2 * (run.planned is None,)
        assert RunFolder(folder).run() == run
        unplanned += run.planned is None
    assert unplanned == 4


@pytest.mark.usefixtures("store")
def test_each_group_id_that_it_printed_names_its_group(cli: Cli) -> None:
    for group_id, group in GROUPS.items():
        assert group["set"] in cli("explain", group_id).out
    valid = {name: one for name, one in GROUPS.items() if one["state"] == "valid"}
    for group_id in valid:
        cli("baseline", "save", group_id, group_id)
    named = {}
    for saved in cli.json("baseline", "list", "-o", "json"):
        named[saved["name"]] = (saved["sets"], saved["benchmarks"])
    del named["before"]
    assert len(valid) == 23
    assert named == {name: ([one["set"]], [one["benchmark"]]) for name, one in valid.items()}


@pytest.mark.usefixtures("store")
def test_what_was_open_is_open_and_what_was_accepted_is_not(cli: Cli) -> None:
    changes = cli.json("history", "-o", "json")["changes"]
    found = {(one["case"], one["mark"], one["since"], one["open"]) for one in changes}
    printed = PRINTED["history"]
    assert found == {(one["case"], one["mark"], one["since"], one["open"]) for one in printed}


@pytest.mark.usefixtures("store")
def test_its_baseline_is_part_of_its_series(cli: Cli) -> None:
    """An operator's baseline of 0.5 has no namespace, and the sets of its series have one."""
    compared = cli.json("compare", "before", "night-9", "-o", "json", code=None)["cases"]
    sets = cli.json("compare", "night-1", "night-9", "-o", "json", code=None)["cases"]
    assert [case["earlier_sets"] for case in compared] == [case["earlier_sets"] for case in sets]
    assert all(case["earlier_sets"] for case in compared)
    assert [case["open"] for case in compared] == [case["open"] for case in sets]
    assert any(case["open"] for case in compared)


@pytest.mark.usefixtures("store")
def test_its_baseline_is_compared_with_its_sets(cli: Cli) -> None:
    assert [one["name"] for one in cli.json("baseline", "list", "-o", "json")] == ["before"]
    compared = cli.json("compare", "before", "night-9", "-o", "json", code=None)
    found = [(one["case"], one["finding"], one["ratio"]) for one in compared["cases"]]
    assert found == [(one["case"], one["finding"], one["ratio"]) for one in PRINTED["compared"]]

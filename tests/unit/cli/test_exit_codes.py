"""Exit codes of commands that handle several runs."""

import pathlib
import re
from typing import Any

import msgspec
import pytest

from k8sbench.app import results
from k8sbench.app.results import RunRows
from k8sbench.cli import rows as exit_codes
from k8sbench.model import creation
from k8sbench.model import errors as errors_module
from k8sbench.model.errors import (
    BenchError,
    CreationUnknown,
    NoRoom,
    StoreError,
    Unreachable,
)
from k8sbench.results.groups.selection import Report
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from tests.results.report.factory import repeats
from tests.tiers import ROOT
from tests.unit.cli.conftest import Fill
from tests.unit.cli.live_runs import NOW, ended, run
from tests.unit.model.measurements import measurement


def test_the_page_lists_every_exit_code_and_their_order() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    errors = {
        error.exit_code
        for error in vars(errors_module).values()
        if isinstance(error, type) and issubclass(error, BenchError)
    }
    assert set(listed) == {*exit_codes.ORDER, *errors}
    assert f"applies: {', '.join(map(str, exit_codes.ORDER))}." in page


@pytest.mark.parametrize(
    ("mode", "figures", "code"),
    [
        ("train", {}, 0),
        ("train", {"target": 75.0, "time_to_train_s": 3600.0}, 0),
        ("train", {"target": 75.0, "time_to_train_s": None}, 8),
        ("benchmark", {"target": 75.0, "time_to_train_s": None}, 0),
        ("train", {"target": 75.0, "time_to_train_s": None, "verdict": "rejected"}, 5),
    ],
)
def test_a_missed_target_has_a_code(mode: Any, figures: dict[str, Any], code: int) -> None:
    measured = ended(run(mode=mode), measurement=measurement(**figures))
    assert exit_codes.code_of_run(measured) == code


def test_the_worst_counts() -> None:
    unreadable = StoreError("The file cannot be read.")
    assert exit_codes.code_of_failures([]) == 0
    assert exit_codes.code_of_failures([unreadable]) == BenchError.exit_code == 1
    # A slow node counts more than a failed run and less than a cluster that is not ready.
    assert (exit_codes.worst_code([3, 7, 5]), exit_codes.worst_code([6, 7])) == (7, 6)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (NoRoom("The quota is full."), 3),
        (Unreachable("The operator does not run."), 6),
        (CreationUnknown("Whether the job exists is not known."), 6),
    ],
)
def test_a_refusal_among_runs_that_were_measured_has_a_code(wrong: BenchError, code: int) -> None:
    valid = ended(run(), measurement=measurement())
    refused = msgspec.structs.replace(
        run(), history=(creation.creation_failed("seg-1", wrong, NOW),)
    )
    rows = RunRows(
        runs=(valid, refused),
        report=Report(results=(), parities=()),
        rejected=frozenset(),
        refusals=(wrong,),
    )
    assert exit_codes.code_of_rows(rows) == code
    alone = msgspec.structs.replace(rows, runs=(valid,), refusals=())
    assert exit_codes.code_of_rows(alone) == 0


@pytest.mark.parametrize(("rates", "code"), [([100.0, 101.0], 0), ([100.0, 130.0], 5)])
def test_runs_that_are_far_apart_have_the_code_of_rejected_ones(
    fill: Fill, root: pathlib.Path, rates: list[float], code: int
) -> None:
    fill(repeats(rates))
    with open_store(str(root)) as store:
        runs = store.runs(RunFilter())
        rows = results.rows(store, runs, print)
    assert rows.rejected == {one.run_id for one in runs if code}
    assert exit_codes.code_of_rows(rows) == code


def test_a_valid_run_that_its_group_rejects_has_the_code_of_a_rejected_one() -> None:
    valid = ended(run(), measurement=measurement())
    rows = RunRows(
        runs=(valid,),
        report=Report(results=(), parities=()),
        rejected=frozenset({valid.run_id}),
        refusals=(),
    )
    assert exit_codes.code_of_rows(rows) == 5

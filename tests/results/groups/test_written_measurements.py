"""Results meet the reader in ``measurement.json``: whoever writes it, its run has its row."""

import json
from pathlib import Path
from typing import Any

import pytest

from k8sbench.model.errors import StoreError
from k8sbench.model.group import Result
from k8sbench.results.groups.speedup import results
from k8sbench.store.run_folder import RunFolder
from tests.results.groups.grouped import grouped
from tests.results.report import factory

DOCUMENT = """{
  "schema": 2, "files": ["master-0.log"], "format": "own", "impl": "own",
  "framework": "pytorch", "gpus": 8, "precision": "fp32", "precision_effective": "fp32",
  "batch_size_per_gpu": 128, "warmup_iterations": 20, "iterations": 100, "records": 100,
  "throughput": {"time_weighted": RATE, "time_weighted_steady": RATE, "median": RATE,
                 "arithmetic": RATE, "timestamps": RATE, "unit": "images/s"},
  "final_loss": null, "accuracy": null, "time_to_train_s": null, "train_wall_s": null,
  "environment": {}, "verdict": "valid", "reasons": []
}"""
"""All fields that the document must have."""


def written(rate: float, **changes: Any) -> str:
    """Write the document by hand."""
    return json.dumps(json.loads(DOCUMENT.replace("RATE", str(rate))) | changes)


def rows(root: Path, *documents: str) -> list[Result]:
    """Make the rows of runs whose measurements somebody else wrote."""
    runs = []
    for number, document in enumerate(documents, 1):
        run = factory.run(repeat=number)
        folder = RunFolder(root / run.run_id)
        folder.save(run)
        (folder.path / "measurement.json").write_text(document)
        runs.append(folder.run())
    known = grouped(runs)
    return results(known.groups(known.rows))


def test_two_runs_of_one_case_are_one_row(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, written(100.0), written(102.0))
    spread = row.group.spread
    assert spread is not None
    assert (row.group.counted, spread.median, row.group.unit) == (2, 101.0, "images/s")


def test_a_rejected_one_stays_in_the_row_and_does_not_count(tmp_path: Path) -> None:
    reason = {"id": "gpu-count", "severity": "reject", "message": "Its log states 2 GPUs."}
    bad = written(50.0, verdict="rejected", reasons=[reason], throughput=None)
    (row,) = rows(tmp_path, written(100.0), bad, written(102.0))
    assert (row.group.counted, len(row.group.members)) == (2, 3)
    assert [reason.id for reason in row.group.members[1].reasons] == ["gpu-count"]


def test_a_document_of_a_later_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        rows(tmp_path, written(100.0, schema=3))

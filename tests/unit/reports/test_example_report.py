"""The report in docs/examples/report is what the product writes from invented logs."""

import os
import shutil
from pathlib import Path

import pytest

import k8sbench
from k8sbench.app import connections
from k8sbench.cli.main import main
from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.reports import published_logs as logs

FOLDER = ROOT / "docs" / "examples" / "report"
RATES = {(1, False): 4.1, (8, False): 29.9, (1, True): 8.4, (8, True): 57.9}
"""GPUs and whether AMP was on → samples/s."""


def imported(place: Path) -> None:
    """Import three invented logs of each case."""
    for (gpus, amp), rate in RATES.items():
        name = f"gpu{gpus}_{'amp' if amp else 'fp32'}"
        for repeat in (1, 2, 3):
            text = logs.mmseg(
                gpus,
                rate * (1 + 0.003 * (repeat - 2)),
                4 if amp else 2,
                amp=amp,
                waits=0.12 if (gpus, amp) == (8, True) else 0.0,
                iterations=400,
                day=repeat,
            )
            (place / f"{name}_{repeat}.log").write_text(text)
        words = ["--benchmark", "deeplabv3p", "--case", f"1x{gpus}", "--set", "example"]
        files = [str(place / f"{name}_{repeat}.log") for repeat in (1, 2, 3)]
        assert main(["import", *files, *words]) == 0


def test_the_example_report_is_the_golden_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(connections, "now", lambda: logs.START)
    monkeypatch.setattr(k8sbench, "__version__", "0.5.1")
    imported(tmp_path)
    made = tmp_path / "report"
    words = ["--title", "Example of a report", "--published"]
    for option in ("environment.yaml", "notes.md"):
        words += [f"--{option.partition('.')[0]}", str(FOLDER / option)]
    assert main(["report", "example", "-o", str(made), *words]) == 0
    paths = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    if os.environ.get("K8SBENCH_UPDATE_GOLDEN"):
        shutil.copytree(made, FOLDER, dirs_exist_ok=True)
    assert paths == {str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*") if p.is_file()}
    for path in sorted(paths):
        goldens.check(FOLDER / path, (made / path).read_text("utf-8"))

"""The corpus' TensorFlow log becomes a run by the example file of docs/logs.md."""

import json
from pathlib import Path

import pytest

from k8sbench.cli.main import main
from tests.corpus import index
from tests.tiers import ROOT

BENCHMARK = ROOT / "docs" / "examples" / "tensorflow" / "benchmark.yaml"


def test_the_published_tensorflow_log_is_imported_with_all_that_it_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path))
    (row,) = (row for row in index.rows() if "TensorFlow" in row.program)
    assert main(["import", str(row.path), "--benchmark", str(BENCHMARK), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["rows"]
    assert (found["case"], found["precision"], found["batch_size_per_gpu"]) == ("1x1", "amp", 256)
    # Of its last 290 iterations; the program's own summary, of the last 300, is 0.1 % above.
    assert found["throughput"] == pytest.approx(row.time_weighted, rel=0.002)

"""A report from public logs states what the logs say, nothing else."""

from pathlib import Path

import pytest

from k8sbench.cli.main import main
from tests.corpus import index

LOGS = {
    "airank_pytorch_samples_deeplabv3plus__GPUx1.log": ("--benchmark", "deeplabv3p"),
    "DeepLabV3P__paddle__Deeplabv3_FP32_BS4-N1.log": (
        *("--benchmark", "deeplabv3p", "--batch-size", "4", "--precision", "fp32"),
    ),
    "airank_pytorch_samples_tsm__GPUx1_AMP.log": (
        *("--benchmark", "tsm", "--case", "1x1", "--precision", "amp", "--batch-size", "16"),
    ),
    "airank_pytorch_samples_resnet50__GPUx1_time2train_ips.log": (
        *("--benchmark", "resnet50", "--batch-size", "256"),
    ),
}
"""Beginning of a log's name → options of its import."""


def test_public_logs_make_a_report_of_their_own_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    for name, options in LOGS.items():
        (row,) = (row for row in index.rows() if row.file.startswith(name))
        words = ("--set", "public", "--gpu-model", "Tesla V100-SXM2-32GB")
        assert main(["import", row.path, *options, *words]) == 0, name
    folder = tmp_path / "report"
    assert main(["report", "public", "-o", str(folder), "--published"]) == 0
    text = (folder / "README.md").read_text("utf-8")
    facts, _, rest = text.partition("## How to repeat this with the published program")
    for stated in ("mmsegmentation 0.11.0+d0a71c1", "PaddleSeg", "DeepLearningExamples"):
        assert stated in facts
    for known in ("5cc03caa", "318dd24c", "450.80.02"):
        assert known in rest
        assert known not in facts
    assert "in the log: CityscapesDataset, by the catalog Cityscapes" in facts
    assert "iterations 51 to 750 of the log" in rest
    assert "449900 iterations, one every 100 iterations. 406 more iterations are in no log" in rest
    assert "in no log line that counts. 90 evaluations." in rest
    assert "76.63" in rest
    assert "48.188 (unfinished)" in rest
    assert "date not stated" in rest

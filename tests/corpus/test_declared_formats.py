"""The corpus' logs of other programs, read by formats as a catalog file would declare them."""

from __future__ import annotations

import pytest

from k8sbench.adapters.log_files import LogFile
from k8sbench.measure.expectation import Expectation
from k8sbench.measure.measuring import measure
from k8sbench.model.spec import LogFormat
from tests.corpus import index
from tests.corpus.index import Row

OTHERS = [row for row in index.rows() if row.family is None]
FORMATS = {
    "BERT base / PaddlePaddle (PaddleNLP)": LogFormat(
        name="bert-paddlenlp",
        unit="sequences",
        per="card",
        record=(
            r"(?:global|total|tobal) step:? (?P<iteration>\d+), epoch: \d+, batch: \d+, "
            r"loss: (?P<loss>[\d.]+),.* ips: (?P<rate>[\d.]+) sequences/s"
        ),
    ),
    "Transformer big / PaddlePaddle (PaddleNLP)": LogFormat(
        name="transformer-paddlenlp",
        unit="tokens",
        per="card",
        record=(
            r"step_idx: (?P<iteration>\d+), epoch: \d+, batch: \d+, "
            r"avg loss: (?P<loss>[\d.]+),.*ips: (?P<rate>[\d.]+)"
        ),
    ),
    "Transformer big / PyTorch (NVIDIA DeepLearningExamples)": LogFormat(
        name="transformer-dle",
        unit="tokens",
        per="job",
        record=(
            r"Transformer \| epoch (?P<epoch>\d+) \| step (?P<iteration>\d+) "
            r"\|avg loss (?P<loss>[\d.]+) \|avg tokens [\d.]+ \|tokens/s (?P<rate>[\d.]+)"
        ),
    ),
    "BERT base / PyTorch (NVIDIA DeepLearningExamples)": LogFormat(
        name="bert-dle",
        unit="sequences",
        per="job",
        summary=(
            r"training_sequences_per_second : (?P<rate>[\d.]+) sequences/s "
            r"final_loss : (?P<loss>[\d.]+)"
        ),
    ),
    "ResNet50 v1.5 / TensorFlow (NVIDIA DeepLearningExamples)": LogFormat(
        name="resnet50-tf",
        unit="images",
        per="job",
        summary=r"train_throughput : (?P<rate>[\d.]+) images/s",
    ),
    "ResNet50 v1.5 / MXNet (NVIDIA DeepLearningExamples)": LogFormat(
        name="resnet50-mxnet",
        unit="images",
        per="job",
        summary=r"^ +\d+ +\| +(?P<rate>[\d.]+) +\|$",
    ),
}


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.file)
def test_a_declared_format_gives_the_figures_of_the_table(row: Row) -> None:
    expected = Expectation(
        format=FORMATS[row.program], gpus=row.gpus, batch_size=row.batch, warmup=row.warmup
    )
    found = measure([LogFile(row.path)], expected)
    assert found.verdict == "valid"
    assert found.throughput is not None
    assert found.impl == "user"
    assert found.throughput.time_weighted == pytest.approx(row.time_weighted, rel=0.005)
    if row.records is None:
        assert [each.id for each in found.reasons] == ["summary-only"]
        assert found.throughput.median is None
        return
    assert found.records == row.records
    assert found.throughput.median == pytest.approx(row.median, rel=0.005)
    assert found.throughput.arithmetic == pytest.approx(row.arithmetic, rel=0.005)

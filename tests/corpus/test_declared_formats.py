"""The corpus' logs of other programs, read by the formats that ``docs/examples`` declares."""

import pytest

from k8sbench.catalog import spec_files
from k8sbench.model.log_format import LogFormat
from k8sbench.reader.log_files import LogFile
from k8sbench.reader.measuring.expectation import from_variant
from k8sbench.reader.measuring.measuring import measure
from tests.corpus import index
from tests.corpus.index import Row
from tests.tiers import ROOT

FOLDER = ROOT / "docs" / "examples"
OTHERS = [row for row in index.rows() if row.family is None]
DECLARED = {
    ("BERT base / PaddlePaddle (PaddleNLP)", "fp32"): ("bert-paddlenlp", "fp32"),
    ("BERT base / PaddlePaddle (PaddleNLP)", "amp"): ("bert-paddlenlp", "amp"),
    ("BERT base / PyTorch (NVIDIA DeepLearningExamples)", "amp"): ("bert-dle", "base"),
    ("Transformer big / PaddlePaddle (PaddleNLP)", "fp32"): ("transformer", "paddlenlp"),
    ("Transformer big / PyTorch (NVIDIA DeepLearningExamples)", "fp32"): ("transformer", "dle"),
    ("ResNet50 v1.5 / TensorFlow (NVIDIA DeepLearningExamples)", "amp"): (
        "resnet50-tensorflow",
        "tensorflow",
    ),
    ("ResNet50 v1.5 / MXNet (NVIDIA DeepLearningExamples)", "amp"): ("resnet50-mxnet", "mxnet"),
}
"""Program and precision in the table → example file and variant."""
NO_PUBLIC_LOG = {"my-model"}


def key(row: Row) -> tuple[str, str]:
    return row.program, "fp32" if row.precision == "fp32" else "amp"


LIMITED = {"Transformer big / PaddlePaddle (PaddleNLP)"}
"""Programs whose steps have fewer tokens than the batch, so that rates seem to claim more time."""
UNVERIFIED = {"gpus-unverified", "batch-unverified", "precision-unverified"}


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.file)
def test_a_log_measured_with_its_example_file_gives_the_figures_of_the_table(row: Row) -> None:
    name, variant = DECLARED[key(row)]
    spec = spec_files.load_spec(_path(name)).spec
    (chosen,) = (each for each in spec.variants if each.name == variant)
    expected = from_variant(
        spec, chosen, gpus=row.gpus, precision=key(row)[1], warmup=row.warmup or None
    )
    found = measure([LogFile(row.path)], expected)
    # The logs are of one GPU, where both are one: PaddleNLP alone prints the rate of a card.
    assert isinstance(chosen.log, LogFormat)
    assert chosen.log.per == ("card" if "PaddleNLP" in row.program else "job")
    assert found.verdict == "valid"
    assert found.throughput is not None
    assert found.impl == "user"
    assert found.batch_size_per_gpu == row.batch
    assert found.throughput.unit == f"{spec.unit}/s"
    assert found.throughput.time_weighted == pytest.approx(row.time_weighted, rel=0.005)
    # A log that does not state a value has a warning of it.
    others = [each.id for each in found.reasons if each.id not in UNVERIFIED]
    if row.records is None:
        assert others == ["summary-only"]
        assert found.throughput.median is None
        return
    assert others == (["clocks-apart"] if row.program in LIMITED else [])
    assert (found.iterations, found.records) == (row.iterations, row.records)
    assert found.final_loss == pytest.approx(row.final_loss, rel=0.001)
    assert found.throughput.median == pytest.approx(row.median, rel=0.005)
    assert found.throughput.arithmetic == pytest.approx(row.arithmetic, rel=0.005)


def test_every_example_of_another_program_is_held_against_a_log_of_it() -> None:
    examples = {path.stem for path in FOLDER.glob("*.yaml")} - NO_PUBLIC_LOG
    assert {DECLARED[key(row)][0] for row in OTHERS} == examples
    variants = {(s, v.name) for s in examples for v in spec_files.load_spec(_path(s)).spec.variants}
    assert {DECLARED[key(row)] for row in OTHERS} == variants


def _path(name: str) -> str:
    return str(FOLDER / f"{name}.yaml")

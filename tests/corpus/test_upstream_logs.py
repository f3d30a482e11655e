"""The corpus' logs of the five published programs, measured by an ``--impl upstream`` plan."""

import pytest

from k8sbench.model.spec_values import Framework
from k8sbench.reader.log_files import LogFile
from k8sbench.reader.measuring.expectation import from_plan
from k8sbench.reader.measuring.measuring import measure
from tests.corpus import index
from tests.corpus.index import Row
from tests.unit.presence import present
from tests.unit.render.plans import upstream

PROGRAMS: dict[str, tuple[str, Framework]] = {
    "DeepLabV3P / PyTorch (mmsegmentation)": ("deeplabv3p", "pytorch"),
    "DeepLabV3P / PaddlePaddle (PaddleSeg)": ("deeplabv3p", "paddle"),
    "ResNet50 v1.5 / PyTorch (NVIDIA DeepLearningExamples)": ("resnet50", "pytorch"),
    "TSM / PyTorch (temporal-shift-module)": ("tsm", "pytorch"),
}
"""The table's name of a program → benchmark and framework."""
PLSC = index.PROGRAM_LOGS / "plsc18-1p.log"
ROWS = [
    row
    for row in index.rows()
    if row.program in PROGRAMS
    # Its report has no AMP run, so there is no plan of one.
    and (row.precision == "fp32" or PROGRAMS[row.program][0] != "resnet50")
]


def test_there_is_a_log_of_every_program() -> None:
    assert {row.program for row in ROWS} == set(PROGRAMS)


@pytest.mark.skipif(not PLSC.is_file(), reason="no logs of the programs themselves")
def test_the_plan_of_arcface_reads_the_real_log_of_plsc() -> None:
    """Two pictures a step; ten steps behind the third, by their rates."""
    plan = upstream("arcface", "paddle", "1x1", "fp32", batch_sizes=(2,), warmup=3, iterations=10)
    found = measure([LogFile(str(PLSC))], from_plan(plan))
    assert (found.verdict, found.iterations, found.impl) == ("valid", 10, "upstream")
    assert present(found.throughput).time_weighted == pytest.approx(0.467, abs=5e-4)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.file)
def test_the_plan_reads_the_real_log_and_gives_the_figure_of_the_table(row: Row) -> None:
    plan = upstream(
        *PROGRAMS[row.program],
        f"1x{row.gpus}",
        "fp32" if row.precision == "fp32" else "amp",
        batch_sizes=(row.batch,),
        warmup=row.warmup,
        iterations=row.iterations,
    )
    found = measure([LogFile(row.path)], from_plan(plan))
    assert [each.id for each in found.reasons if each.severity == "reject"] == []
    assert found.impl == "upstream"
    assert found.throughput is not None
    assert found.throughput.time_weighted == pytest.approx(row.time_weighted, rel=0.005)
    assert found.records >= 0.9 * (row.records or 0)

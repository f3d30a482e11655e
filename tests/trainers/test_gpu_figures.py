"""The program that measures on a GPU, without one: its rows."""

import importlib
import importlib.metadata
from unittest import mock

import pytest

from tests.gpu_figures.rows import Case, cases
from tests.trainers.runs import import_paddle

CASES = {f"{case.name} {case.precision}": case for case in cases()}


@pytest.mark.tier("frameworks")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_trainers_accept_their_rows_options(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    framework = case.variant["framework"]
    if framework == "paddle":
        import_paddle()
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")  # a trainer sets it, for a process of its own
    module = importlib.import_module(f"k8sbench.trainers.{case.module}")
    loop = {"pytorch": "torch_session", "paddle": "paddle_session"}[framework]
    parts = importlib.import_module(f"k8sbench.trainers.parts.{loop}")
    with mock.patch.object(parts, "train") as train:
        module.main(case.command()[2:])
    _, common = train.call_args.args
    assert (common.benchmark, common.variant) == (case.benchmark, case.variant["name"])
    assert (common.precision.upper(), common.device) == (case.precision, "cuda")
    assert (common.warmup, common.iterations) == case.steps
    assert case.steps == (20, 50)

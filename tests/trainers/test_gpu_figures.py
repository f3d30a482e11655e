"""The program that measures on a GPU, without one: what it starts, prints and leaves behind."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
from unittest import mock

import pytest

from tests.gpu_figures.bounded import ROOT
from tests.gpu_figures.rows import Case, cases
from tests.trainers.runs import import_paddle

CASES = {f"{case.name} {case.precision}": case for case in cases()}
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


# Rows


@pytest.mark.tier("frameworks")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_trainer_understands_the_options_of_its_row(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = case.variant["framework"]
    if framework == "paddle":
        import_paddle()
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")  # a trainer sets it, for a process of its own
    module = importlib.import_module(f"k8sbench.trainers.{case.module}")
    loop = {"pytorch": "torch_loop", "paddle": "paddle_loop"}[framework]
    parts = importlib.import_module(f"k8sbench.trainers.parts.{loop}")
    with mock.patch.object(parts, "train") as train:
        module.main(case.command()[3:])
    _, common = train.call_args.args
    assert (common.benchmark, common.variant) == (case.benchmark, case.variant["name"])
    assert (common.precision.upper(), common.device) == (case.precision, "cuda")
    assert (common.warmup, common.iterations) == case.steps
    assert case.steps == (20, case.variant["window"]["iterations"])


# All of it

LACKING = """
import os, sys
from importlib.machinery import PathFinder

class Lacking(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        here = name.partition(".")[0] not in {lacking!r}
        return super().find_spec(name, path, target) if here else None

sys.meta_path = [Lacking if finder is PathFinder else finder for finder in sys.meta_path]
if "k8sbench.trainers.resnet50" in sys.orig_argv and "fp16" in sys.orig_argv:
    sys.stderr.write({failure!r})
    os._exit(1)
"""
"""Python's start on a machine without some packages, where ResNet-50 in AMP is out of memory."""


def rehearse(
    folder: pathlib.Path, lacking: set[str], *words: str
) -> subprocess.CompletedProcess[str]:
    """Run it on the CPU, on a machine without these modules."""
    program = LACKING.format(lacking=lacking, failure=f"Traceback\n{OUT_OF_MEMORY}\n")
    (folder / "sitecustomize.py").write_text(program)
    command = [sys.executable, "-m", "tests.gpu_figures", str(folder / "figures.md"), *words]
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )


ABSENT = {
    *("PIL", "hypothesis", "matplotlib", "paddle", "prometheus_client", "psycopg", "pytest_cov"),
    *("pytest_timeout", "rich", "starlette", "urllib3", "uvicorn", "xdist"),
}
"""Modules that a machine with a GPU need not have."""


@pytest.mark.soak
@pytest.mark.tier("frameworks")
@pytest.mark.timeout(600)  # the program's own limit is 520 s
def test_a_rehearsal_prints_and_writes_all_parts_and_ends_with_their_combined_code(
    tmp_path: pathlib.Path,
) -> None:
    """A row that is out of memory ends neither its table nor what comes after it."""
    ended = rehearse(tmp_path, ABSENT, "--rehearse", "--only", "resnet50")
    text = ended.stdout
    assert (ended.returncode, ended.stderr) == (1, ""), text
    assert (tmp_path / "figures.md").read_text() == text
    assert "Not measured: paddle: not installed" in text
    plain, amp = re.findall(r"^\| resnet50 .*", text, re.MULTILINE)
    assert re.match(r"\| resnet50 dle \(pytorch\) \| FP32 \| 4 \| \d+\.\d \| \d+\.\d \|", plain)
    assert amp.endswith(f"| {OUT_OF_MEMORY} |")
    assert re.search(r"^resnet50 +pytorch +1x1-cpu +fp32 +1/1 ", text, re.MULTILINE)
    assert re.search(r"^- tier gpu: ", text, re.MULTILINE)
    summary = text.partition("## Summary")[2]
    assert re.findall(r"^- (.*) \(\d+ s\)$", summary, re.MULTILINE)[:2] == [
        "rows: FAILED: 1 of 2 rows have a figure and no failure",
        "submit: ok: exit code 0",
    ]
    assert re.search(r"^- tests: ok: \d+ skipped in [\d.]+s; exit code 0 ", summary, re.MULTILINE)
    assert summary.splitlines()[-1].startswith("Exit code 1 after ")

"""A benchmark is one file, a log family one module and its name, an output format one entry."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from k8sbench.adapters.files import catalog
from k8sbench.model import planning
from tests.tiers import ROOT
from tests.unit.model.specs import CLUSTER, SOURCE, a_request

FAMILY = '''
"""Prints "step 12: 340.5 a second"."""
import re
from k8sbench.model.sample import Shape
from k8sbench.parse.family import Family
from k8sbench.parse.records import RecordRule

STEP = re.compile(r"step (?P<iteration>\\d+): (?P<rate>[0-9.]+) a second")
FAMILY = Family(
    name="made-up",
    title="a test",
    framework=None,
    unit="samples/s",
    records=(RecordRule("a second", STEP, Shape(name="made-up", number="rate")),),
)
'''
REGISTERING = """
import sys
from k8sbench.parse import families
families.__path__.append(sys.argv[1])
families.NAMES += ("made-up",)
from k8sbench.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def test_a_log_family_is_one_module_and_its_name(tmp_path: pathlib.Path) -> None:
    (tmp_path / "made_up.py").write_text(FAMILY)
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {10 * n}: 340.5 a second\n" for n in range(1, 31)))
    words = ("measure", str(log), "--format", "made-up", "--gpus", "1", "-o", "json")
    script = [sys.executable, "-c", REGISTERING, str(tmp_path), *words]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 5), done.stderr
    (found,) = json.loads(done.stdout)
    assert found["format"] == "made-up"
    assert found["records"] > 0


BENCHMARK = """
name: made-up
title: A benchmark of this test
task: Anything
unit: images
default_framework: paddle
variants:
- name: small
  framework: paddle
  title: Small
  trainer: resnet50
  log: mmseg
  batch_size: {fp32: 4}
  window: {warmup: 1, iterations: 10, rule: ours, log_interval: {one_gpu: 1, many_gpus: 1}}
  cases: [1x1, 2x8]
"""


def test_a_benchmark_is_one_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "made-up.yaml").write_text(BENCHMARK)
    assert catalog.names(tmp_path) == ["made-up"]
    spec = catalog.find("made-up", tmp_path).spec
    made = planning.make_plan(
        spec,
        SOURCE,
        a_request(replicas=2, gpus=8),
        CLUSTER,
        run_id="r",
        set_name="s",
        repeat=1,
        trainers_digest="t",
    )
    assert made.command[2] == "/opt/k8sbench/k8sbench/trainers/resnet50.py"


FORMAT = """
import sys
from k8sbench.report import formats
formats.FORMATS["made-up"] = formats.Format("flat", lambda flat: "+".join(flat[0]) + "\\n")
from k8sbench.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        (("results",), "group+set+created_at+"),
        (("list",), "schema+run_id+"),
        (("measure", "{log}", "--format", "mmseg", "--gpus", "1"), "files+format+"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_output_format_is_one_entry(
    tmp_path: pathlib.Path, words: tuple[str, ...], columns: str
) -> None:
    log = ROOT / "tests" / "fixtures" / "logs" / "mmseg_evaluation.log"
    where = () if words[0] == "measure" else ("--store", str(tmp_path))
    typed = (*(word.format(log=log) for word in words), *where, "-o", "made-up")
    script = [sys.executable, "-c", FORMAT, *typed]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 5), done.stderr
    assert done.stdout.startswith(columns)

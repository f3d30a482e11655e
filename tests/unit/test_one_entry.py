"""Additions in one place: the recipes, each on one copy."""

import json
import pathlib

import pytest
import yaml

from tests.tiers import ROOT
from tests.unit import recipes
from tests.unit.measure.test_trainer_series import log, printed
from tests.unit.recipes import Recipe, k8sbench, python

METRIC = """    GpuMetric(
        id="made_up",
        title="Made up",
        unit="W",
        dcgm=(Field("DCGM_FI_DEV_MADE_UP"),),
        column="made up",
        meaning="It is one of a test.",
    ),
"""
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
KIND = """MADE_UP = msgspec.structs.replace(PYTORCH_JOB, name="MadeUpJob", plural="madeupjobs")
"""
CHECK = """    Check("made-up", _namespace, "", (
        Row("warn", always, "{f.home} is made up."),
    )),
"""
RULE = """MADE_UP = warn("made-up", "It is one of a test.", "Nothing to do.")
"""
FORMAT = """    "made-up": Format("flat", lambda flat: "+".join(flat[0]) + "\\n"),
"""
RECIPES: dict[str, Recipe] = {
    "GPU metric": {
        "k8sbench/model/gpu_metrics.py": (('    GpuMetric(\n        id="energy",\n', METRIC),)
    },
    "log family": {
        "k8sbench/parse/families/made_up.py": FAMILY,
        "k8sbench/parse/families/__init__.py": (('    "plsc",\n', '    "made-up",\n'),),
    },
    "benchmark": {"k8sbench/benchmarks/made-up.yaml": BENCHMARK},
    "job kind": {
        "k8sbench/model/kinds.py": (("KINDS: ", KIND), ("PYTORCH_JOB, PADDLE_JOB,", "MADE_UP, "))
    },
    "check of doctor": {
        "k8sbench/diagnose/preflight/checks.py": (('    Check("permissions"', CHECK),)
    },
    "integrity rule": {
        "k8sbench/measure/run/rules.py": (("\nALL = rules_in", RULE),),
        "k8sbench/measure/run/integrity.py": (
            (
                "    yield from _transport(case.log)",
                '    yield rules.MADE_UP.finding("It is made up.")\n',
            ),
        ),
    },
    "output format": {"k8sbench/report/formats.py": (('    "csv": ', FORMAT),)},
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return recipes.carried_out(tmp_path_factory.mktemp("tree"), *RECIPES.values())


@pytest.mark.parametrize("name", RECIPES)
def test_at_most_three_files_know_what_is_added(name: str) -> None:
    assert len(RECIPES[name]) <= 3
    article = "An" if name[0] in "io" else "A"
    assert f"**{article} {name}.**" in (ROOT / "CONTRIBUTING.md").read_text()


def test_a_gpu_metric_is_one_entry(tree: pathlib.Path) -> None:
    file = log(tree / "train.log", printed(0, of=1, power=200.0, made_up=42.0))
    words = (str(file), "--format", "k8sbench")
    done = k8sbench(tree, "measure", *words, "-o", "json")
    assert done.returncode in (0, 5), done.stderr
    ((found),) = json.loads(done.stdout)
    done = k8sbench(tree, "import", *words)
    assert done.returncode in (0, 5), done.stderr
    figure = found["gpu_metrics"]["figures"]["made_up"]
    assert (figure["value"], figure["unit"]) == (pytest.approx(42.0), "W")
    (row,) = json.loads(k8sbench(tree, "results", "-o", "json").stdout)["rows"]
    assert row["made_up"] == pytest.approx(42.0), row
    wide = k8sbench(tree, "results", "-o", "wide").stdout
    assert "MADE UP" in wide
    assert "42 W" in wide
    script = """
from k8sbench.adapters.metrics import prometheus_api
assert "DCGM_FI_DEV_MADE_UP" in prometheus_api.fields()
"""
    done = python(tree, "-c", script)
    assert done.returncode == 0, done.stderr


def test_a_log_family_is_one_module(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {10 * n}: 340.5 a second\n" for n in range(1, 31)))
    words = ("measure", str(log), "--format", "made-up", "--gpus", "1", "-o", "json")
    done = k8sbench(tree, *words)
    assert done.returncode in (0, 5), done.stderr
    (found,) = json.loads(done.stdout)
    assert found["format"] == "made-up"
    assert found["records"] > 0
    assert "made-up" in [reason["id"] for reason in found["reasons"]], "the integrity rule"


def test_a_benchmark_is_one_file(tree: pathlib.Path) -> None:
    done = k8sbench(tree, "render", "made-up", "--replicas=2", "--gpus=8")
    assert done.returncode == 0, done.stderr
    assert "/opt/k8sbench/k8sbench/trainers/resnet50.py" in done.stdout


def test_a_job_kind_is_one_entry(tree: pathlib.Path) -> None:
    done = k8sbench(tree, "render", "resnet50", "--framework", "pytorch")
    assert done.returncode == 0, done.stderr
    *_, job = yaml.safe_load_all(done.stdout)
    assert job["kind"] == "MadeUpJob"


def test_a_check_of_doctor_is_an_entry(tree: pathlib.Path) -> None:
    script = """
from tests.unit.doctor import clusters
print(*(finding.sentence for finding in clusters.findings() if finding.id == "made-up"))
"""
    done = python(tree, "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" is made up.\n")


@pytest.mark.parametrize(
    ("command", "columns"), [("results", "group+set+created_at+"), ("list", "schema+run_id+")]
)
def test_an_output_format_is_one_entry(
    tree: pathlib.Path, tmp_path: pathlib.Path, command: str, columns: str
) -> None:
    done = k8sbench(tree, command, "--store", str(tmp_path), "-o", "made-up")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(columns)

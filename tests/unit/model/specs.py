"""A small benchmark for planning: two frameworks, one with two variants."""

from typing import Any

import msgspec
import yaml

from k8sbench.catalog import packaged
from k8sbench.catalog.plan_choices import Site
from k8sbench.catalog.planning import LoadedSpec, make_plan
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import CPU_POOL, NodePool
from k8sbench.model.request import SubmitRequest

V100 = NodePool(name="v100-32gb", gpus_per_node=8, gpu_model="Tesla V100-SXM2-32GB")
CLUSTER = Site(backend="kubernetes", pool=V100, images=packaged.read_image_table())
LAPTOP = Site(backend="local", pool=CPU_POOL, cores=2)
GPU_BOX = Site(backend="local", pool=msgspec.structs.replace(V100, name="local"), cores=16)

SEG: dict[str, Any] = yaml.safe_load("""
name: seg
title: Segmentation
task: segmentation
unit: samples
default_framework: pytorch
sources: {report: {title: A report}}
variants:
- name: mm
  title: PyTorch
  framework: pytorch
  trainer: seg-pytorch
  local: true
  log: mmseg
  batch_size: {fp32: 2, amp: 4}
  cases: [1x1, 1x8, 4x8]
  repeats: 3
  args: {crop: 512x1024}
  sync_bn: true
  published:
  - {case: 4x8, precision: amp, batch_size: 4, gpu_model: Tesla V100-SXM2-32GB, source: report,
     throughput: 182.07}
  upstream:
    repository: example/seg
    commit: abc
    command: {fp32: [python, train.py, --batch, "{batch_size}"]}
    environment: {PyTorch: "1.7"}
- {name: ps, title: Paddle, default: true, local: true}
- {name: matched, title: "Paddle, same model"}
""")
WINDOW = {
    "warmup": 20,
    "iterations": 80,
    "rule": "ours",
    "log_interval": {"one_gpu": 10, "many_gpus": 2},
}
SMOKE = {"batch_size": 2, "warmup": 2, "iterations": 8, "args": {"crop": "64x64"}}
PADDLE = {"framework": "paddle", "trainer": "seg-paddle", "log": "paddleseg", "cases": ["1x1"]}


def a_request(**fields: Any) -> SubmitRequest:
    """Ask for runs of the benchmark."""
    return SubmitRequest(benchmark="seg", **fields)


def spec(**changes: Any) -> BenchmarkSpec:
    """Build the benchmark, with fields of it replaced."""
    variants = [
        {"window": WINDOW, "batch_size": {"fp32": 2}}
        | ({"smoke": SMOKE} if each.get("local") else {})
        | (PADDLE if "framework" not in each else {})
        | each
        for each in SEG["variants"]
    ]
    return msgspec.convert(SEG | {"variants": variants} | changes, BenchmarkSpec)


def loaded(of: BenchmarkSpec | None = None) -> LoadedSpec:
    """The benchmark as read from a file."""
    return LoadedSpec(spec=of or spec(), digest="d" * 64, source="built-in")


def planned(
    site: Site = CLUSTER, of: BenchmarkSpec | None = None, repeat: int = 1, **asked: Any
) -> RunPlan:
    """The plan of a request, with the identity of one run."""
    return make_plan(
        loaded(of),
        a_request(**asked),
        site,
        run_id="seg-x",
        set_name="s",
        repeat=repeat,
        trainers_digest="t" * 64,
    )

"""Rows of results, and a catalog entry with published figures, for tests of comparisons."""

from typing import Any

import msgspec
import yaml

from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model.group import Result
from k8sbench.model.run import Run
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.speedup import results
from tests.results.report.factory import V100_16


def by_case(runs: list[Run], **options: Any) -> dict[str, Result]:
    made = groups(runs)
    return {result.group.key.case: result for result in results(made, **options)}


CATALOG = """
name: resnet50
title: ResNet-50
task: classification
unit: images
default_framework: pytorch
sources: {dlperf: {title: DLPerf}, other: {title: Other}}
variants:
- name: dle
  framework: pytorch
  title: PyTorch
  trainer: resnet50
  log: dle-resnet50
  batch_size: {fp32: 128}
  window: {warmup: 20, iterations: 100, rule: ours, log_interval: {one_gpu: 1, many_gpus: 1}}
  cases: [1x8]
  case_notes: {1x1: no all-reduce, 1x8: a full node}
  published:
  - {case: 1x8, throughput: 2802.14}
  - {case: 1x1, throughput: 366.14}
  - {case: 1x4, throughput: null, source: other}
  - {case: 1x8, throughput: 2900.0, source: other, estimator: unknown}
"""
FIGURE = {"precision": "fp32", "batch_size": 128, "gpu_model": V100_16, "source": "dlperf"}


def catalog(**figure: Any) -> BenchmarkSpec:
    """The entry, with fields of its first published figure replaced."""
    found = yaml.safe_load(CATALOG)
    (variant,) = found["variants"]
    ours = FIGURE | {"estimator": "timestamps", "aggregate": "median"}
    first, *others = (ours | each for each in variant["published"])
    variant["published"] = [first | figure, *others]
    return msgspec.convert(found, BenchmarkSpec)

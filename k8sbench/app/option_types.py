"""Keyword arguments of the Python client, for completion and type checkers.

A test holds them equal to the tables of options, which say what each means.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, TypedDict

from k8sbench.model.kinds import JobKindWord
from k8sbench.model.spec_values import Framework, Impl, Mode, Precision, Preset

Place = str | os.PathLike[str]


class CaseFilters(TypedDict, total=False):
    """Options that choose the cases of a benchmark."""

    framework: str
    precision: Precision
    case: str


class RowFilters(CaseFilters, total=False):
    """Options that choose rows."""

    benchmark: str


class LogOptions(TypedDict, total=False):
    """Options of ``measure`` and ``import``."""

    benchmark: Place
    format: str
    gpus: int
    case: str
    batch_size: int
    precision: Literal["fp32", "amp", "fp16", "bf16"]
    gpu_model: str
    framework: Framework
    variant: str
    warmup: int
    one_run: bool
    accept: str | Sequence[str]


class SubmitOptions(TypedDict, total=False):
    """Options of ``submit``."""

    framework: Framework | Literal["all"]
    variant: str
    impl: Impl
    gpus: int
    amp: bool
    precision: Literal["fp32", "amp", "fp16", "bf16"]
    batch_size: int | str | Sequence[int]
    iterations: int
    warmup: int
    repeats: int
    preset: Preset
    data: Place
    speed_option: str | Sequence[str]
    image: str
    image_registry: str
    node_pool: str
    pools: Place
    queue: str
    force: bool
    job_kind: JobKindWord
    timeout: str | float
    wait_timeout: str | float
    backend: Literal["auto", "kubernetes", "local"]
    replicas: int
    all_cases: bool
    pack: bool
    mode: Mode
    weights: Place
    epochs: int
    evaluate_every: int
    target: float | Literal["none"]
    to_the_end: bool
    checkpoints: Place
    max_restarts: int
    set: str
    resume: str
    parallel: int
    wait: bool
    keep: bool
    store: Place
    prometheus: str
    run_id: str
    detach: bool
    no_operator: bool
    dry_run: Literal["client"]

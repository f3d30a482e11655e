"""Benchmark files as users write them for programs of their own."""

from collections.abc import Sequence
from typing import Any

STEP = r"^step (?P<iteration>\d+) (?P<rate>[\d.]+)"
"""A training line, unless a variant has another."""


def variant(command: Sequence[str], image: str, record: str = STEP, **more: Any) -> dict[str, Any]:
    """Make a variant that runs a command in an image."""
    window = {"warmup": 0, "iterations": 10, "rule": "all"} | more.pop("window", {})
    return {
        "framework": "pytorch",
        "image": image,
        "command": [*command],
        "batch_size": {"fp32": 1},
        "window": {**window, "log_interval": {"one_gpu": 1, "many_gpus": 1}},
        "cases": ["1x1"],
        "log": {"name": "mine", "unit": "samples/s", "per": "job", "record": record},
        **more,
    }


def benchmark(**variants: dict[str, Any]) -> dict[str, Any]:
    """Make a benchmark of variants by their names; the first is the default."""
    named = [{"name": name, "title": name, **each} for name, each in variants.items()]
    named[0]["default"] = True
    return {
        "name": "mine",
        "title": "Mine",
        "task": "Tests",
        "unit": "samples",
        "default_framework": "pytorch",
        "variants": named,
    }

"""Many small jobs on fake nodes: what they are, and what is to be seen of them from outside.

What a process asked of the API server is read from the server's own audit log; what the product
kept is held against the files that the fake pods' logs are served from.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.harness import benchmark_files
from tests.harness.cluster import audit
from tests.harness.cluster.nodes import RUN_FOR

REPLICAS = 4
_RECORD = r"^step (?P<iteration>\d+)/(?P<total>\d+) loss (?P<loss>\S+) (?P<rate>[\d.]+) img/s"
_COMMAND = ("python", "small.py", "--steps={total_iterations}")


def write_benchmark(folder: Path, run_for: str) -> list[str]:
    """Write a benchmark and a pool; returns the words that submit a job of it."""
    benchmark, pools = folder / "small.yaml", folder / "pools.yaml"
    base = benchmark_files.variant(_COMMAND, "registry.example.com/small:1", _RECORD)
    benchmark.write_text(json.dumps(benchmark_files.benchmark(base=base)))
    pool = {
        "name": "fake",
        "gpus_per_node": 8,
        "gpu_model": "Tesla V100-SXM2-32GB",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "annotations": {RUN_FOR: run_for},
    }
    pools.write_text(yaml.safe_dump({"pools": [pool]}))
    return [str(benchmark), f"--replicas={REPLICAS}", "--gpus=1", f"--pools={pools}"]


@dataclass
class Kept:
    """What a store has of the runs of a set."""

    runs: int = 0
    measured: int = 0
    logs: int = 0
    missing: int = 0
    """Lines that are not there."""
    doubled: int = 0
    """Lines that are there more than once, or that no pod printed."""


def kept(runs: Path, lines: Iterable[str]) -> Kept:
    """Hold every archived log against the lines that each pod printed."""
    wanted, found = Counter(lines), Kept()
    for folder in runs.iterdir():
        found.runs += 1
        found.measured += (folder / "measurement.json").exists()
        for path in (folder / "logs").glob("*.log"):
            found.logs += 1
            text = path.read_text().splitlines()
            have = Counter(line.partition(" ")[2] for line in text)
            found.missing += (wanted - have).total()
            found.doubled += (have - wanted).total()
    return found


@dataclass
class Asked:
    """What one program asked of the API server."""

    requests: Counter[str] = field(default_factory=Counter)
    """``create pytorchjobs``, ``get pods/log`` …: how often."""
    watches: int = 0
    """Open at one time, at most."""


def asked(audit_log: Path, namespace: str) -> Asked:
    """Read the server's audit log: k8sbench's requests in a namespace."""
    found, spans = Asked(), dict[str, dict[str, Any]]()
    for entry in audit.requests(audit_log):
        about = entry.get("objectRef") or {}
        if about.get("namespace") == namespace and entry["userAgent"].startswith("k8sbench"):
            spans.setdefault(entry["auditID"], entry).update(entry)
    ends: list[tuple[str, int]] = []
    for entry in spans.values():
        about = entry["objectRef"]
        what = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        found.requests[f"{entry['verb']} {what}"] += 1
        if entry["verb"] == "watch":
            ends.append((entry["requestReceivedTimestamp"], 1))
            if entry["stage"] == "ResponseComplete":
                ends.append((entry["stageTimestamp"], -1))
    found.watches = _most(ends)
    return found


def _most(ends: list[tuple[str, int]]) -> int:
    most = now = 0
    for _, step in sorted(ends):
        now += step
        most = max(most, now)
    return most

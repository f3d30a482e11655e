"""Logs of a job's attempts, in the order in which they are measured."""

from __future__ import annotations

from pathlib import Path

from k8sbench.store import artifacts


def test_the_first_attempt_of_all_replicas_is_before_the_second_of_any(tmp_path: Path) -> None:
    began = {
        "node-0.pod-2": 30.0,  # seen after the pod that replaced it
        "node-0": 60.0,
        "node-1": 31.0,
        "node-1.restart-1": 50.0,
        "node-1.pod-2": 61.0,
    }
    for name, at in began.items():
        (tmp_path / f"{name}.log").write_bytes(artifacts.stamp(at) + b" step 1\n")
    ordered = artifacts.in_order_of_attempts(tmp_path.glob("*.log"))
    firsts = ["node-0.pod-2", "node-1"]
    assert [path.stem for path in ordered] == [
        *firsts,
        "node-0",
        "node-1.restart-1",
        "node-1.pod-2",
    ]

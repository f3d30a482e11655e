"""Logs of a job's attempts, in the order in which they are measured."""

from __future__ import annotations

from pathlib import Path

from k8sbench.store import log_archive


def test_the_first_attempt_of_all_replicas_is_before_the_second_of_any(tmp_path: Path) -> None:
    began = {
        "node-0.pod-2": 30.0,  # seen after the pod that replaced it
        "node-0": 60.0,
        "node-1": 31.0,
        "node-1.restart-1": 50.0,
        "node-1.pod-2": 61.0,
    }
    for name, at in began.items():
        (tmp_path / f"{name}.log").write_bytes(log_archive.format_stamp(at) + b" step 1\n")
    ordered = log_archive.sort_by_attempt(tmp_path.glob("*.log"))
    firsts = ["node-0.pod-2", "node-1"]
    assert [path.stem for path in ordered] == [
        *firsts,
        "node-0",
        "node-1.restart-1",
        "node-1.pod-2",
    ]

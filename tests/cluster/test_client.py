"""``Client`` on a real cluster: what one program submits, another one waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from k8sbench import Client
from tests.harness.cluster.shell import Shell, until


def test_a_detached_run_is_waited_for_by_another_program(
    own_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in own_shell.environment.items():
        monkeypatch.setenv(name, value)
    store = str(own_shell.store)
    logs = own_shell.logs("left")
    logs.begin()
    logs.end()
    first = Client(backend="kubernetes", store=store, namespace=own_shell.namespace.name)
    options = {"replicas": 2, "gpus": 1, "preset": "smoke", "iterations": 10, "warmup": 2}
    run = first.submit("resnet50", run_id="left", detach=True, node_pool="quick", **options)
    assert (run.run_id, run.status.phase) == ("left", "Created")
    second = Client(backend="kubernetes", store=store, namespace=own_shell.namespace.name)
    own_shell.finish("left")
    row = second.run("left").wait()
    assert (row.case, row.state, row.runs_valid) == ("2x1", "valid", 1)
    assert second.logs("left", "master-0") == logs.expected["master-0"]
    until(lambda: own_shell.on_cluster() == [], "the deletion of left")
    assert Path(store, "runs", "left").is_dir()

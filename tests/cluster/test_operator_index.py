"""An operator that starts without its index, as after an upgrade from rows in PostgreSQL."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from k8sbench.store.database import DATABASE
from tests.harness.cluster import operator_process
from tests.harness.cluster.shell import Shell, until

ON_THE_CLAIM = {"store.id", "baselines", "runs"}
"""Parts of a store folder whose rows were in PostgreSQL."""
OWNER = "k8sbench.io/owner"


def lose_index(store: Path) -> None:
    """Delete everything that an operator with PostgreSQL did not keep in the folder."""
    for path in store.iterdir():
        if path.is_dir() and path.name not in ON_THE_CLAIM:
            shutil.rmtree(path)
        elif path.name not in ON_THE_CLAIM:
            path.unlink()


def uid_and_owner(shell: Shell, run_id: str) -> tuple[str, Any]:
    """Return the uid of a run's job, and the owner that its annotation names."""
    metadata = shell.namespace.get(shell.namespace.job(run_id))["metadata"]
    return metadata["uid"], json.loads(metadata["annotations"][OWNER])


def test_an_operator_without_its_index_collects_its_jobs_and_creates_none_twice(
    own_shell: Shell, tmp_path: Path
) -> None:
    operator = operator_process.make(own_shell.namespace, tmp_path / "machine")
    logs = {f"{name}-1": operator_process.given(own_shell, name) for name in ("ends", "goes-on")}
    with operator.collecting() as running:
        for run_id in logs:
            until(partial(operator.archived, run_id), f"lines of {run_id}")
        logs["ends-1"].end()
        own_shell.finish("ends-1")
        operator_process.check_collected(operator, "ends-1", logs["ends-1"])
        operator_process.end(running)
    before = uid_and_owner(own_shell, "goes-on-1")
    assert (operator.store / DATABASE).exists()
    lose_index(operator.store)
    # The job prints its last lines while no operator runs, and goes on.
    logs["goes-on-1"].end()
    printed = logs["goes-on-1"].expected[operator.replicas[0]]
    with operator.collecting() as running:
        until(lambda: operator.archived("goes-on-1") == printed, "all lines of goes-on-1")
        assert uid_and_owner(own_shell, "goes-on-1") == before
        assert own_shell.on_cluster() == ["goes-on-1"]
        own_shell.finish("goes-on-1")
        operator_process.check_collected(operator, "goes-on-1", logs["goes-on-1"])
        operator_process.end(running)
    history = operator.json("status", "goes-on-1")["history"]
    assert {one["job_uid"] for one in history if one["job_uid"]} == {before[0]}
    assert sorted(run["run_id"] for run in operator.json("list", "--store=local")) == sorted(logs)
    assert own_shell.on_cluster() == []

"""An operator with a PostgreSQL that goes away and comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.harness import postgres
from tests.harness.cluster import operator_process
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.shell import Running, Shell, until
from tests.harness.cluster.trainer_logs import TrainerLogs


def with_data(namespace: Namespace, folder: Path) -> OperatorShell:
    """Make an operator whose store, and a database's folders, are in one place."""
    made = operator_process.make(namespace, folder)
    made.store = folder / "data" / "k8sbench"
    made.environment |= {"K8SBENCH_STORE": str(made.store), "XDG_DATA_HOME": str(folder / "data")}
    return made


@contextlib.contextmanager
def collecting(operator: OperatorShell, url: str) -> Iterator[Running]:
    """Run the operator with its rows in a database; other commands read the folders."""
    own = operator.environment
    operator.environment = own | {"K8SBENCH_STORE": url}
    with operator.collecting() as running:
        operator.environment = own
        yield running


@contextlib.contextmanager
def away(server: postgres.Server) -> Iterator[None]:
    """Have the database's server down until the end of the block."""
    server.halt()
    try:
        yield
    finally:
        server.start()


def end(shell: Shell, run_id: str, logs: TrainerLogs) -> None:
    """End the job of a run; an operator may delete it immediately."""
    logs.end()
    shell.finish(run_id)


def over(shell: Shell, run_id: str, logs: TrainerLogs) -> None:
    """Wait for the end of a job, which no operator can delete now."""
    end(shell, run_id, logs)
    shell.namespace.wait("condition=Succeeded", f"pytorchjob/{run_id}")


def test_a_database_that_goes_away_and_comes_back_loses_and_doubles_nothing(
    own_shell: Shell, postgres_server: postgres.Server, tmp_path: Path
) -> None:
    operator, url = with_data(own_shell.namespace, tmp_path / "machine"), postgres_server.database()
    runs = {f"{name}-1": operator_process.given(own_shell, name) for name in ("ends", "goes-on")}
    with collecting(operator, url) as running:
        for run_id in runs:
            until(partial(operator.archived, run_id), f"lines of {run_id}")
        with away(postgres_server):
            over(own_shell, "ends-1", runs["ends-1"])
            runs["new-1"] = operator_process.given(own_shell, "new")
        operator_process.check_collected(operator, "ends-1", runs["ends-1"])
        until(lambda: operator.archived("new-1"), "lines of the new run")
        operator_process.end(running)
        assert postgres.PASSWORD not in running.out + running.err
    # One that begins while it is away waits, too.
    with contextlib.ExitStack() as stack:
        with away(postgres_server):
            running = stack.enter_context(collecting(operator, url))
            running.until("warning not ready: The database")
            over(own_shell, "goes-on-1", runs["goes-on-1"])
        operator_process.check_collected(operator, "goes-on-1", runs["goes-on-1"])
        end(own_shell, "new-1", runs["new-1"])
        operator_process.check_collected(operator, "new-1", runs["new-1"])
        operator_process.end(running)
    assert sorted(run["run_id"] for run in operator.json("list")) == sorted(runs)

"""A copy of a run's job under another name, with the run's labels: it is no job of that run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.cluster.nodes import EXIT_CODE, RUN_FOR
from tests.harness.cluster.shell import Shell, until

COPY = "a-copy"
"""Is listed before the runs here."""


@pytest.fixture
def shell(own_shell: Shell) -> Iterator[Shell]:
    """Nothing but the run of a test and its copy is in its namespace."""
    yield own_shell
    assert COPY in own_shell.on_cluster()


def copy(shell: Shell, run_id: str, **reported: str) -> None:
    """Create a job again under another name; its pods do what is ``reported``."""
    job: dict[str, Any] = shell.namespace.get("pytorchjob", run_id)
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        annotations = replica["template"]["metadata"].setdefault("annotations", {})
        annotations.update({key.replace("_", "-"): value for key, value in reported.items()})
    shell.namespace.create_again(job, COPY)


def test_collect_records_what_became_of_the_run_and_not_of_its_copy(shell: Shell) -> None:
    logs = shell.printing("run")
    copy(shell, "run", **{RUN_FOR: "0s", EXIT_CODE: "1"})
    shell.namespace.wait("condition=Failed", f"pytorchjob/{COPY}")
    logs.end()
    shell.namespace.kubectl("annotate", "pods", "run-master-0", "run-worker-0", f"{RUN_FOR}=0s")
    shell.namespace.wait("condition=Succeeded", "pytorchjob/run")
    collected = shell.run("collect", "--all")
    assert " valid; smoke" in collected.out
    assert f"left out: The plan of PyTorchJob {COPY} in namespace" in collected.err
    assert shell.phase("run") == "Succeeded"
    assert shell.on_cluster() == [COPY]


@pytest.mark.parametrize("command", ["cancel", "delete"])
def test_a_run_is_ended_and_its_copy_is_not(shell: Shell, command: str) -> None:
    logs = shell.printing("run")
    until(lambda: shell.json("status", "run")["on_cluster"]["phase"] == "Running", "running")
    copy(shell, "run")
    shell.namespace.wait("condition=Running", f"pytorchjob/{COPY}")
    shell.run(command, "run")
    assert shell.phase("run") == "Cancelled"
    assert shell.archived("run") == logs.expected["master-0"]
    assert shell.on_cluster() == [COPY]
    assert not any(pod.startswith("run-") for pod in shell.on_cluster("pods"))


def test_a_copy_is_not_known_by_the_name_of_the_run(shell: Shell) -> None:
    shell.printing("run")
    copy(shell, "run")
    colleague = shell.colleague()
    collected = colleague.run("collect", "--all")
    assert f"left out: The plan of PyTorchJob {COPY} in namespace" in collected.err
    assert colleague.json("list") == []
    refused = shell.run("delete", COPY).err
    removal = f"kubectl -n {shell.namespace.name} delete pytorchjob {COPY}"
    assert all(removal in said for said in (collected.err, refused))
    shell.run("delete", "run")

"""A copied job with the labels of a run does not belong to it."""

from typing import Any

from tests.harness.cluster.nodes import EXIT_CODE, RUN_FOR
from tests.harness.cluster.shell import Shell

COPY = "a-copy"
"""Is listed before the run here."""


def copy(shell: Shell, run_id: str, reported: dict[str, str]) -> None:
    """Create a job again under another name; its pods do what is ``reported``."""
    job: dict[str, Any] = shell.namespace.get("pytorchjob", run_id)
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["metadata"].setdefault("annotations", {}).update(reported)
    shell.namespace.create_again(job, COPY)


def test_a_copy_is_left_alone_and_tells_nothing_of_its_run(own_shell: Shell) -> None:
    shell = own_shell
    logs = shell.printing("run")
    copy(shell, "run", {RUN_FOR: "0s", EXIT_CODE: "1"})
    shell.namespace.wait("condition=Failed", f"pytorchjob/{COPY}")
    left_out = f"left out: The plan of PyTorchJob {COPY} in namespace"
    colleague = shell.colleague()
    assert colleague.run("collect", "--all").err == "Nothing needs collection here.\n"
    assert colleague.json("list") == []
    collected = shell.run("collect", "--all").err
    assert left_out in collected
    refused = shell.run("delete", COPY, code=2).err
    removal = f"kubectl -n {shell.namespace.name} delete pytorchjob {COPY}"
    assert all(removal in said for said in (collected, refused))
    logs.end()
    shell.namespace.kubectl("annotate", "pods", "run-master-0", "run-worker-0", f"{RUN_FOR}=0s")
    shell.namespace.wait("condition=Succeeded", "pytorchjob/run")
    done = shell.run("collect", "--all")
    assert " ok (smoke)" in done.out
    assert left_out in done.err
    assert shell.phase("run") == "Succeeded"
    assert shell.archived("run") == logs.expected["master-0"]
    assert shell.on_cluster() == [COPY]

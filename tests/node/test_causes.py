"""Diagnosis of each way in which a run can end on a node.

All runs are submitted at once, each by a k8sbench of its own.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import packaged
from tests.harness.cluster import users
from tests.harness.cluster.namespace import ENFORCED, Namespace
from tests.harness.cluster.shell import Running, Shell, until
from tests.harness.node import faults
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.programs import DISK, GATE, Programs, limit_disk, variant
from tests.tiers import ROOT

NO_IMAGE = "127.0.0.1:1/none:1"
FAILS_ONCE = f"""
import pathlib, sys
seen = pathlib.Path("/tmp/seen")
again = seen.exists()
seen.touch()
for number in range(10):
    print("step", 10 * again + number + 1, 5.0, flush=True)
if not again:
    sys.exit(5)
{GATE}
wait_at_gate()
"""
"""Fails once; when restarted it runs until released."""
LINES = (ROOT / "tests" / "fixtures" / "logs" / "torchtitan.log").read_text().splitlines()
FIRST_LINES = LINES[:9]
OF_OTHERS = f"""
import pathlib, sys
seen = pathlib.Path("/tmp/seen")
again = seen.exists()
seen.touch()
for line in {LINES!r} if again else {FIRST_LINES!r}:
    print(line, flush=True)
sys.exit(0 if again else 5)
"""
"""Prints a log to its middle and fails; when restarted prints all of it."""
VARIANTS = {
    "memory": variant(faults.OUT_OF_MEMORY),
    "child": variant(faults.CHILD_OUT_OF_MEMORY),
    "command": variant(("no-such-command",)),
    "disk": variant(faults.DISK_FULL),
    "evicted": variant(faults.ENDS_WHEN_TOLD),
    "pod": variant(faults.ENDS_WHEN_TOLD),
    "node": variant(faults.ENDS_WHEN_TOLD),
    "pull": variant(("true",), NO_IMAGE),
    "again": variant(FAILS_ONCE),
    "others": variant(OF_OTHERS),
}
OPTIONS = {"node": ("--node-pool=far",), "pull": ("--replicas=2", "--pack")}
BY_HAND, OBSERVED = "again", "others"
"""The variants whose jobs somebody creates with kubectl."""


class Expected(NamedTuple):
    """Expected output about a run's end."""

    cause_id: str
    sentence: str
    action: str


@pytest.fixture(scope="module")
def programs(
    node_cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Programs]:
    namespace = Namespace.make(node_cluster, "causes", {ENFORCED: "restricted"})
    limit_disk(namespace)
    folder = tmp_path_factory.mktemp("causes")
    yield Programs(Shell(namespace, namespace.user(folder), folder / "shell"), **VARIANTS)
    namespace.delete()


@pytest.fixture(scope="module")
def submits(programs: Programs) -> Iterator[dict[str, Running]]:
    """Submit them all."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(
                programs.shell.started(*programs.words(name, *OPTIONS.get(name, ())))
            )
            for name in VARIANTS
            if name not in {BY_HAND, OBSERVED}
        }


def test_an_image_that_cannot_be_pulled(programs: Programs, submits: dict[str, Running]) -> None:
    # The first of all: a worker that does not find its master gives up after 100 tries.
    shell = programs.shell
    submits["pull"].until(f"image {NO_IMAGE} does not serve it")
    status = shell.json("status", "pull")
    expected = status["on_cluster"] or status
    assert (expected["phase"], expected["cause_id"]) == ("Pulling", "registry-unreachable")
    (condition,) = shell.namespace.get("pytorchjob", "pull")["status"]["conditions"]
    assert condition["type"] == "Created"
    shell.run("cancel", "pull")
    submits["pull"].ends(3)


@pytest.mark.soak
def test_a_node_is_lost(
    programs: Programs, submits: dict[str, Running], node_cluster: NodeCluster
) -> None:
    submits["node"].until("Running: ")
    with faults.lost(node_cluster, "node-1"):
        submits["node"].ends(3)
        # Nobody is there to end it, or to say that it has ended.
        expected = Expected(
            "node-lost", "The node node-1 of master-0 was lost", "describe node node-1"
        )
        check(programs.shell, submits["node"], "node", expected)


def evict(namespace: Namespace, name: str) -> None:
    faults.evict(namespace, f"{name}-master-0")


def delete_pod(namespace: Namespace, name: str) -> None:
    namespace.kubectl("delete", "pod", f"{name}-master-0", "--wait=false")


OUT_OF_MEMORY = Expected(
    "oom",
    "A process of master-0 ran out of its memory and was killed on node node-0.",
    "memory_per_gpu",
)
ENDINGS = {
    "memory": OUT_OF_MEMORY,
    "child": OUT_OF_MEMORY,
    "command": Expected(
        "start-error", '"no-such-command"', "Check that the image holds the command"
    ),
    "evicted": Expected("evicted", "master-0 was evicted on node node-0: ", "submit again"),
    "pod": Expected("pod-deleted", "The pod of master-0 was deleted while it ran.", "Submit again"),
    "disk": Expected("evicted", f"exceeds the total limit of containers {DISK}", "use other nodes"),
}
DISTURBED = {"evicted": evict, "pod": delete_pod}
"""Disturbances of a run in progress."""


@pytest.mark.parametrize("name", ENDINGS)
def test_an_end_is_reported_with_its_cause_and_what_to_do(
    programs: Programs, submits: dict[str, Running], name: str
) -> None:
    if name in DISTURBED:
        submits[name].until("Running: ")
        DISTURBED[name](programs.shell.namespace, name)
    check(programs.shell, submits[name].ends(3), name, ENDINGS[name])


def check(shell: Shell, command: Running, name: str, expected: Expected) -> None:
    """See what the command has printed, and what is on record."""
    status = shell.json("status", name)
    known = (status["phase"], status["cause_id"])
    assert known == ("Failed", expected.cause_id), status["cause"]
    assert expected.sentence in status["cause"]
    assert expected.action in status["action"]
    assert f"  Failed: {status['cause']}\n    {status['action']}\n" in command.err
    # What has run does not start.
    phases = [step["phase"] for step in status["history"]]
    if "Running" in phases:
        assert {*phases[phases.index("Running") :]} == {"Running", "Failed"}, command.err


def test_a_container_is_started_again(programs: Programs) -> None:
    job = programs.job(BY_HAND)
    job["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = "OnFailure"
    programs.shell.namespace.create(job)
    expected = [f"step {number} 5.0" for number in range(1, 21)]
    with programs.shell.started("collect", "again", "--follow") as collect:
        until(lambda: programs.shell.archived("again") == expected, "both containers' lines")
        programs.open_gate("again")
        collect.ends()
    assert "the log of" not in collect.err
    assert programs.shell.archived("again") == expected


def test_a_restarted_container_of_others_is_an_attempt_of_one_run(
    programs: Programs, tmp_path: Path
) -> None:
    shell = programs.shell
    pod = programs.job(OBSERVED)["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": OBSERVED},
        "spec": {"template": {"spec": {**pod, "restartPolicy": "OnFailure"}}},
    }
    shell.namespace.create(job)
    made = users.make(
        shell.namespace, tmp_path, "observer", sees_nodes=False, file=packaged.OBSERVER
    )
    observer = Shell(shell.namespace, made, tmp_path / "observer")
    observer.run("observe", f"job/{OBSERVED}", "--precision=bf16")
    (run_id,) = observer.run("list", "-o", "name").out.split()
    assert observer.archived(run_id, "pod-0") == FIRST_LINES
    assert observer.archived(run_id, "pod-0.restart-1") == LINES
    found = observer.json("status", run_id)["measurement"]
    assert found["restarts"] == 1
    assert found["throughput"]["time_weighted"] == pytest.approx(56_000)

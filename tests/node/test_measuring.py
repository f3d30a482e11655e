"""A long log is measured in a container with little memory."""

import json
from typing import Any

import msgspec

from k8sbench.adapters.measuring import Task
from tests.harness.cluster.manifests import pod
from tests.harness.cluster.namespace import Namespace
from tests.unit.measure.support import lines_of
from tests.unit.measure.test_recorded_runs import run

LIMIT = "96Mi"
STEPS = 300_000
"""Steps of a log of 64 MB."""
SCRIPT = """
import json, sys
import msgspec
from k8sbench.adapters import measuring

(head, step), steps, task = json.loads(sys.argv[1])
with open("/tmp/master-0.log", "w") as log:
    log.writelines(f"{line}\\n" for line in head)
    log.writelines(f"{step.replace('NUMBER', str(number))}\\n" for number in range(1, steps))
found = measuring.measured_apart(msgspec.json.decode(task, type=measuring.Task))
print("share", measuring.memory_limit() >> 20, "verdict", found.verdict)
"""
"""Measures a long log; prints the child's share and the verdict."""


def container(image: str) -> dict[str, Any]:
    lines = lines_of("k8sbench_master.log")
    step = next(line for line in lines if '"event": "step"' in line)
    task = Task(run=run(), logs={"/tmp/master-0.log": "master-0.log"})
    text = [lines[:2], step.replace('"step": 1,', '"step": NUMBER,')]
    given = json.dumps([text, STEPS, msgspec.json.encode(task).decode()])
    return {
        "name": "measures",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", SCRIPT, given],
        "resources": {"limits": {"memory": LIMIT}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def test_a_log_of_64_megabytes_is_measured_within_half_of_96_megabytes(
    namespace: Namespace, operator_image_name: str
) -> None:
    volumes = [{"name": "tmp", "emptyDir": {}}]
    namespace.create(
        pod("long", container(operator_image_name), restartPolicy="Never", volumes=volumes)
    )
    done = namespace.until(
        lambda found: found["status"].get("phase") in ("Succeeded", "Failed"), "pod", "long"
    )
    (status,) = done["status"]["containerStatuses"]
    printed = namespace.kubectl("logs", "long")
    # With cgroup v2 one kill for memory would end the whole container.
    assert status["state"]["terminated"]["reason"] == "Completed", printed
    assert printed.startswith("share 48 verdict ")

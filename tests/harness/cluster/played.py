"""TrainJobs whose programs are played: fake pods run no container.

A container's command runs on this machine, with its environment, and finds the programs of
``tests/harness/programs``. What it prints is the pod's log, stamped as a kubelet stamps lines.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.harness.cluster.fault_proxy import Fault, FaultProxy
from tests.harness.cluster.jobs import ON_GPUS
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import RUN_FOR
from tests.harness.programs.printing import GPUS, SPEED, START
from tests.tiers import ROOT

PROGRAMS = ROOT / "tests" / "harness" / "programs"
RANK = "batch.kubernetes.io/job-completion-index"
RUNTIME: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {
        "name": "torch-distributed",
        "labels": {"trainer.kubeflow.org/framework": "torch"},
    },
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {
                                "template": {
                                    "spec": {
                                        "containers": [
                                            {"name": "node", "image": "example.invalid/torch:1"}
                                        ],
                                        **ON_GPUS,
                                    },
                                }
                            },
                        },
                    }
                ]
            }
        },
    },
}
"""Kubeflow Trainer's own runtime of that name, but for nodes with a taint."""


def run(
    command: Sequence[str], folder: Path, first: Path, variables: Mapping[str, str] = {}
) -> str:
    """Run a container's command; ``first`` has programs that it finds before all others."""
    path = f"{first}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{PROGRAMS}:{ROOT}", **variables, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def serve(
    namespace: Namespace,
    proxy: FaultProxy,
    job: str,
    start: datetime,
    *,
    speed: float = 1.0,
    without: str = "\n",
) -> None:
    """Make what the pods of a TrainJob print their logs, as if it began at ``start``.

    Lines with ``without`` are left out.
    """
    nodes = namespace.get("trainjob", job)["spec"]["trainer"]["numNodes"]
    for name, pod in namespace.wait_for_pods(nodes, _pods(job)).items():
        rank = pod["metadata"]["labels"][RANK]
        text = _log(pod, start, speed, without) if rank == "0" else _line(start, "joined")
        proxy.alter(rf"/pods/{name}/log\?(?!.*previous=true)", _always(text.encode()))


def end(namespace: Namespace, job: str) -> None:
    """End the pods of a TrainJob, and wait for its end."""
    namespace.kubectl("annotate", "pods", _pods(job), f"{RUN_FOR}=0s")
    namespace.wait("condition=Complete", f"trainjob/{job}")


def _pods(job: str) -> str:
    return f"--selector=jobset.sigs.k8s.io/jobset-name={job}"


def past(proxy: FaultProxy, by: timedelta) -> Fault:
    """Move all times of the API server's objects into the past, until the fault ends.

    Who asks sees objects of now as if they had been created, and had ended, so much earlier.
    """

    def moved(found: re.Match[bytes]) -> bytes:
        at = datetime.fromisoformat(found[0].decode()) - by
        return at.strftime(_SECONDS).encode()

    return proxy.alter("", lambda line: _TIME.sub(moved, line), method="GET")


_SECONDS = "%Y-%m-%dT%H:%M:%S"
_TIME = re.compile(rb'(?<=")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=(?:\.\d+)?Z")')


def _always(text: bytes) -> Callable[[bytes], bytes]:
    return lambda _: text


def _log(pod: dict[str, Any], start: datetime, speed: float, without: str) -> str:
    (container,) = pod["spec"]["containers"]
    given = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    gpus = container["resources"]["limits"]["nvidia.com/gpu"]
    given |= {START: str(start.timestamp()), SPEED: str(speed), GPUS: gpus}
    printed = run(container["command"], PROGRAMS, PROGRAMS, given).splitlines()
    lines = (line.partition("\t") for line in printed)
    return "".join(
        _line(start + timedelta(seconds=float(second)), text)
        for second, _, text in lines
        if without not in text
    )


def _line(at: datetime, text: str) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z {text}\n"

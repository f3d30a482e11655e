"""Jobs and recorded events for tests of the port to a cluster."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters import templates
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
from k8sbench.limits import Limits
from k8sbench.model.job_kind import JobKind
from k8sbench.model.kinds import PYTORCH_JOB, kind_of
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import NodePool, Toleration
from k8sbench.model.replica_logs import LogLine
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent
from k8sbench.render.manifest import manifests
from tests.harness.cluster.limits import SECONDS, shorten
from tests.harness.cluster.nodes import RUN_FOR
from tests.unit.render import plans
from tests.waiting import wait_until

POOL = NodePool(
    name="v100",
    gpus_per_node=8,
    gpu_model="Tesla V100-SXM2-32GB",
    tolerations=(Toleration(key="nvidia.com/gpu", operator="Exists"),),
    cpu_per_gpu="1",
    memory_per_gpu="1Gi",
    shm="64Mi",
)
FOLDER = Path("unused")
TRAINERS = templates.trainer_sources()


def plan(case: str = "2x1", of: JobKind = PYTORCH_JOB, **changes: Any) -> RunPlan:
    """Make a plan for the fake nodes, under a run id of its own."""
    name = f"run-{secrets.token_hex(4)}"
    own = {"run_id": name, "set_name": name, "pool": POOL, "trainers_digest": TRAINERS.digest}
    own["kind"] = of.name
    return plans.plan(case, **{**own, **changes})


def objects(a_plan: RunPlan, run_for: str | None = "0s", **reported: str) -> list[dict[str, Any]]:
    """Render a plan; its fake pods run for a time, or until released."""
    found = list(manifests(a_plan, templates=plans.ready(), trainers=TRAINERS))
    reported = dict(reported) if run_for is None else {RUN_FOR: run_for, **reported}
    kind, spec = kind_of(a_plan), found[-1]["spec"]
    if kind.runtime is None:
        pods = [role["template"] for role in spec[kind.replicas_key].values()]
    else:
        (patch,) = spec["runtimePatches"]
        (replicas,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        pods = [replicas["template"]["spec"]["template"]]
    for pod in pods:
        pod["metadata"].setdefault("annotations", {}).update(reported)
    return found


def run_of(a_plan: RunPlan) -> Run:
    """Make the record of a run that was just submitted."""
    created = Transition(phase=Phase.CREATED, at=time.time(), cause="")
    return Run(
        planned=a_plan,
        created_at=created.at,
        process=None,
        history=(created,),
        artifacts="file:///unused",
    )


class Port:
    """The port, and all that it has reported."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self.cluster = cluster
        self.events: list[JobEvent] = []

    def submit(self, a_plan: RunPlan, run_for: str | None = "0s", **reported: str) -> RunPlan:
        """Create a plan's job and follow it."""
        self.cluster.create(run_of(a_plan), objects(a_plan, run_for, **reported), FOLDER)
        return a_plan

    def resume(self, a_plan: RunPlan) -> RunPlan:
        """Follow a job that somebody else created."""
        self.cluster.resume(run_of(a_plan), {})
        return a_plan

    def until(self, seen: Callable[[Port], Any]) -> None:
        """Take what the port tells until a condition holds."""
        end = time.monotonic() + SECONDS
        while not seen(self):
            left = end - time.monotonic()
            assert left > 0, f"not reported in {SECONDS:.0f} s; reported: {self.reported()}"
            self.events += self.cluster.wait(min(left, 1.0))

    def until_phase(self, a_plan: RunPlan, phase: Phase) -> Transition:
        """Wait until a job's state is reported to be this one."""
        self.until(lambda _: phase in self.phases(a_plan) or self.is_over(a_plan))
        found = [one for one in self.transitions(a_plan) if one.phase is phase]
        assert found, f"ended otherwise: {self.reported()}"
        return found[-1]

    def end_of(self, a_plan: RunPlan) -> Transition:
        """Wait for a job's end."""
        self.until(lambda _: self.is_over(a_plan))
        return self.transitions(a_plan)[-1]

    def is_over(self, a_plan: RunPlan) -> bool:
        """Return True if the job's end was reported."""
        return any(one.phase.final for one in self.transitions(a_plan))

    def transitions(self, a_plan: RunPlan) -> list[Transition]:
        """The states of a job that were reported."""
        mine = (one for one in self.events if one.run_id == a_plan.run_id)
        return [one.transition for one in mine if one.transition is not None]

    def phases(self, a_plan: RunPlan) -> list[Phase]:
        """The phases of a job that were reported."""
        return [one.phase for one in self.transitions(a_plan)]

    def lines(self, a_plan: RunPlan) -> list[LogLine]:
        """The lines of a job's logs that were reported."""
        mine = (one for one in self.events if one.run_id == a_plan.run_id)
        return [one.line for one in mine if one.line is not None]

    def notes(self) -> list[str]:
        """All notes."""
        return [one.note for one in self.events if one.note is not None]

    def reported(self) -> str:
        """All but the lines, to read in a failure."""
        return "\n".join(str(one) for one in self.events if one.line is None)


@contextlib.contextmanager
def opened(kubeconfig: Path, **options: Any) -> Iterator[Port]:
    """Open the port as a kubeconfig's user, with other time limits."""
    changes = {name: options.pop(name) for name in Limits.__struct_fields__ if name in options}
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.closing(connect(kubeconfig=str(kubeconfig))) as api,
    ):
        shorten(patch, **changes)
        port = Port(KubernetesCluster(api, **options))
        try:
            yield port
        finally:
            port.cluster.close()


def until(condition: Callable[[], object]) -> None:
    """Wait until something that another thread or program does is done."""
    wait_until(condition, "another thread or program", SECONDS)

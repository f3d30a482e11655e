"""The kinds of job that the training operator runs for us, as data.

The two kinds differ in names and numbers only, so they are two rows and not two classes; the
templates know neither. Everything here is fixed by the operator (v1.9), not chosen by us.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.spec import Framework

API_VERSION = "kubeflow.org/v1"


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of job."""

    kind: str
    replicas_key: str
    """The field of ``spec`` that maps replica types to replicas."""
    container: str
    """The operator's webhook wants a container of exactly this name."""
    lead: str | None
    """Replica type of the one replica that leads; None where all are alike."""
    others: str = "Worker"
    port_name: str
    port: int
    """Where the leading replica's rendezvous listens."""
    processes_field: str | None = None
    """Field of ``spec`` for the processes per replica: the operator hands it on to torchrun."""
    processes_env: str | None = None
    """Variable for the processes per replica where the operator has no field for it."""
    injected: frozenset[str]
    """Variables that the operator appends to every container."""

    def replicas(self, count: int) -> tuple[tuple[str, int], ...]:
        """Split ``count`` replicas into (replica type, how many), the leading one first."""
        if self.lead is None:
            return ((self.others, count),)
        rest = ((self.others, count - 1),) if count > 1 else ()
        return ((self.lead, 1), *rest)

    def names(self, count: int) -> list[str]:
        """Name ``count`` replicas as the operator does, rank 0's first: master-0, worker-0, …"""
        return [f"{role.lower()}-{i}" for role, many in self.replicas(count) for i in range(many)]


KINDS: dict[Framework, JobKind] = {
    "pytorch": JobKind(
        kind="PyTorchJob",
        replicas_key="pytorchReplicaSpecs",
        container="pytorch",
        lead="Master",
        port_name="pytorchjob-port",
        port=23456,
        # Without it the operator says "auto", counts one process per replica in WORLD_SIZE, and
        # torchrun starts as many processes as it finds GPUs, or CPU cores.
        processes_field="nprocPerNode",
        injected=frozenset(
            {
                "PYTHONUNBUFFERED",
                "MASTER_ADDR",
                "MASTER_PORT",
                "PET_MASTER_ADDR",
                "PET_MASTER_PORT",
                "WORLD_SIZE",
                "RANK",
                "PET_NODE_RANK",
                "PET_NPROC_PER_NODE",
                "PET_NNODES",
            }
        ),
    ),
    "paddle": JobKind(
        kind="PaddleJob",
        replicas_key="paddleReplicaSpecs",
        container="paddle",
        # A PaddleJob with a Master runs a parameter server; all-reduce wants workers alone.
        lead=None,
        port_name="master",
        port=36543,
        processes_env="PADDLE_NPROC_PER_NODE",
        injected=frozenset(
            {
                "PYTHONUNBUFFERED",
                "POD_IP_DUMMY",
                "PADDLE_JOB_ID",
                "PADDLE_NNODES",
                "PADDLE_MASTER",
                "PADDLE_SERVER_NUM",
                "PADDLE_TRAINER_NUM",
            }
        ),
    ),
}

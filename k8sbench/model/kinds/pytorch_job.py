"""The PyTorchJob of the training operator v1.9: one Master, the rest Workers.

Variables, their values and order are read from its source (``pkg/controller.v1/pytorch/envvar.go``,
``…/pytorch/master.go``) and were seen in pods of a real cluster.
"""

from __future__ import annotations

from k8sbench.model.kinds.kind import InjectedVariable, JobKind

KIND = JobKind(
    name="PyTorchJob",
    plural="pytorchjobs",
    default_for=("pytorch",),
    replicas_key="pytorchReplicaSpecs",
    lead="Master",
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    # Without it the operator says "auto", counts one process per replica in WORLD_SIZE, and
    # torchrun starts as many processes as it finds GPUs, or CPU cores.
    processes_field="nprocPerNode",
    launcher=("python3", "-m", "torch.distributed.run", "-m", "k8sbench.trainers.{module}"),
    variables=(
        InjectedVariable("PYTHONUNBUFFERED", "1"),
        InjectedVariable("MASTER_PORT", "{port}", needs_lead=True),
        InjectedVariable("PET_MASTER_PORT", "{port}", needs_lead=True),
        InjectedVariable("MASTER_ADDR", "{address}", needs_lead=True),
        InjectedVariable("PET_MASTER_ADDR", "{address}", needs_lead=True),
        InjectedVariable("WORLD_SIZE", "{world_size}", needs_lead=True),
        InjectedVariable("RANK", "{rank}", needs_lead=True),
        InjectedVariable("PET_NODE_RANK", "{rank}", needs_lead=True),
        InjectedVariable("PET_NPROC_PER_NODE", "{processes}"),
        InjectedVariable("PET_NNODES", "{replicas}"),
    ),
    init_container=True,
)

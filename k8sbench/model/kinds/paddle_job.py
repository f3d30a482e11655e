"""The PaddleJob of the training operator v1.9: Workers alone.

Variables, their values and order are read from its source
(``pkg/controller.v1/paddlepaddle/envvar.go``) and were seen in pods of a real cluster.
"""

from __future__ import annotations

from k8sbench.model.kinds.kind import InjectedVariable, JobKind

_TRAINERS = "{mount}/k8sbench/trainers"

KIND = JobKind(
    name="PaddleJob",
    plural="paddlejobs",
    default_for=("paddle",),
    replicas_key="paddleReplicaSpecs",
    # A PaddleJob with a Master runs a parameter server; all-reduce wants workers alone.
    lead=None,
    container="paddle",
    port_name="master",
    port=36543,
    processes_env="PADDLE_NPROC_PER_NODE",
    launcher=("python3", f"{_TRAINERS}/paddle_launch.py", f"{_TRAINERS}/{{module}}.py"),
    variables=(
        InjectedVariable("PYTHONUNBUFFERED", "1"),
        InjectedVariable("PADDLE_JOB_ID", "{job}"),
        InjectedVariable("PADDLE_NNODES", "{replicas}"),
        InjectedVariable("POD_IP_DUMMY", "{pod_ip}", of="first"),
        InjectedVariable("PADDLE_MASTER", "$(POD_IP_DUMMY):{port}", of="first"),
        InjectedVariable("PADDLE_MASTER", "{address}:{port}", of="others"),
    ),
    # Of jobs with a parameter server.
    variables_of_others=frozenset({"PADDLE_SERVER_NUM", "PADDLE_TRAINER_NUM"}),
    # A pod's address and number, which paddle.distributed.launch takes from the pod.
    local=(
        InjectedVariable("POD_IP", "{pod_ip}"),
        InjectedVariable("PADDLE_RANK", "{rank}"),
    ),
)

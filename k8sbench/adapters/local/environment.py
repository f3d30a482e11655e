"""What the training operator would put into a replica's environment, and the ground it stands on.

Read from the source of training-operator v1.9.3 (``pkg/controller.v1/pytorch/envvar.go``,
``…/pytorch/master.go``, ``…/paddlepaddle/envvar.go``) and seen in pods of a real cluster: names,
values and order. Addresses and ports come in as arguments; nothing here looks at the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from k8sbench.adapters.local.manifest import Job, Replica

Variables = list[tuple[str, str]]
"""In a container's order: a later one may refer to an earlier one, the last of a name counts."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the job's processes meet."""

    address: str
    """The name of the leading replica's service; a loopback address on one machine."""
    port: int


def injected(job: Job, replica: Replica, meeting: Endpoint, *, pod_ip: str) -> Variables:
    """Give the variables that the operator appends to the container of ``replica``."""
    inject = {"PyTorchJob": _for_pytorch, "PaddleJob": _for_paddle}[job.kind]
    return inject(job, replica, meeting, pod_ip)


def _for_pytorch(job: Job, replica: Replica, meeting: Endpoint, _pod_ip: str) -> Variables:
    found = [("PYTHONUNBUFFERED", "1")]
    if "Master" in job.counts:
        rank = replica.index + (1 if replica.type == "Worker" else 0)
        # "auto" and its like count as one process per replica.
        each = int(job.processes) if re.fullmatch(r"[+-]?\d+", job.processes) else 1
        found += [
            ("MASTER_PORT", str(meeting.port)),
            ("PET_MASTER_PORT", str(meeting.port)),
            ("MASTER_ADDR", meeting.address),
            ("PET_MASTER_ADDR", meeting.address),
            ("WORLD_SIZE", str(sum(job.counts.values()) * each)),
            ("RANK", str(rank)),
            ("PET_NODE_RANK", str(rank)),
        ]
    return [
        *found,
        ("PET_NPROC_PER_NODE", job.processes),
        ("PET_NNODES", str(sum(job.counts.values()))),
    ]


def _for_paddle(job: Job, replica: Replica, meeting: Endpoint, pod_ip: str) -> Variables:
    # With a Master the job runs a parameter server, which no trainer of ours is: `manifest`
    # refuses it.
    found = [
        ("PYTHONUNBUFFERED", "1"),
        ("PADDLE_JOB_ID", job.name),
        ("PADDLE_NNODES", str(sum(job.counts.values()))),
    ]
    if replica.index == 0:
        return [
            *found,
            ("POD_IP_DUMMY", pod_ip),
            ("PADDLE_MASTER", f"$(POD_IP_DUMMY):{meeting.port}"),
        ]
    return [*found, ("PADDLE_MASTER", f"{meeting.address}:{meeting.port}")]


def resolved(variables: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Resolve a container's variables as the kubelet does: in order, ``$(EARLIER)`` filled in."""
    found: dict[str, str] = {}
    for name, value in variables:
        found[name] = expanded(value, found)
    return found


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Fill in ``$(NAME)``; what is not known stays as it is, and ``$$(NAME)`` means ``$(NAME)``."""

    def fill(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", fill, text)


KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ"),
        *("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"),
        *("PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH", "XDG_CACHE_HOME"),
        *("CUDA_HOME", "CUDA_PATH", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    }
)
"""What a replica keeps of the user's environment, beside ``LC_*``: what Python and its packages
need to be found. All else stays out: a RANK, PET_*, PADDLE_* or NCCL_* left from other work would
change the job, and a proxy would stand between replicas that talk HTTP to each other."""

OF_THE_IMAGE = frozenset({"HOME", "USER", "LOGNAME", "PATH", "LD_LIBRARY_PATH"})
"""Variables of the manifest that describe the image's file system and user, not this machine's."""


def ground(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep of the user's environment what a replica may see."""
    return {name: environ[name] for name in environ if name in KEPT or name.startswith("LC_")}


def joined_path(first: str | None, second: str | None) -> str:
    """Join two search paths, leaving out what is empty."""
    return ":".join(part for part in (first, second) if part)


def threads_per_process(cores: int, processes: int) -> int:
    """Share the machine's cores among the job's processes: a thread each at least."""
    return max(1, cores // processes)


def port_range(replica: int, replicas: int, first_ephemeral: int) -> str | None:
    """Give each replica ports of its own below those that the kernel hands out to anyone.

    Paddle's launcher looks for free ports first and its ranks bind them seconds later: two
    launchers on one machine, or any outgoing connection, may take one in between. None where the
    kernel hands out nearly all of them.
    """
    lowest, least = 10_000, 64
    size = (first_ephemeral - lowest) // replicas
    if size < least:
        return None
    start = lowest + replica * size
    return f"{start}:{start + size - 1}"

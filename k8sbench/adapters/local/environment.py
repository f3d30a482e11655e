"""What a job's operator would put into a replica's environment, and what it is given beside.

The operator's variables are computed from the job kind. Addresses and ports come in as arguments;
nothing here looks at the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from k8sbench.adapters.local.manifest import ManifestJob, ManifestPod
from k8sbench.model.kinds import KINDS
from k8sbench.model.kinds.kind import Variables


def injected(
    job: ManifestJob, replica: ManifestPod, address: str, port: int, *, pod_ip: str
) -> Variables:
    """Return the variables that the operator appends to the container of ``replica``.

    The job's processes meet at ``address``, the name of the leading replica's service or a loopback
    address, and ``port``.
    """
    kind = KINDS[job.kind]
    values = {
        "job": job.name,
        "rank": [other.name for other in job.replicas].index(replica.name),
        "replicas": len(job.replicas),
        "processes": job.processes,
        "address": address,
        "port": port,
        "pod_ip": pod_ip,
    }
    return kind.injected(values, has_lead=kind.types[0] in job.counts)


def resolved(variables: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Resolve a container's variables as the kubelet does: in order, ``$(EARLIER)`` filled in."""
    values: dict[str, str] = {}
    for name, value in variables:
        values[name] = expanded(value, values)
    return values


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


def users_own(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep of the user's environment what a replica may see."""
    return {name: environ[name] for name in environ if name in KEPT or name.startswith("LC_")}


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

"""A job's replicas as commands of this machine; pure.

The command is the manifest's, except that ``python3`` becomes the Python of k8sbench, paths below
the container's mounts become local ones, and ``$(NAME)`` is filled in as by the kubelet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from k8sbench.adapters.local.manifest import LOOPBACK, ManifestJob, ManifestPod
from k8sbench.model.kinds import KINDS, Variables, filled
from k8sbench.model.planning import TRAINERS_MOUNT

PYTHONS = ("python3", "python")
"""Words of a command that mean the Python that k8sbench runs on."""
MARK = "K8SBENCH_LOCAL_REPLICA"
"""``RUN/REPLICA`` in the environment of all processes of a replica: whose process it is."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of this machine for one job."""

    python: str
    """The interpreter that runs k8sbench."""
    library: Path
    """Folder of the package k8sbench, in place of an image's trainers."""
    environ: Mapping[str, str]
    """The user's environment."""
    cores: int
    port: int
    """Rendezvous port of the job's processes, reserved for it."""
    gpus: Sequence[str] | None
    """Value of CUDA_VISIBLE_DEVICES of each replica; None on a machine without GPUs."""
    work: Path | None = None
    """Parent of the replicas' working folders; None for our trainers."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One replica, ready to start."""

    replica: str
    command: tuple[str, ...]
    environ: dict[str, str]
    """All of it."""
    cwd: str
    scratch: str
    """The replica's private folder; it is gone when the replica is."""
    folders: tuple[str, ...]
    """Below ``scratch``, to be made."""


def launches(
    job: ManifestJob, machine: Machine, mounts: Path, scratches: Sequence[str]
) -> tuple[Launch, ...]:
    """Prepare every replica; ``mounts`` holds the materialised files of the job's volumes."""
    return tuple(
        _launch(job, replica, number, machine, mounts, scratch)
        for number, (replica, scratch) in enumerate(zip(job.replicas, scratches, strict=True))
    )


def _launch(
    job: ManifestJob,
    replica: ManifestPod,
    number: int,
    machine: Machine,
    mounts: Path,
    scratch: str,
) -> Launch:
    here = {"mounts": str(mounts), "scratch": scratch}
    places = {path: place.format_map(here) for path, place in replica.places.items()}
    temporary = f"{scratch}/temporary"
    own = (place for place in places.values() if place.startswith(f"{scratch}/"))
    folders = (temporary, *own)
    # Images have the trainers at the mount point of the ConfigMap.
    places.setdefault(TRAINERS_MOUNT, str(machine.library))
    operator = injected(job, replica, LOOPBACK, machine.port, pod_ip=LOOPBACK)
    given = [
        (name, placed(value, places)) for name, value in replica.env if name not in OF_THE_IMAGE
    ]
    container = resolved([*given, *operator])
    cwd = placed(replica.workdir, places) if replica.workdir else scratch
    if cwd == replica.workdir:  # a folder of the image
        cwd = scratch
    if machine.work is not None:
        cwd = f"{machine.work}/{replica.name}"
    local = {"TMPDIR": temporary} | _local(job, replica, number, machine, container, cwd)
    kept = users_own(machine.environ)
    search = [values["PYTHONPATH"] for values in (container, kept) if values.get("PYTHONPATH")]
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": scratch} | kept | container | local
    environ[MARK] = f"{job.name}/{replica.name}"
    if machine.work is not None:
        # torchrun and other programs of this Python.
        environ["PATH"] = f"{Path(machine.python).parent}:{environ['PATH']}"
    if search:
        environ["PYTHONPATH"] = ":".join(search)
    words = [placed(expanded(word, container), places) for word in replica.command]
    return Launch(
        replica=replica.name,
        command=(machine.python if words[0] in PYTHONS else words[0], *words[1:]),
        environ=environ,
        cwd=cwd,
        scratch=scratch,
        folders=folders,
    )


def _local(
    job: ManifestJob,
    replica: ManifestPod,
    number: int,
    machine: Machine,
    container: Mapping[str, str],
    cwd: str,
) -> dict[str, str]:
    """Give what replicas that share a machine need, and pods have by themselves."""
    replicas = len(job.replicas)
    # The loopback link is the only one that is sure to reach the other replicas, whatever the
    # machine's own name resolves to.
    variables = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    if "OMP_NUM_THREADS" not in container:
        processes = replicas * processes_per_replica(job, replica)
        variables["OMP_NUM_THREADS"] = str(max(1, machine.cores // processes))
    values = {"pod_ip": LOOPBACK, "rank": number, "cwd": cwd}
    variables |= {
        name: value
        for name, value in filled(KINDS[job.kind].local, values)
        if name not in container
    }
    if machine.gpus is not None:
        # The order of NVML and nvidia-smi; the default of CUDA is the fastest first.
        variables |= {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": machine.gpus[number],
        }
    return variables


def processes_per_replica(job: ManifestJob, replica: ManifestPod) -> int:
    """Return a replica's processes as the job says; 1 for ``auto``."""
    said = dict(replica.env).get(KINDS[job.kind].processes_env or "", job.processes)
    return int(said) if said.isdigit() and int(said) else 1


def placed(text: str, places: Mapping[str, str]) -> str:
    """Replace the container's paths in ``text`` by this machine's.

    A path counts where a word begins or after ``=``, ``:`` or ``,``, up to its end or a slash: in
    ``--log_dir=/tmp/x`` and ``/tmp:/opt``, not in ``/tmpfs`` or ``s3://tmp/x``.
    """
    if not places:
        return text
    known = "|".join(re.escape(path) for path in sorted(places, key=len, reverse=True))
    return re.sub(
        rf"(?:(?<=^)|(?<=[=:,]))({known})(?=[/:,]|$)", lambda match: places[match[1]], text
    )


# --- the environment: what the operator would put into it, and what of the user's stays ----------


def injected(
    job: ManifestJob, replica: ManifestPod, address: str, port: int, *, pod_ip: str
) -> Variables:
    """Return the variables that the operator appends to the container of ``replica``.

    The job's processes meet at ``address``, the name of the leading replica's service or a loopback
    address, and ``port``.
    """
    values = {
        "job": job.name,
        "rank": [other.name for other in job.replicas].index(replica.name),
        "replicas": len(job.replicas),
        "processes": job.processes,
        "address": address,
        "port": port,
        "pod_ip": pod_ip,
    }
    return KINDS[job.kind].injected(values)


def resolved(variables: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Resolve a container's variables as the kubelet does: in order, ``$(EARLIER)`` filled in."""
    values: dict[str, str] = {}
    for name, value in variables:
        values[name] = expanded(value, values)
    return values


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Fill in ``$(NAME)``; unknown names stay, ``$$(NAME)`` is ``$(NAME)``."""

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
"""Variables that a replica inherits from the user, besides ``LC_*``.

Python and its packages need them. Others stay out: a leftover RANK, PET_*, PADDLE_* or NCCL_* would
change the job, and a proxy would break HTTP between replicas.
"""

OF_THE_IMAGE = frozenset({"HOME", "USER", "LOGNAME", "PATH", "LD_LIBRARY_PATH"})
"""Variables of the image's file system and user, not of this machine."""


def users_own(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep of the user's environment what a replica may see."""
    return {name: environ[name] for name in environ if name in KEPT or name.startswith("LC_")}

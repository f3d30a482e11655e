"""A rendered job as commands of this machine; pure.

Only the form that k8sbench renders is understood. What a machine without Kubernetes cannot honour
(image, resources, node selection, security context) is not read. Planning has refused what needs
something of a cluster: a claim, a Secret.

A program is refused that is neither one of k8sbench's own trainers nor confirmed by the user. On a
cluster a container's command runs inside its image, behind the pod's walls. Here it would run as
the user, on the user's machine. So a plan must be of one of our trainers, from which planning alone
makes the command, and no variable may make that command load other code; or it is of the user's own
file, and the user has agreed to run its command here.

The command is the manifest's, except that ``python3`` becomes the Python of k8sbench, paths below
the container's mounts become local ones, and ``$(NAME)`` is filled in as by the kubelet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.catalog.planning import TRAINERS_MOUNT
from k8sbench.model.errors import UsageError
from k8sbench.model.job_kind import Variables, fill_variables
from k8sbench.model.kinds import KINDS
from k8sbench.model.plan import RunPlan


class ManifestPod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of the job."""

    name: str
    """``master-0``, ``worker-1``."""
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    workdir: str | None
    places: dict[str, str]
    """Container folder → local folder.

    ``{mounts}`` is the folder of the job's volumes, ``{scratch}`` the replica's own.
    """


class ManifestJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job, of any kind that k8sbench knows."""

    kind: str
    name: str
    processes: str
    """Processes per replica, as passed by the operator, or ``auto``."""
    replicas: tuple[ManifestPod, ...]
    """The leading one first."""
    files: dict[str, dict[str, bytes]]
    """Files of its ConfigMaps: volume → relative path → contents."""


LOOPBACK = "127.0.0.1"
"""Address of the rendezvous on one machine."""
_OF_MACHINE = frozenset({"/dev/shm", "/tmp"})  # noqa: S108
"""Container paths that are also this machine's.

A user's ``--data`` may be in ``/tmp``; TMPDIR is a folder of the replica.
"""


def read_job(manifests: Sequence[Mapping[str, Any]], *, node: str) -> ManifestJob:
    """Read the job and the ConfigMaps that it mounts; ``node`` is this machine's name."""
    job = next(object_ for object_ in manifests if object_["kind"] in KINDS)
    name = job["metadata"]["name"]
    kind = KINDS[job["kind"]]
    spec = job["spec"]
    configs = {
        object_["metadata"]["name"]: object_["data"] for object_ in manifests if object_ is not job
    }
    replicas: list[ManifestPod] = []
    files: dict[str, dict[str, bytes]] = {}
    for type_ in kind.types:
        if type_ not in spec[kind.replicas_key]:
            continue
        group = spec[kind.replicas_key][type_]
        pod = group["template"]["spec"]
        container = next(
            object_ for object_ in pod["containers"] if object_["name"] == kind.container
        )
        command = tuple(str(word) for word in (*container["command"], *container.get("args", ())))
        volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
        places: dict[str, str] = {}
        for mount in container.get("volumeMounts", ()):
            path = mount["mountPath"].rstrip("/")
            volume = volumes[mount["name"]]
            if "configMap" in volume:
                places[path] = f"{{mounts}}/{volume['name']}"
                source = volume["configMap"]
                data = configs[source["name"]]
                files[volume["name"]] = {
                    item["path"]: data[item["key"]].encode() for item in source["items"]
                }
            elif "emptyDir" in volume and path not in _OF_MACHINE:
                places[path] = f"{{scratch}}/{volume['name']}"
        for index in range(group.get("replicas", 1)):
            replica = f"{type_.lower()}-{index}"
            fields = {
                "metadata.name": f"{name}-{replica}",
                "spec.nodeName": node,
                "status.hostIP": LOOPBACK,
                "status.podIP": LOOPBACK,
            }
            pod_here = ManifestPod(
                name=replica,
                command=command,
                env=tuple(_variable(entry, fields) for entry in container.get("env", ())),
                workdir=container.get("workingDir"),
                places=places,
            )
            replicas.append(pod_here)
    return ManifestJob(
        kind=job["kind"],
        name=name,
        processes=str(spec.get(kind.processes_field, "auto")),
        replicas=tuple(replicas),
        files=files,
    )


def _variable(entry: Mapping[str, Any], fields: Mapping[str, str]) -> tuple[str, str]:
    if "valueFrom" not in entry:
        return entry["name"], str(entry.get("value", ""))
    return entry["name"], fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]


_LOADING = re.compile(
    r"LD_(?!LIBRARY_PATH$).*|PYTHON(HOME|STARTUP|INSPECT|BREAKPOINT|USERBASE|PLATLIBDIR)"
    # torchrun takes every option from a variable, too; these change neither program nor job.
    r"|PET_(?!(MAX_RESTARTS|MONITOR_INTERVAL|RDZV_CONF|ROLE|LOG_DIR|REDIRECTS|TEE)$).*"
)
"""Variables that load other code into our program. LD_LIBRARY_PATH is the image's: left out."""


def check_command(plan: RunPlan, command: Sequence[str]) -> None:
    """Raise :class:`UsageError` unless ``command`` starts the trainer of ``plan`` with Python."""
    ours = {
        f"k8sbench.trainers.{plan.trainer}",
        f"{TRAINERS_MOUNT}/k8sbench/trainers/{plan.trainer}.py",
    }
    if plan.trainer is None or command[0] != "python3" or ours.isdisjoint(command):
        raise UsageError(
            "The local backend runs k8sbench's own trainers alone, not this command of"
            f" {plan.benchmark} ({plan.impl}): {' '.join(command)}",
            "Run it on a cluster, where it stays inside its image.",
        )


def is_own(plan: RunPlan) -> bool:
    """Return True for a command of the user's file, which needs confirmation."""
    return plan.impl == "user"


def home(plan: RunPlan) -> Path | None:
    """Return what a user's own command takes relative paths from; None for our trainers."""
    return Path(plan.spec_source).absolute().parent if is_own(plan) else None


def check_variables(variables: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` if a variable of the manifest would change which code runs."""
    for name, value in variables.items():
        if _LOADING.fullmatch(name) or (name == "PYTHONPATH" and value != TRAINERS_MOUNT):
            raise UsageError(
                f"The local backend runs k8sbench's own trainers alone, and {name} would load"
                " other code.",
                f"Leave {name} out of the benchmark's env, or run it on a cluster.",
            )


# --- commands of this machine ---------------------------------------------------------------------

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


def launched(job: ManifestJob, number: int, machine: Machine, mounts: Path, scratch: str) -> Launch:
    """Prepare a replica; ``mounts`` holds the materialised files of the job's volumes."""
    replica = job.replicas[number]
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
    local = {"TMPDIR": temporary} | _local(job, number, machine, container, cwd)
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
    job: ManifestJob, number: int, machine: Machine, container: Mapping[str, str], cwd: str
) -> dict[str, str]:
    """Give what replicas that share a machine need, and pods have by themselves."""
    # The loopback link is the only one that is sure to reach the other replicas, whatever the
    # machine's own name resolves to.
    variables = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    if "OMP_NUM_THREADS" not in container:
        processes = len(job.replicas) * processes_per_replica(job, job.replicas[number])
        variables["OMP_NUM_THREADS"] = str(max(1, machine.cores // processes))
    values = {"pod_ip": LOOPBACK, "rank": number, "cwd": cwd}
    variables |= {
        name: value
        for name, value in fill_variables(KINDS[job.kind].local, values)
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
    return KINDS[job.kind].injected_variables(values)


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
        # Whether threads spin or sleep on cores that they share is this machine's matter.
        *("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"),
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

"""Reads a rendered job back: what its replicas run on one machine.

Only the form that k8sbench renders is understood. What a machine without Kubernetes cannot honour
(image, resources, node selection, security context) is not read. A command or a variable that needs
something of a cluster is refused.

So is a program that is neither one of k8sbench's own trainers nor confirmed by the user. On a
cluster a container's command runs inside its image, behind the pod's walls. Here it would run as
the user, on the user's machine. So a plan must be of one of our trainers, from which planning alone
makes the command, and no variable may make that command load other code; or it is of the user's own
file, and the user has agreed to run its command here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.kinds import KINDS
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import TRAINERS_MOUNT

Kind = Literal["files", "scratch", "machine", "absent"]
"""What a mount is here: files of a ConfigMap; an empty folder of the replica's own; this machine's
folder of the same name; nothing."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One folder that the container sees under a path of its own."""

    path: str
    """Where the container sees it."""
    volume: str
    kind: Kind


class ManifestPod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of the job."""

    name: str
    """``master-0``, ``worker-1``."""
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    workdir: str | None
    mounts: tuple[Mount, ...]


class ManifestJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job, of any kind that k8sbench knows."""

    kind: str
    name: str
    processes: str
    """Per replica, as the operator hands it on; ``auto`` where the job does not say."""
    counts: dict[str, int]
    """Replicas by type."""
    replicas: tuple[ManifestPod, ...]
    """The leading one first."""
    files: dict[str, dict[str, bytes]]
    """Of the mounts of kind ``files``: volume → relative path → contents."""


LOOPBACK = "127.0.0.1"
"""Where the replicas of one machine meet."""
_OF_MACHINE = frozenset({"/dev/shm", "/tmp"})  # noqa: S108
"""Paths inside the container that are this machine's: a user's ``--data`` may lie in ``/tmp``, and
TMPDIR names a folder of the replica's own."""


def read(manifests: Sequence[Mapping[str, Any]], *, node: str) -> ManifestJob:
    """Read the job and the ConfigMaps that it mounts; ``node`` is this machine's name."""
    job = next(object_ for object_ in manifests if object_["kind"] in KINDS)
    name, kind, spec = job["metadata"]["name"], KINDS[job["kind"]], job["spec"]
    configs = {
        object_["metadata"]["name"]: object_["data"] for object_ in manifests if object_ is not job
    }
    counts: dict[str, int] = {}
    replicas: list[ManifestPod] = []
    files: dict[str, dict[str, bytes]] = {}
    for type_ in kind.types:
        if type_ not in spec[kind.replicas_key]:
            continue
        group = spec[kind.replicas_key][type_]
        counts[type_] = group.get("replicas", 1)
        pod = group["template"]["spec"]
        container = next(
            object_ for object_ in pod["containers"] if object_["name"] == kind.container
        )
        volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
        mounts = tuple(_mount(entry, volumes) for entry in container.get("volumeMounts", ()))
        for mount in mounts:
            if mount.kind == "files":
                source = volumes[mount.volume]["configMap"]
                data = configs.get(source["name"])
                if data is None:
                    raise _refused("Its trainers are not those of this k8sbench.")
                files[mount.volume] = {
                    item["path"]: data[item["key"]].encode() for item in source["items"]
                }
        replicas += [
            _replica(name, f"{type_.lower()}-{index}", container, mounts, node)
            for index in range(counts[type_])
        ]
    return ManifestJob(
        kind=job["kind"],
        name=name,
        processes=str(spec.get(kind.processes_field, "auto")),
        counts=counts,
        replicas=tuple(replicas),
        files=files,
    )


def _replica(
    job: str, name: str, container: Mapping[str, Any], mounts: tuple[Mount, ...], node: str
) -> ManifestPod:
    command = tuple(str(word) for word in (*container["command"], *container.get("args", ())))
    for mount in mounts:
        used = next((word for word in command if _names(word, mount.path)), None)
        if mount.kind == "absent" and used is not None:
            raise _refused(f"The command reads {used} from volume {mount.volume} of a cluster.")
    fields = {
        "metadata.name": f"{job}-{name}",
        "spec.nodeName": node,
        "status.hostIP": LOOPBACK,
        "status.podIP": LOOPBACK,
    }
    return ManifestPod(
        name=name,
        command=command,
        env=tuple(_variable(entry, fields) for entry in container.get("env", ())),
        workdir=container.get("workingDir"),
        mounts=mounts,
    )


def _names(word: str, path: str) -> bool:
    return f"{word}/".startswith(f"{path.rstrip('/')}/")


def _mount(entry: Mapping[str, Any], volumes: Mapping[str, Any]) -> Mount:
    name, path = entry["name"], entry["mountPath"]
    volume = volumes[name]
    if "configMap" in volume:
        return Mount(path=path, volume=name, kind="files")
    if "emptyDir" in volume:
        return Mount(path=path, volume=name, kind="machine" if path in _OF_MACHINE else "scratch")
    return Mount(path=path, volume=name, kind="absent")


def _variable(entry: Mapping[str, Any], fields: Mapping[str, str]) -> tuple[str, str]:
    if "valueFrom" not in entry:
        return entry["name"], str(entry.get("value", ""))
    field = entry["valueFrom"].get("fieldRef", {}).get("fieldPath")
    if field not in fields:
        raise _refused(f"Variable {entry['name']} takes its value from a cluster.")
    return entry["name"], fields[field]


def _refused(message: str) -> UsageError:
    return UsageError(
        f"The local backend cannot run this job. {message}",
        "Run it on a cluster, or print it with k8sbench render.",
    )


_LOADING = re.compile(
    r"LD_(?!LIBRARY_PATH$).*|PYTHON(HOME|STARTUP|INSPECT|BREAKPOINT|USERBASE|PLATLIBDIR)"
    # torchrun takes every option from a variable, too; these change neither program nor job.
    r"|PET_(?!(MAX_RESTARTS|MONITOR_INTERVAL|RDZV_CONF|ROLE|LOG_DIR|REDIRECTS|TEE)$).*"
)
"""Variables that load other code into our program. LD_LIBRARY_PATH is the image's: left out."""


def check(plan: RunPlan, command: Sequence[str]) -> None:
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
    """Whether the command is one of the user's own file, which the user must confirm."""
    return plan.impl == "user"


def home(plan: RunPlan) -> str | None:
    """Return where a command of the user's own starts: beside its file; None for our trainers."""
    return str(Path(plan.spec_source).absolute().parent) if is_own(plan) else None


def check_variables(variables: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` if a variable of the manifest would change which code runs."""
    for name, value in variables.items():
        if _LOADING.fullmatch(name) or (name == "PYTHONPATH" and value != TRAINERS_MOUNT):
            raise UsageError(
                f"The local backend runs k8sbench's own trainers alone, and {name} would load"
                " other code.",
                f"Leave {name} out of the benchmark's env, or run it on a cluster.",
            )

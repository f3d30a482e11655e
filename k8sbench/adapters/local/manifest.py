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
from typing import Any

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.kinds import KINDS
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import TRAINERS_MOUNT


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


def read(manifests: Sequence[Mapping[str, Any]], *, node: str) -> ManifestJob:
    """Read the job and the ConfigMaps that it mounts; ``node`` is this machine's name."""
    job = next(object_ for object_ in manifests if object_["kind"] in KINDS)
    name, kind, spec = job["metadata"]["name"], KINDS[job["kind"]], job["spec"]
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
            path, volume = mount["mountPath"].rstrip("/"), volumes[mount["name"]]
            if "configMap" in volume:
                places[path] = f"{{mounts}}/{volume['name']}"
                files[volume["name"]] = _files(volume["configMap"], configs)
            elif "emptyDir" in volume and path not in _OF_MACHINE:
                places[path] = f"{{scratch}}/{volume['name']}"
            elif "emptyDir" not in volume:
                used = (word for word in command if f"{word}/".startswith(f"{path}/"))
                for word in used:
                    reads = f"The command reads {word} from volume {volume['name']} of a cluster."
                    raise _refused(reads)
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


def _files(source: Mapping[str, Any], configs: Mapping[str, Mapping[str, str]]) -> dict[str, bytes]:
    data = configs.get(source["name"])
    if data is None:
        raise _refused("Its trainers are not those of this k8sbench.")
    return {item["path"]: data[item["key"]].encode() for item in source["items"]}


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

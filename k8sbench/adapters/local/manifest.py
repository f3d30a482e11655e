"""Reads a rendered job back: what its replicas run, and what of it has no meaning on one machine.

Only the form that k8sbench renders is understood. What a machine without Kubernetes cannot honour
(image, resources, node selection, security context) is listed in :attr:`Job.ignored`. A command or
a variable that needs something of a cluster is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.kinds import KINDS
from k8sbench.model.kinds.kind import JobKind

Kind = Literal["files", "scratch", "temporary", "machine", "absent"]
"""What a mount is here: files of a ConfigMap; an empty folder of the replica's own; the same for
``/tmp``, which stays the machine's for those who name it (a user's ``--data`` may lie there) and
has TMPDIR instead; this machine's folder of the same name (``/dev/shm``); nothing."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One folder that the container sees under a path of its own."""

    path: str
    """Where the container sees it."""
    volume: str
    kind: Kind


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of the job."""

    name: str
    """``master-0``, ``worker-1``."""
    type: str
    """Its replica type: ``Master``, ``Worker``."""
    index: int
    """Within its type."""
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    workdir: str | None
    mounts: tuple[Mount, ...]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job, of any kind that k8sbench knows."""

    kind: str
    name: str
    processes: str
    """Per replica, as the operator hands it on; ``auto`` where the job does not say."""
    counts: dict[str, int]
    """Replicas by type."""
    replicas: tuple[Replica, ...]
    """The leading one first."""
    files: dict[str, dict[str, bytes]]
    """Of the mounts of kind ``files``: volume → relative path → contents."""
    ignored: tuple[str, ...]
    """What the manifest says and this machine does not do, each in a few words."""


LOOPBACK = "127.0.0.1"
"""Where the replicas of one machine meet."""
# Paths inside the container.
_EMPTY: dict[str, Kind] = {"/dev/shm": "machine", "/tmp": "temporary"}  # noqa: S108
_INSTEAD: dict[Kind, str] = {
    "temporary": "TMPDIR names a folder of the replica's own instead",
    "machine": "the machine's own is used",
    "absent": "absent",
}

# Fields that are carried out. Every other one is listed as ignored.
_OF_POD = frozenset({"containers", "volumes"})
_OF_CONTAINER = frozenset({"name", "command", "args", "env", "workingDir", "volumeMounts"})


def read(manifests: Sequence[Mapping[str, Any]], *, node: str) -> Job:
    """Read the job and the ConfigMaps that it mounts; ``node`` is this machine's name."""
    jobs = [m for m in manifests if m.get("kind") in KINDS]
    configs = {m["metadata"]["name"]: m for m in manifests if m.get("kind") == "ConfigMap"}
    foreign = [str(m.get("kind")) for m in manifests if m.get("kind") not in {*KINDS, "ConfigMap"}]
    if len(jobs) != 1 or foreign:
        said = ", ".join(str(m.get("kind")) for m in manifests) or "nothing"
        raise _refused(f"One {' or '.join(KINDS)} and its ConfigMaps can run, not: {said}.")
    (job,) = jobs
    kind = KINDS[job["kind"]]
    spec = job["spec"]
    types = spec[kind.replicas_key]
    if not types or set(types) - {*kind.types}:
        raise _refused(
            f"A {job['kind']} of {', '.join(types) or 'no replicas'} cannot run;"
            f" ours has {' and '.join(kind.types)}."
        )
    ignored: dict[str, None] = {
        f"{job['kind']}: {field}": None
        for field in sorted(spec.keys() - {kind.processes_field, kind.replicas_key})
    }
    counts: dict[str, int] = {}
    replicas: list[Replica] = []
    files: dict[str, dict[str, bytes]] = {}
    for name in (name for name in kind.types if name in types):
        counts[name] = types[name].get("replicas", 1)
        if types[name].get("restartPolicy", "Never") != "Never":
            ignored[f"{name}: restartPolicy {types[name]['restartPolicy']}"] = None
        template = _replica(job["metadata"]["name"], kind, name, types[name]["template"], configs)
        replicas += [template.replica(index, node) for index in range(counts[name])]
        files |= template.files
        ignored.update(dict.fromkeys(template.ignored))
    return Job(
        kind=job["kind"],
        name=job["metadata"]["name"],
        processes=str(spec.get(kind.processes_field, "auto")),
        counts=counts,
        replicas=tuple(replicas),
        files=files,
        ignored=tuple(ignored),
    )


class _Template(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    type: str
    command: tuple[str, ...]
    env: tuple[Any, ...]
    workdir: str | None
    mounts: tuple[Mount, ...]
    files: dict[str, dict[str, bytes]]
    ignored: tuple[str, ...]

    def replica(self, index: int, node: str) -> Replica:
        name = f"{self.type.lower()}-{index}"
        fields = {
            "metadata.name": f"{self.job}-{name}",
            "spec.nodeName": node,
            "status.hostIP": LOOPBACK,
            "status.podIP": LOOPBACK,
        }
        return Replica(
            name=name,
            type=self.type,
            index=index,
            command=self.command,
            env=tuple(_variable(entry, fields) for entry in self.env),
            workdir=self.workdir,
            mounts=self.mounts,
        )


def _replica(
    job: str, kind: JobKind, name: str, template: Mapping[str, Any], configs: Mapping[str, Any]
) -> _Template:
    pod = template["spec"]
    container = next(c for c in pod["containers"] if c["name"] == kind.container)
    command = (*container["command"], *container.get("args", ()))
    ignored = [f"pod: {field}" for field in sorted(pod.keys() - _OF_POD)]
    ignored += [
        f"container {other['name']}" for other in pod["containers"] if other is not container
    ]
    for field in sorted(container.keys() - _OF_CONTAINER):
        value = f" {container[field]}" if isinstance(container[field], str) else ""
        ignored.append(f"container: {field}{value}")
    volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
    mounts = tuple(_mount(entry, volumes) for entry in container.get("volumeMounts", ()))
    files = {
        mount.volume: _files(volumes[mount.volume]["configMap"], configs)
        for mount in mounts
        if mount.kind == "files"
    }
    ignored += [
        f"volume {mount.volume} at {mount.path}: {_INSTEAD[mount.kind]}"
        for mount in mounts
        if mount.kind in _INSTEAD
    ]
    for mount in mounts:
        used = next((word for word in command if _names(word, mount.path)), None)
        if mount.kind == "absent" and used is not None:
            raise _refused(f"The command reads {used} from volume {mount.volume} of a cluster.")
    return _Template(
        job=job,
        type=name,
        command=tuple(str(word) for word in command),
        env=tuple(container.get("env", ())),
        workdir=container.get("workingDir"),
        mounts=mounts,
        files=files,
        ignored=tuple(ignored),
    )


def _names(word: str, path: str) -> bool:
    return f"{word}/".startswith(f"{path.rstrip('/')}/")


def _mount(entry: Mapping[str, Any], volumes: Mapping[str, Any]) -> Mount:
    name, path = entry["name"], entry["mountPath"]
    volume = volumes[name]
    if "configMap" in volume:
        return Mount(path=path, volume=name, kind="files")
    if "emptyDir" in volume:
        return Mount(path=path, volume=name, kind=_EMPTY.get(path, "scratch"))
    return Mount(path=path, volume=name, kind="absent")


def _files(source: Mapping[str, Any], configs: Mapping[str, Any]) -> dict[str, bytes]:
    data = configs[source["name"]]["data"]
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

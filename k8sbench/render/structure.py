"""The shape that rendered objects must have, checked each time before anyone calls them manifests.

It knows exactly the fields that our templates may write, so that a mistyped field, a missing one
or one of the wrong type stops here and not in the operator, and it checks what Kubernetes and the
operator's webhook would check of them. It is light because it runs at every start; the full
schemas (kubeflow-training's models, the operator's CRDs) are checked in tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from k8sbench.model.errors import BenchError
from k8sbench.model.kinds import KINDS
from k8sbench.model.kinds.kind import JobKind
from k8sbench.render import syntax

Text = Annotated[str, Meta(min_length=1)]
MountPath = Annotated[str, Meta(pattern=r"\A/[^:]*\Z")]
Folder = Annotated[str, Meta(pattern=r"\A/")]
JobName = Annotated[str, Meta(pattern=syntax.DNS_1035_LABEL)]
ShortName = Annotated[str, Meta(pattern=syntax.DNS_1123_LABEL)]
ObjectName = Annotated[str, Meta(pattern=syntax.DNS_1123_SUBDOMAIN)]
Key = Annotated[str, Meta(pattern=syntax.QUALIFIED_NAME)]
Quantity = Annotated[str, Meta(pattern=syntax.QUANTITY)]
Labels = dict[Key, Annotated[str, Meta(pattern=syntax.LABEL_VALUE)]]
Annotations = dict[Key, str]
Resources = dict[Key, Quantity]
FieldRef = dict[Literal["fieldRef"], dict[Literal["apiVersion", "fieldPath"], str]]


class _Object(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """A piece of a manifest that refuses fields it does not know."""


class _PodMetadata(_Object, frozen=True):
    labels: Labels
    annotations: Annotations


class _Metadata(_PodMetadata, frozen=True):
    name: JobName


class _EnvVar(_Object, frozen=True, kw_only=True):
    name: Annotated[str, Meta(pattern=syntax.ENV_NAME)]
    value: str | UnsetType = UNSET
    value_from: FieldRef | UnsetType = UNSET


class _Port(_Object, frozen=True):
    name: Annotated[str, Meta(pattern=syntax.DNS_1123_LABEL, max_length=15)]
    container_port: Annotated[int, Meta(ge=1, le=65535)]


class _Limits(_Object, frozen=True):
    requests: Resources
    limits: Resources


class _Capabilities(_Object, frozen=True, kw_only=True):
    drop: tuple[Literal["ALL"]]
    add: tuple[Annotated[str, Meta(pattern=syntax.CAPABILITY)], ...] | UnsetType = UNSET


class _ContainerSecurity(_Object, frozen=True):
    allow_privilege_escalation: bool
    read_only_root_filesystem: bool
    capabilities: _Capabilities


class _Mount(_Object, frozen=True, kw_only=True):
    name: ShortName
    mount_path: MountPath
    read_only: bool | UnsetType = UNSET
    sub_path: Text | UnsetType = UNSET


class _Container(_Object, frozen=True, kw_only=True):
    name: ShortName
    image: Annotated[str, Meta(pattern=syntax.IMAGE)] | UnsetType = UNSET
    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    working_dir: Folder | UnsetType = UNSET
    env: tuple[_EnvVar, ...]
    ports: tuple[_Port]
    resources: _Limits
    security_context: _ContainerSecurity
    volume_mounts: tuple[_Mount, ...]


class _EmptyDir(_Object, frozen=True, kw_only=True):
    medium: Literal["Memory"] | UnsetType = UNSET
    size_limit: Quantity | UnsetType = UNSET


class _Claim(_Object, frozen=True):
    claim_name: ObjectName
    read_only: bool


class _Item(_Object, frozen=True):
    key: Annotated[str, Meta(pattern=syntax.CONFIG_KEY)]
    path: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_./-]+\Z")]


class _ConfigVolume(_Object, frozen=True):
    name: ObjectName
    items: Annotated[tuple[_Item, ...], Meta(min_length=1)]


class _Volume(_Object, frozen=True, kw_only=True):
    name: ShortName
    empty_dir: _EmptyDir | UnsetType = UNSET
    persistent_volume_claim: _Claim | UnsetType = UNSET
    config_map: _ConfigVolume | UnsetType = UNSET

    @property
    def sources(self) -> int:
        """How many kinds of volume it says it is; must be 1."""
        kinds = (self.empty_dir, self.persistent_volume_claim, self.config_map)
        return sum(kind is not UNSET for kind in kinds)


class _PodSecurity(_Object, frozen=True):
    run_as_non_root: bool
    run_as_user: Annotated[int, Meta(ge=0)]
    run_as_group: Annotated[int, Meta(ge=0)]
    seccomp_profile: dict[Literal["type"], Literal["RuntimeDefault"]]


class _Toleration(_Object, frozen=True, kw_only=True):
    operator: Literal["Exists", "Equal"]
    key: Key | UnsetType = UNSET
    value: str | UnsetType = UNSET
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | UnsetType = UNSET


class _PodSpec(_Object, frozen=True, kw_only=True):
    automount_service_account_token: bool
    enable_service_links: bool
    termination_grace_period_seconds: Annotated[int, Meta(ge=1)]
    security_context: _PodSecurity
    host_network: bool | UnsetType = UNSET
    dns_policy: Literal["ClusterFirstWithHostNet"] | UnsetType = UNSET
    node_selector: Labels | UnsetType = UNSET
    tolerations: tuple[_Toleration, ...] | UnsetType = UNSET
    runtime_class_name: ObjectName | UnsetType = UNSET
    priority_class_name: ObjectName | UnsetType = UNSET
    image_pull_secrets: tuple[dict[Literal["name"], ObjectName], ...] | UnsetType = UNSET
    containers: tuple[_Container]
    volumes: tuple[_Volume, ...]


class _PodTemplate(_Object, frozen=True):
    metadata: _PodMetadata
    spec: _PodSpec


class _Replica(_Object, frozen=True):
    replicas: Annotated[int, Meta(ge=1)]
    restart_policy: Literal["Never"]
    template: _PodTemplate


class _RunPolicy(_Object, frozen=True, kw_only=True):
    clean_pod_policy: Literal["None"]
    suspend: bool | UnsetType = UNSET
    scheduling_policy: dict[Literal["minAvailable"], int] | UnsetType = UNSET


class _Job(_Object, frozen=True):
    api_version: str
    kind: str
    metadata: _Metadata
    spec: dict[str, Any]


class _ConfigMap(_Object, frozen=True):
    api_version: Literal["v1"]
    kind: Literal["ConfigMap"]
    metadata: _Metadata
    immutable: bool
    data: dict[Annotated[str, Meta(pattern=syntax.CONFIG_KEY)], str]


def check(manifests: Iterable[Mapping[str, Any]]) -> None:
    """Raise a :class:`BenchError` unless each of ``manifests`` is sound, and they fit together."""
    configs: dict[str, _ConfigMap] = {}
    for manifest in manifests:
        try:
            if manifest.get("kind") == "ConfigMap":
                config = msgspec.convert(manifest, _ConfigMap)
                configs[config.metadata.name] = config
            else:
                _check_job(manifest, configs)
        except (msgspec.ValidationError, _Unsound) as wrong:
            raise BenchError(
                f"The rendered {manifest.get('kind', 'object')} is not sound: {wrong}.",
                "This is a fault of k8sbench's templates, not of your input; please report it.",
            ) from wrong


class _Unsound(Exception):
    """Something that types alone cannot say is wrong."""


def _check_job(manifest: Mapping[str, Any], configs: Mapping[str, _ConfigMap]) -> None:
    job = msgspec.convert(manifest, _Job)
    kind = KINDS.get(job.kind)
    if kind is None or job.api_version != kind.api_version:
        raise _Unsound(f"{job.api_version} {job.kind} is no kind of job that is known")
    known = {kind.replicas_key, "runPolicy", kind.processes_field}
    _require(job.spec.keys() <= known, f"spec has {', '.join(sorted(job.spec.keys() - known))}")
    replicas = msgspec.convert(job.spec.get(kind.replicas_key), dict[str, _Replica])
    policy = msgspec.convert(job.spec.get("runPolicy"), _RunPolicy)
    if kind.processes_field is not None:
        processes = job.spec.get(kind.processes_field)
        _require(
            isinstance(processes, str) and processes.isdigit(),
            f"{kind.processes_field} is {processes!r}, not a number in a string",
        )
    count = sum(replica.replicas for replica in replicas.values())
    _require(
        {name: replica.replicas for name, replica in replicas.items()}
        == dict(kind.replicas(count)),
        f"{kind.replicas_key} has {', '.join(replicas) or 'no replicas'}",
    )
    if policy.scheduling_policy is not UNSET:
        least = policy.scheduling_policy.get("minAvailable")
        _require(least == count, f"minAvailable is {least}, with {count} replicas")
    for replica in replicas.values():
        _check_pod(replica.template.spec, kind, configs)


def _check_pod(pod: _PodSpec, kind: JobKind, configs: Mapping[str, _ConfigMap]) -> None:
    container = pod.containers[0]
    _require(container.name == kind.container, f"the container is called {container.name}")
    _require_once("variable", (variable.name for variable in container.env))
    for variable in container.env:
        _require(
            (variable.value is UNSET) != (variable.value_from is UNSET),
            f"the variable {variable.name} needs a value or a field, and not both",
        )
    _require_once("volume", (volume.name for volume in pod.volumes))
    _require_once("mount", (mount.mount_path for mount in container.volume_mounts))
    volumes = {volume.name: volume for volume in pod.volumes}
    for mount in container.volume_mounts:
        _require(mount.name in volumes, f"the mount {mount.mount_path} has no volume {mount.name}")
    for volume in pod.volumes:
        _require(volume.sources == 1, f"the volume {volume.name} has {volume.sources} sources")
        if volume.config_map is not UNSET:
            config = configs.get(volume.config_map.name)
            keys = {item.key for item in volume.config_map.items}
            _require(
                config is not None and keys == set(config.data),
                f"the volume {volume.name} does not show its ConfigMap's keys",
            )
    _require(not container.security_context.allow_privilege_escalation, "privileges may escalate")
    _require(container.resources.requests == container.resources.limits, "requests differ")
    _require(
        pod.security_context.run_as_non_root == (pod.security_context.run_as_user != 0),
        "runAsNonRoot contradicts runAsUser",
    )


def _require_once(what: str, names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        _require(times == 1, f"the {what} {name} stands there {times} times")


def _require(sound: bool, otherwise: str) -> None:
    if not sound:
        raise _Unsound(otherwise)

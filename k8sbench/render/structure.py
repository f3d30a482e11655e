"""How rendered objects must fit together, checked each time before they are used.

It checks what the operator's webhook refuses and what no schema can state: a kind that is known,
its replica types and their counts, the name of the container, volumes that exist. Fields and their
types are left to the API server's strict field validation, and to tests, which hold every rendered
manifest against the operator's own schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from k8sbench.model.errors import BenchError
from k8sbench.model.kinds import KINDS
from k8sbench.model.kinds.kind import JobKind


def check(manifests: Iterable[Mapping[str, Any]]) -> None:
    """Raise a :class:`BenchError` unless the ConfigMap and the job of a run fit together."""
    configs: dict[str, set[str]] = {}
    for manifest in manifests:
        if manifest["kind"] == "ConfigMap":
            configs[manifest["metadata"]["name"]] = set(manifest["data"])
            continue
        for problem in _problems(manifest, configs):
            raise BenchError(
                f"The rendered {manifest['kind']} is not sound: {problem}.",
                "This is a fault of k8sbench's templates, not of your input; please report it.",
            )


def _problems(job: Mapping[str, Any], configs: Mapping[str, set[str]]) -> Iterator[str]:
    kind = KINDS.get(job["kind"])
    if kind is None or job["apiVersion"] != kind.api_version:
        yield f"{job['apiVersion']} {job['kind']} is no kind of job that is known"
        return
    replicas = job["spec"].get(kind.replicas_key) or {}
    counts = {name: replica["replicas"] for name, replica in replicas.items()}
    if counts != dict(kind.replicas(sum(counts.values()))):
        yield f"{kind.replicas_key} has {', '.join(replicas) or 'no replicas'}"
    for replica in replicas.values():
        yield from _pod_problems(replica["template"]["spec"], kind, configs)


def _pod_problems(
    pod: Mapping[str, Any], kind: JobKind, configs: Mapping[str, set[str]]
) -> Iterator[str]:
    (container,) = pod["containers"]
    if container["name"] != kind.container:
        yield f"the container is called {container['name']}"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        if mount["name"] not in volumes:
            yield f"the mount {mount['mountPath']} has no volume {mount['name']}"
    for name, volume in volumes.items():
        config = volume.get("configMap")
        if config and {item["key"] for item in config["items"]} != configs.get(config["name"]):
            yield f"the volume {name} does not show its ConfigMap's keys"

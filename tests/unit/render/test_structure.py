"""The parts of a rendered manifest fit together; a template that is at fault is our error."""

from __future__ import annotations

from collections.abc import Iterator

from k8sbench.model.kinds import KINDS
from k8sbench.model.plan import RunPlan
from tests.unit.render.plans import Objects, replicas


def problems(objects: Objects) -> Iterator[str]:
    """Yield what does not fit together, which no schema states."""
    configs = {o["metadata"]["name"]: set(o["data"]) for o in objects if o["kind"] == "ConfigMap"}
    job = objects[-1]
    kind = KINDS[job["kind"]]
    if job["apiVersion"] != kind.api_version:
        yield f"{job['apiVersion']} is another version than {kind.api_version}"
    counts = {name: replica["replicas"] for name, replica in replicas(job).items()}
    if counts != dict(kind.replicas(sum(counts.values()))):
        yield f"the replicas are {counts}"
    for replica in replicas(job).values():
        pod = replica["template"]["spec"]
        (container,) = pod["containers"]
        if container["name"] != kind.container:
            yield f"the container is called {container['name']}"
        volumes = {volume["name"]: volume.get("configMap") for volume in pod["volumes"]}
        for mount in container["volumeMounts"]:
            if mount["name"] not in volumes:
                yield f"the mount {mount['mountPath']} has no volume {mount['name']}"
        for config in filter(None, volumes.values()):
            if {item["key"] for item in config["items"]} != configs.get(config["name"]):
                yield f"the volume does not show the keys of {config['name']}"


def test_every_rendered_plan_is_sound(everything: list[tuple[RunPlan, Objects]]) -> None:
    for _, objects in everything:
        assert not [*problems(objects)]

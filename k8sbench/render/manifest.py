"""From a run plan to Kubernetes objects, and their text.

``manifests`` decides (``job``), lays out (``templates``), reads the text back and checks how the
objects fit together: what the operator's webhook refuses and what no schema can state. Fields and
their types are left to the API server's strict field validation, and to tests, which hold every
rendered manifest against the operator's own schemas. The same plan gives the same objects and the
same bytes.

Repeats of a case differ by their run id, their set and their number, and by nothing else: in
names, labels, the annotation with the plan, and where a command or a variable holds the id.
``ManifestCache`` fills these in for each run, which takes a twentieth of the time of rendering it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from jinja2 import Environment

from k8sbench.model import yaml_text
from k8sbench.model.errors import BenchError
from k8sbench.model.identity import LABEL_DOMAIN, PLAN_ANNOTATION
from k8sbench.model.kinds import KINDS
from k8sbench.model.kinds.kind import JobKind
from k8sbench.model.kube import ATTEMPT_LABEL
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import DRAFT_ID, TRAINERS_MOUNT, with_identity
from k8sbench.render import job as jobs
from k8sbench.render.pod import fitting
from k8sbench.render.templates import render
from k8sbench.render.trainer_sources import TrainerSources

SOURCES_TEMPLATE = "trainers.yaml.j2"


def manifests(
    plan: RunPlan, *, templates: Environment, trainers: TrainerSources | None
) -> tuple[dict[str, Any], ...]:
    """Render the objects that run ``plan``: the trainers' ConfigMap where one is needed, the job.

    Raises :class:`~k8sbench.model.errors.UsageError` for a plan that Kubernetes would not accept,
    and :class:`~k8sbench.model.errors.BenchError` where our templates are at fault.
    """
    mounted = jobs.carried(plan, trainers)
    job = jobs.job(plan, mounted)
    texts = []
    if mounted is not None:
        values = jobs.sources(plan, mounted)
        texts.append(render(templates, SOURCES_TEMPLATE, job_name=plan.job_name, **values))
    texts.append(
        render(templates, job.kind.template, plan=plan, job=job, pod=job.pod, mount=TRAINERS_MOUNT)
    )
    objects = tuple(read(text) for text in texts)
    check(objects)
    return objects


def to_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Write ``objects`` as one YAML stream, for people and for ``kubectl create -f -``."""
    return str(
        yaml.dump_all(
            objects,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=False,
            explicit_start=True,
            width=1 << 30,
        )
    )


# libyaml's, as the loader.
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):  # type: ignore[misc]  # one of two classes
    """Writes sources as blocks, and quotes every string that some YAML reader takes for a number.

    PyYAML alone follows YAML 1.1, and writes the string ``1e-4`` bare; Kubernetes' reader then
    finds a number where a string must stand.
    """

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write everything out: no anchors for readers to resolve."""
        return True


# Words that begin with a letter and hold nothing that YAML could read otherwise.
_BARE = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]+")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
# What a block scalar keeps to the letter. Other line breaks and tabs are safe in quotes alone.
_BLOCK = re.compile(r"[\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]*")


def _represent_text(dumper: Any, text: str) -> yaml.ScalarNode:
    if "\n" in text and _BLOCK.fullmatch(text):
        style: str | None = "|"
    elif _BARE.fullmatch(text) and text.lower() not in _WORDS:
        style = None
    elif '"' in text and "'" not in text:
        style = "'"  # JSON stays readable; the dumper takes double quotes where it must escape
    else:
        style = '"'
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _represent_text)


def read(text: str) -> dict[str, Any]:
    """Read what a template gave; anything but an object is our fault."""
    try:
        loaded = yaml_text.load(text)
    except yaml.YAMLError as error:
        raise BenchError(
            f"A template gave no YAML: {error}",
            "This is a fault of k8sbench's templates, not of your input; please report it.",
        ) from error
    if not isinstance(loaded, dict):
        raise BenchError(f"A template gave {type(loaded).__name__}, not an object.")
    return loaded


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


def numbered(manifests: Sequence[Mapping[str, Any]], attempt: int) -> tuple[Mapping[str, Any], ...]:
    """Return a run's objects, and the pods of its job, with the number of the attempt."""
    mark = {ATTEMPT_LABEL: str(attempt)}
    marked = []
    for manifest in manifests:
        copy = _marked(manifest, mark)
        kind = KINDS.get(str(copy.get("kind")))
        if kind is not None and kind.replicas_key in copy.get("spec", {}):
            replicas = {
                role: {**spec, "template": _marked(spec["template"], mark)}
                for role, spec in copy["spec"][kind.replicas_key].items()
            }
            copy["spec"] = {**copy["spec"], kind.replicas_key: replicas}
        marked.append(copy)
    return tuple(marked)


def _marked(manifest: Mapping[str, Any], mark: Mapping[str, str]) -> dict[str, Any]:
    metadata = dict(manifest.get("metadata") or {})
    for key in ("labels", "annotations"):
        metadata[key] = {**(metadata.get(key) or {}), **mark}
    return {**manifest, "metadata": metadata}


_LABELS = (f"{LABEL_DOMAIN}/set", f"{LABEL_DOMAIN}/repeat")
_Fill = Callable[[str, str], str]
"""The key and the text of a value in the draft's objects → the value in those of a run."""


class ManifestCache:
    """The manifests of the runs of one case."""

    def __init__(
        self, draft: RunPlan, render: Callable[[RunPlan], tuple[dict[str, Any], ...]]
    ) -> None:
        """``draft`` is under :data:`DRAFT_ID`; it is rendered when the first run is asked for."""
        self._draft, self._render = draft, render

    def manifests(self, plan: RunPlan) -> tuple[dict[str, Any], ...]:
        """Return what :func:`~k8sbench.render.manifest.manifests` renders of a plan."""
        if not self._has(plan):
            return self._render(plan)
        manifests: tuple[dict[str, Any], ...] = _filled(self._objects, _values(plan))
        fitting(manifests[-1]["metadata"]["annotations"])
        return manifests

    def _has(self, plan: RunPlan) -> bool:
        """Whether a plan is of this case and differs from its draft by its identity alone."""
        return plan == with_identity(
            self._draft, run_id=plan.run_id, set_name=plan.set_name, repeat=plan.repeat
        )

    @functools.cached_property
    def _objects(self) -> tuple[dict[str, Any], ...]:
        return self._render(self._draft)


def _values(plan: RunPlan) -> _Fill:
    """Return what fills in the values of a run."""
    labels = jobs.labels(plan)
    known = {PLAN_ANNOTATION: jobs.plan_text(plan)} | {key: labels[key] for key in _LABELS}
    return lambda key, text: known.get(key) or text.replace(DRAFT_ID, plan.run_id)


def _filled(value_in_draft: Any, fill: _Fill, key: str = "") -> Any:
    """Copy plain data, with other values where those of a run differ from the draft's."""
    if isinstance(value_in_draft, str):
        varies = DRAFT_ID in value_in_draft or key in _LABELS
        return fill(key, value_in_draft) if varies else value_in_draft
    if isinstance(value_in_draft, dict):
        return {name: _filled(value, fill, name) for name, value in value_in_draft.items()}
    if isinstance(value_in_draft, list | tuple):
        return type(value_in_draft)(_filled(value, fill, key) for value in value_in_draft)
    return value_in_draft

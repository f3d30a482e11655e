"""From a run plan to Kubernetes objects, and their text.

``job`` decides, the templates lay the decisions out, and ``manifests`` reads the text back. A plan
that Kubernetes would reject is rejected here, with an action. Fields and their types are left to
the API server's strict field validation, and to tests, which hold every rendered manifest against
the operator's own schemas. The same plan gives the same objects and the same bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jinja2
import msgspec
import yaml

from k8sbench.catalog import yaml_text
from k8sbench.catalog.planning import TRAINERS_MOUNT
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import labels
from k8sbench.model.kinds import KINDS, kind_of
from k8sbench.model.kube import ATTEMPT_LABEL, QUEUE_LABEL, RUN_LABEL, JobIdentity
from k8sbench.model.names import (
    LABEL_DOMAIN,
    NONCE_ANNOTATION,
    OWNER_ANNOTATION,
    PLAN_ANNOTATION,
    WAITS_ANNOTATION,
)
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import OBJECT_NAME
from k8sbench.render.pod import fitting, pod, security
from k8sbench.render.trainer_sources import DIGEST_ANNOTATION, TrainerSources, config_map

NOBODY = JobIdentity()
"""Identity of a job that no run's record asks for, such as of ``render``."""


def manifests(
    plan: RunPlan,
    identity: JobIdentity = NOBODY,
    *,
    templates: jinja2.Environment,
    trainers: TrainerSources,
) -> tuple[dict[str, Any], ...]:
    """Render the job of a plan, after the objects that it needs.

    These are its runtime, if it has one, and the trainers' ConfigMap, if it mounts one and their
    texts are known. Raises :class:`~k8sbench.model.errors.UsageError` for a plan that Kubernetes
    would not accept.
    """
    mounted = _mounted(plan, trainers)
    job = _job(plan, mounted, identity)
    values = {"plan": plan, "job": job, "pod": job["pod"], "mount": TRAINERS_MOUNT}
    kind = job["kind"]
    names = [kind.template] if kind.runtime is None else [kind.runtime.template, kind.template]
    objects = [yaml_text.load(render(templates, name, **values)) for name in names]
    shared = [config_map(mounted)] if mounted and mounted.are_known else []
    return (*shared, *objects)


def select_job_objects(objects: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the run's own objects: its job, after its runtime if any."""
    return objects[-2 if KINDS[objects[-1]["kind"]].runtime is not None else -1 :]


def to_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Write ``objects`` as one YAML stream, for people and ``kubectl create``."""
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
    """Writes sources as blocks and quotes strings that look like numbers.

    PyYAML follows YAML 1.1 and writes the string ``1e-4`` bare; Kubernetes' reader then finds a
    number where it needs a string.
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


# -- the job ---------------------------------------------------------------------------------------

SECURITY_ANNOTATION = f"{LABEL_DOMAIN}/pod-security"
"""The strictest Pod Security Standard that the pods keep to."""
REASONS_ANNOTATION = f"{LABEL_DOMAIN}/pod-security-reasons"


def _job(plan: RunPlan, trainers: TrainerSources | None, identity: JobIdentity) -> dict[str, Any]:
    """Return the template values of the plan's job.

    ``trainers`` are the sources that its pods mount. Raises :class:`UsageError` if no job is
    possible.
    """
    kind = kind_of(plan)
    longest = 63 - len(kind.after_name.format(last=plan.replicas - 1))
    if len(plan.job_name) > longest:
        raise UsageError(
            f"A {kind.name} cannot be named {plan.job_name!r}: its pods' names would be too long.",
            f"Use at most {longest} characters for --run-id.",
        )
    own_labels = labels(plan)
    keeps = plan.checkpoints is not None and plan.backend != "local"
    secured = security(plan.pool, writes=keeps)
    about: dict[str, str] = {SECURITY_ANNOTATION: secured.level}
    if secured.reasons:
        about[REASONS_ANNOTATION] = ", ".join(secured.reasons)
    if trainers is not None:
        about[DIGEST_ANNOTATION] = trainers.digest
    # Pods have both, too: those of a job with a runtime name no owner that is known.
    number = {ATTEMPT_LABEL: str(identity.attempt)} if identity.attempt > 1 else {}
    marks = number | ({NONCE_ANNOTATION: identity.nonce} if identity.nonce else {})
    whose = {WAITS_ANNOTATION: "true"} if identity.waits else {}
    if identity.owner is not None:
        whose[OWNER_ANNOTATION] = msgspec.json.encode(identity.owner).decode()
    annotations = about | {PLAN_ANNOTATION: plan_text(plan)} | marks | whose
    name, deadline = plan.job_name, None
    if kind.runtime is not None and identity.nonce:
        name = kind.runtime_name(name, identity.nonce)
    if identity.deadline_s is not None and plan.timeout_s is not None:
        deadline = math.ceil(plan.timeout_s + identity.deadline_s)
    return {
        "kind": kind,
        "labels": own_labels | _queue_labels(plan) | number,
        "annotations": fitting(annotations),
        "runtime_name": name,
        "deadline": deadline,
        "pods": {"labels": {RUN_LABEL: plan.run_id} | number}
        | ({"annotations": marks} if marks else {}),
        # A string, as the operator's field may also say ``auto``.
        "processes": str(plan.processes_per_replica),
        "replicas": kind.replicas(plan.replicas),
        "pod": pod(
            plan,
            labels=own_labels | number,
            about=about | marks,
            security=secured,
            trainers=trainers,
        ),
    }


def _mounted(plan: RunPlan, trainers: TrainerSources) -> TrainerSources | None:
    """Return the sources that ``plan`` mounts; None if the image has them.

    Raises :class:`UsageError` if the plan was made with other sources.
    """
    if plan.trainers_by != "configmap":
        return None
    if plan.trainers_digest != trainers.digest:
        raise UsageError(
            f"Run {plan.run_id} was planned with other trainers "
            f"({str(plan.trainers_digest)[:12]}) than this k8sbench has ({trainers.digest[:12]}).",
            "Submit it again: the row must name the sources that ran.",
        )
    return trainers


def plan_text(plan: RunPlan) -> str:
    """Return the plan as the job's annotation holds it."""
    try:
        return msgspec.json.encode(plan, order="deterministic").decode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"The plan holds text that is not valid Unicode: {error.object!r}.",
            "Give names, paths and commands in UTF-8.",
        ) from error


def _queue_labels(plan: RunPlan) -> dict[str, str]:
    if plan.queue is None:
        return {}
    if not re.match(OBJECT_NAME, plan.queue) or len(plan.queue) > 63:
        raise UsageError(
            f"{plan.queue!r} cannot name a Kueue queue.", "'kubectl get localqueues' lists them."
        )
    return {QUEUE_LABEL: plan.queue}


# -- templates -------------------------------------------------------------------------------------
#
# Jinja2 with strict names, and values only through the filter ``q``. A template lays a manifest
# out; it does not compute, and it cannot forget to quote: rendering stops unless every output
# expression comes out of ``q``. ``q`` writes plain data (strings, whole numbers, booleans, lists,
# mappings of these) as a flow of YAML on one line of ASCII, in which no value can end its own
# quotes. It refuses None, so that no manifest contains ``name: null``, and fractions, which YAML
# 1.1 reads in several ways.

READ_VERBS = ("get", "list", "watch")
RUNTIME_VERBS = ("get", "create", "patch", "delete")
ROLE, OPERATOR_ROLE = "role.yaml.j2", "operator-role.yaml.j2"
"""Templates of the users' and the operator's permissions."""
_NOT_ASCII = re.compile(r"[^\x20-\x7e]")


class Quoted(str):
    """A value as quoted YAML, made only by :func:`quote`."""

    __slots__ = ()


def quote(value: object) -> Quoted:
    """Write ``value`` as YAML in flow style: the filter ``q``."""
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises, and says which name is not defined
    _refuse_unplain(value)
    return Quoted(_NOT_ASCII.sub(_escape, json.dumps(value, ensure_ascii=False)))


def only_quoted(value: object) -> Quoted:
    """Return quoted values; raise for all others. Jinja2 calls it per output."""
    if not isinstance(value, Quoted):
        raise TypeError(f"an output expression yields {value!r}, which did not pass the filter q")
    return value


def environment(texts: Mapping[str, str]) -> jinja2.Environment:
    """Return strict, quoting templates by name."""
    made = jinja2.Environment(  # noqa: S701 - not HTML; only_quoted refuses what is not escaped
        loader=jinja2.DictLoader(dict(texts)),
        undefined=jinja2.StrictUndefined,
        finalize=only_quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters = {"q": quote, "indent": made.filters["indent"]}
    made.globals.clear()
    return made


def render(templates: jinja2.Environment, name: str, **values: Any) -> str:
    """Fill the template ``name``."""
    return templates.get_template(name).render(**values)


def role(templates: jinja2.Environment, *, operated: bool = False) -> str:
    """Return the users' permissions as YAML, the text of ``k8sbench/role.yaml``.

    With ``operated`` those for namespaces that an operator serves: users only read jobs there.
    """
    verbs = READ_VERBS if operated else None
    return render(templates, ROLE, jobs=_jobs(verbs), operated=operated) + "\n"


def operator_role(templates: jinja2.Environment) -> str:
    """Return the operator's Role as YAML; the chart has its rules.

    It creates jobs, too: the next attempts of failed runs.
    """
    return render(templates, OPERATOR_ROLE, jobs=_jobs()) + "\n"


def _jobs(verbs: tuple[str, ...] | None = None) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Group and verbs → plurals of the job kinds.

    With ``verbs`` of the jobs alone, and these verbs; else all that k8sbench needs.
    """
    jobs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in KINDS.values():
        jobs.setdefault((kind.group, verbs or tuple(kind.verbs)), []).append(kind.plural)
        if kind.runtime is not None and verbs is None:
            jobs.setdefault((kind.group, RUNTIME_VERBS), []).append(kind.runtime.plural)
    return jobs


def _refuse_unplain(value: object) -> None:
    if isinstance(value, str | bool | int):
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"cannot quote the key {key!r}: it is not a string")
            _refuse_unplain(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_unplain(inner)
    else:
        raise TypeError(f"cannot quote {value!r}: it is not plain data")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

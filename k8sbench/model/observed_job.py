"""Jobs that somebody else created: their facts, from the objects of the API server.

Facts come from the job and its pod templates. Nothing is guessed: other values come from the log,
from options, or from annotations of the job.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.model import times
from k8sbench.model.errors import UsageError, did_you_mean
from k8sbench.model.job_kind import JobKind, replica_name
from k8sbench.model.kinds import OBSERVED, TRAINS
from k8sbench.model.kube import KubeObject, annotations_of, labels_of, name_of, parse_time
from k8sbench.model.masking import masked
from k8sbench.model.names import LABEL_DOMAIN, NAME_LIMIT
from k8sbench.model.plan import ObservedJob
from k8sbench.model.replica_logs import log_name, log_of_pod
from k8sbench.model.sample import LogGap

OBSERVE_LABEL = f"{LABEL_DOMAIN}/observe"
"""Label of a job: with the value ``true`` the operator of its namespace observes it."""
BENCHMARK_LABEL = f"{LABEL_DOMAIN}/benchmark"
"""Label of a job: name of its benchmark in rows."""
SET_LABEL = f"{LABEL_DOMAIN}/set"
"""Label of a job: set of its run."""
CONTAINER_ANNOTATION = f"{LABEL_DOMAIN}/container"
"""Annotation of a job: the container whose log is measured, where none has GPUs."""
STATED = ("batch-size", "precision", "gpu-model", "framework", "warmup")
"""Annotations of a job that state what its log does not, as options of ``observe`` do."""
TEMPLATES = "the pod templates"
"""Source of facts."""
PROCESSES = "PET_NPROC_PER_NODE"
"""Variable of torchrun with the processes of each replica."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
VARIABLES = ("NCCL_", "TORCH_", "OMP_", "CUDA_", "WORLD_SIZE")
"""Prefixes of variables that are recorded; others may hold credentials."""
MOST_METRICS = 5
"""Metrics that a report of the program's names."""
UNSEEN = ".attempt-"
"""Part of the name of a log that was lost before anybody read it."""
_ID_DIGITS = 12
_DATE = re.compile(r"[-._](\d{8,}|\d{4}-\d\d-\d\d)([-t]?\d{4,6})?$")
"""A date or Unix time at the end of a name."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a run that the objects of its job state."""

    job: ObservedJob
    uid: str
    created_at: float
    """Unix seconds."""
    benchmark: str
    """Name of its case in rows."""
    set_name: str
    gpus_per_replica: int
    queue: str | None
    stated: dict[str, str]
    """Option → its text in an annotation of the job."""
    image: str | None
    """Image of the container."""
    environment: dict[str, str]
    """Command and variables; no credentials."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return run_id(self.job.namespace, self.job.kind, self.job.name, self.uid)


def run_id(namespace: str, kind: str, name: str, uid: str) -> str:
    """Return the id of a job's run: its name, and a digest of namespace, kind, name and uid."""
    text = "/".join((namespace, kind, name, uid))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
    word = re.sub("[^a-z0-9-]", "-", name)
    word = word if word[0].isalpha() else f"job-{word}"
    return f"{word[: NAME_LIMIT - _ID_DIGITS - 1].rstrip('-')}-{digest}"


def stated_options(job: KubeObject) -> dict[str, str]:
    """Return the options that annotations of a job replace: option → text."""
    return {
        option.replace("-", "_"): text
        for option in STATED
        if (text := annotations_of(job).get(f"{LABEL_DOMAIN}/{option}")) is not None
    }


def annotations_for(action: str) -> list[str]:
    """Return the annotations that replace the options named in an error's action."""
    return [f"{LABEL_DOMAIN}/{name}" for name in STATED if f"--{name}" in action]


def parse_job_name(text: str) -> tuple[JobKind, str]:
    """Parse KIND/NAME as kubectl takes it; raises :class:`UsageError`."""
    word, slash, name = text.partition("/")
    word = word.lower().partition(".")[0]
    names = {form: kind for kind in OBSERVED.values() for form in (kind.singular, kind.plural)}
    if not slash or not name or "/" in name:
        example = f"{next(iter(OBSERVED))}/llama"
        raise UsageError(f"{text!r} names no job.", f"Name it as KIND/NAME: {example}.")
    if word not in names:
        kinds = ", ".join(OBSERVED)
        raise UsageError(
            f"Jobs of kind {word!r} cannot be observed.",
            f"{did_you_mean(word, list(names))}Kinds: {kinds}.",
        )
    return names[word], name


class _Template(msgspec.Struct, frozen=True):
    """The pods of one role."""

    role: str
    jobs: int
    """Batch jobs of the role."""
    pods: int
    """Pods of each job."""
    spec: Mapping[str, Any]
    is_trainer: bool


def read_facts(kind: JobKind, job: KubeObject, child: KubeObject | None = None) -> JobFacts:
    """Read the facts of a job.

    ``child`` is the object of :attr:`JobKind.child`. A role without pods does not count, nor do the
    GPUs of other containers, or those for which there is no process. Raises :class:`UsageError` for
    a job whose replicas are not alike.
    """
    which = f"{kind.singular}/{name_of(job)}"
    templates = [
        template
        for template in _templates(kind, job, child, which)
        if template.jobs * template.pods
    ]
    if not templates:
        raise UsageError(f"{which} has no replicas.", "Observe it when it has some.")
    chosen = [template for template in templates if template.is_trainer] or templates
    chosen = [template for template in chosen if _gpus_of_pod(template.spec)] or chosen
    annotated = annotations_of(job).get(CONTAINER_ANNOTATION)
    names = [
        _container_name(template.spec, annotated, kind.container, which) for template in chosen
    ]
    containers = set(names)
    gpus = {
        _used_gpus(_find_container(template.spec, name), _processes(kind, job))
        for template, name in zip(chosen, names, strict=True)
    }
    if len(containers) > 1 or len(gpus) > 1:
        roles = ", ".join(template.role for template in chosen)
        raise UsageError(
            f"The replicas of {which} are not alike: {roles}.",
            "A job is observed if its replicas have one container name and as many GPUs each.",
        )
    (container,) = containers
    replicas = tuple(
        replica_name(template.role, number, rank)
        for template in chosen
        for number in range(template.jobs)
        for rank in range(template.pods)
    )
    metadata = job["metadata"]
    return JobFacts(
        job=ObservedJob(
            kind=kind.name,
            namespace=metadata["namespace"],
            name=name_of(job),
            replicas=replicas,
            container=container,
            sources={
                "case": _case_and_source(job)[1],
                "set": f"label {SET_LABEL}" if SET_LABEL in labels_of(job) else "the job's name",
                "replicas": TEMPLATES,
                "gpus": TEMPLATES,
                "container": TEMPLATES
                if annotated is None
                else f"annotation {CONTAINER_ANNOTATION}",
                "image": TEMPLATES,
                "command": TEMPLATES,
                "nodes": "pod status",
                "image_digest": "pod status",
            },
        ),
        uid=metadata["uid"],
        created_at=parse_time(metadata.get("creationTimestamp")) or 0.0,
        benchmark=case_name(job),
        set_name=labels_of(job).get(SET_LABEL) or name_of(job)[:63].rstrip("-."),
        gpus_per_replica=gpus.pop(),
        queue=labels_of(job).get(QUEUE_LABEL),
        stated=stated_options(job),
        image=_find_container(chosen[0].spec, container).get("image"),
        environment=_command_and_variables(_find_container(chosen[0].spec, container)),
    )


def case_name(job: KubeObject) -> str:
    """Return the name of a job's case.

    Its label, else the CronJob that owns it, else its generateName or its name, each less a date at
    the end.
    """
    return _case_and_source(job)[0]


def _case_and_source(job: KubeObject) -> tuple[str, str]:
    """Return the name of a job's case, and where it comes from."""
    metadata = job["metadata"]
    if label := labels_of(job).get(BENCHMARK_LABEL):
        return label, f"label {BENCHMARK_LABEL}"
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("kind") == "CronJob":
            return str(owner["name"]), "the CronJob that owns the job"
    generated = str(metadata.get("generateName") or "").rstrip("-.")
    name = generated or name_of(job)
    source = "the job's generateName" if generated else "the job's name"
    return _DATE.sub("", name) or name, source


def annotation_sources(facts: JobFacts) -> dict[str, str]:
    """Return in words where facts come from that annotations of the job state."""
    return {name: f"annotation {LABEL_DOMAIN}/{name.replace('_', '-')}" for name in facts.stated}


def missing_logs(
    facts: JobFacts,
    job: KubeObject | None,
    child: KubeObject | None,
    restarts: Mapping[str, int],
) -> Iterator[LogGap]:
    """Yield the gaps in an ended job's logs that the counts of its objects show.

    ``restarts`` has those that were seen, of each replica that had a pod.
    """
    first = facts.job.replicas[0]
    for replica in facts.job.replicas:
        if replica not in restarts:
            yield _gap(replica, "Its pod was deleted before it was seen.")
    restarts_seen = restarts.get(first, 0)
    counts = ((child or job or {}).get("status") or {}).get("restarts") or 0
    if facts.job.kind == "Job":
        status = (job or {}).get("status") or {}
        counts = int(status.get("failed") or 0) + int(status.get("succeeded") or 0)
        counts -= len(restarts)
        restarts_seen = sum(restarts.values())
    for number in range(1, int(counts) - restarts_seen + 1):
        why = "Its pods were deleted before they were seen; the job's status counts their restart."
        yield _gap(f"{first}{UNSEEN}{number}", why)


def unread_pods(
    pods: Mapping[str, Mapping[str, bool]], ends: Mapping[str, float], gaps: Iterable[LogGap]
) -> Iterator[LogGap]:
    """Yield the gaps of recorded pods that were gone before their logs were read.

    ``pods`` has those of each replica by uid, in order, and whether the log is read to its end;
    ``ends`` the times of the last lines of the archived logs.
    """
    with_gap = {gap.replica for gap in gaps if gap.before is None}
    for replica, of_replica in pods.items():
        for number, is_read in enumerate(of_replica.values(), 1):
            name = log_name(replica, pod=number)
            if not is_read and name not in with_gap:
                times_of_pod = [at for log, at in ends.items() if log_of_pod(log) == name]
                why = "Its pod was gone before its log was read to the end."
                yield _gap(name, why, max(times_of_pod, default=None))


def _gap(replica: str, why: str, after: float | None = None) -> LogGap:
    return LogGap(replica=replica, after=after, before=None, why=why)


def describe_progress(job: KubeObject) -> str | None:
    """Describe the progress that a TrainJob's program reports; None without a report.

    Kubeflow Trainer 2.3 keeps it in the job's status, with its feature gate TrainJobStatus.
    """
    status = (job.get("status") or {}).get("trainerStatus") or {}
    done, remaining = status.get("progressPercentage"), status.get("estimatedRemainingSeconds")
    metrics = [f"{metric['name']} {metric['value']}" for metric in status.get("metrics") or ()]
    words = [
        *([] if done is None else [f"{done} % done"]),
        *([] if remaining is None else [f"{times.duration(remaining)} left"]),
        *metrics[:MOST_METRICS],
    ]
    return f"The program reports: {', '.join(words)}" if words else None


# -- templates -------------------------------------------------------------------------------------


def _templates(
    kind: JobKind, job: KubeObject, child: KubeObject | None, which: str
) -> Iterator[_Template]:
    spec = job.get("spec") or {}
    if kind.templates == "pod":
        count = _first_number(spec.get("completions"), spec.get("parallelism"))
        if count > 1 and spec.get("completionMode") != "Indexed":
            raise UsageError(
                f"The pods of {which} have no ranks: it is not Indexed.",
                "Set completionMode: Indexed in its spec.",
            )
        yield _Template(kind.others.lower(), 1, count, spec["template"]["spec"], True)
    elif kind.templates == "jobs":
        spec = (child or job).get("spec") or {}
        for entry in spec.get(OBSERVED[kind.child or kind.singular].replicas_key) or ():
            inner = entry["template"]["spec"]
            labels = (entry["template"].get("metadata") or {}).get("labels") or {}
            yield _Template(
                entry["name"],
                _first_number(entry.get("replicas")),
                _first_number(inner.get("completions"), inner.get("parallelism")),
                inner["template"]["spec"],
                labels.get(TRAINS[0]) == TRAINS[1],
            )
    else:
        roles = kind.replica_specs(spec) or {}
        for role in sorted(roles, key=lambda role: role != kind.lead):
            count = _first_number(roles[role].get("replicas"))
            yield _Template(role.lower(), 1, count, roles[role]["template"]["spec"], True)


def _first_number(*numbers: int | None) -> int:
    """Return the first number that is stated, which may be 0; 1 without one."""
    return next((int(number) for number in numbers if number is not None), 1)


def _processes(kind: JobKind, job: KubeObject) -> object:
    """Return the processes of each replica that a job's spec states; None without any."""
    spec = job.get("spec") or {}
    trainer = spec.get("trainer") or {}
    return spec.get(kind.processes_field) or trainer.get("numProcPerNode")


def _used_gpus(container: Mapping[str, Any], processes: object) -> int:
    """Return the GPUs of a container for which there is a process.

    ``processes`` may be a word such as ``auto``: then there is one for each.
    """
    variables = {variable["name"]: variable.get("value") for variable in container.get("env") or ()}
    number = str(processes or variables.get(PROCESSES) or "")
    gpus = _gpus(container)
    return min(gpus, int(number)) if number.isdecimal() and int(number) else gpus


def _gpus(container: Mapping[str, Any]) -> int:
    """Return the GPUs that a container asks for."""
    resources = container.get("resources") or {}
    counts = (resources.get("requests") or {}) | (resources.get("limits") or {})
    return sum(int(count) for name, count in counts.items() if _is_gpu(name))


def _is_gpu(resource: str) -> bool:
    return resource.endswith("/gpu") or "/mig-" in resource


def _gpus_of_pod(spec: Mapping[str, Any]) -> int:
    return sum(map(_gpus, spec.get("containers") or ()))


def _container_name(spec: Mapping[str, Any], annotated: str | None, usual: str, which: str) -> str:
    """Return the container whose log is measured.

    The named one, else that with GPUs, the kind's own, or the only one.
    """
    containers = spec.get("containers") or ()
    names = [str(container["name"]) for container in containers]
    if annotated is not None and annotated not in names:
        raise UsageError(
            f"{which} has no container {annotated!r}, which its annotation names.",
            f"Name one of {', '.join(names)} with {CONTAINER_ANNOTATION}.",
        )
    with_gpus = [str(container["name"]) for container in containers if _gpus(container)]
    for candidates in (
        [annotated] if annotated else [],
        with_gpus,
        [usual] if usual in names else [],
        names,
    ):
        if len(candidates) == 1:
            return str(candidates[0])
    raise UsageError(
        f"Nothing says which container of {which} trains: {', '.join(names)}.",
        f"Name it with the annotation {CONTAINER_ANNOTATION} of the job.",
    )


def _find_container(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next(container for container in spec["containers"] if container["name"] == name)


def _command_and_variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Return command and some variables of a container, by name."""
    words: Sequence[str] = [*(container.get("command") or ()), *(container.get("args") or ())]
    environment = {"job_command": masked(shlex.join(words))} if words else {}
    for variable in container.get("env") or ():
        name, value = str(variable["name"]), variable.get("value")
        if name.startswith(VARIABLES) and value is not None:
            environment[f"job_env.{name}"] = masked(f"{name}={value}").partition("=")[2]
    return environment

"""Requests to the cluster for the facts that :mod:`k8sbench.diagnose.preflight.checks` judges.

An API server that does not answer raises; a single request that is refused becomes an
:class:`~k8sbench.diagnose.preflight.facts.Unknown`. Of a cluster's pods only k8sbench's own in one
namespace are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import yaml

from k8sbench.adapters.files import templates
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ROLE, ApiFault
from k8sbench.adapters.metrics import preflight as metrics
from k8sbench.diagnose.job.causes import ACTIONS
from k8sbench.diagnose.preflight import claim_checks, operator, rules
from k8sbench.diagnose.preflight.claim_checks import FIRST_CONSUMER
from k8sbench.diagnose.preflight.facts import (
    Access,
    Asked,
    Facts,
    Refusal,
    Storage,
    Unknown,
)
from k8sbench.model import sources
from k8sbench.model.errors import Unreachable
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import MANAGED, KubeObject
from k8sbench.model.plan import RunPlan
from k8sbench.render import counters, role

T = TypeVar("T")
AT_ONCE = 8
"""Concurrent requests: each permission needs one."""
ANSWER_SECONDS = 5.0
"""Timeout of the first answer of the API server."""
RUNNING = "status.phase!=Succeeded,status.phase!=Failed"
NOWHERE = "k8sbench-doctor"
"""Name of a job that is never created, and of its container, which the operator rejects."""


NOT_BOUND = {"ProvisioningFailed", "FailedBinding"}
"""Reasons of events of claims that wait for no pod."""


def ask(api: Api, asked: Asked, jobs: Mapping[str, KubeObject], prometheus: str = "none") -> Facts:
    """Return all facts; ``jobs`` are manifests of k8sbench's own, by kind, for a dry run.

    ``prometheus`` is where to look for one: a URL, ``auto`` or ``none``.

    Raises :class:`ApiFault` where the API server does not answer, or rejects our credentials.
    """
    namespace = asked.namespace
    silence = api.no_answer(ANSWER_SECONDS)
    if silence is not None and silence.status in {None, 401}:
        raise silence
    selector = ",".join(f"{key}={value}" for key, value in asked.pool.selector.items())
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def start(query: Callable[[], T]) -> Future[T | Unknown]:
            return pool.submit(_tried, query)

        def dry_run(manifests: Mapping[str, KubeObject]) -> dict[str, Future[Refusal | None]]:
            return {
                kind: pool.submit(_refusal, api, namespace, job) for kind, job in manifests.items()
            }

        groups = _tried(partial(_groups, api))
        served = {} if isinstance(groups, Unknown) else groups
        names = _tried(partial(_resources, api, served))
        plurals = () if isinstance(names, Unknown) else names
        ours = {kind: job for kind, job in jobs.items() if KINDS[kind].plural in plurals}
        wrong_jobs = dry_run({kind: _wrong_job(kind) for kind in ours})
        own_jobs = dry_run(ours)
        found = start(partial(_operator, api))
        access = start(partial(_access, api, namespace))
        home = start(partial(api.find, kinds.path("Namespace", name=namespace)))
        quotas = start(partial(_list, api, kinds.path("ResourceQuota", namespace)))
        limits = start(partial(_list, api, kinds.path("LimitRange", namespace)))
        nodes = start(partial(_list, api, kinds.path("Node"), labels=selector))
        running = partial(_list, api, kinds.path("Pod", namespace), labels=MANAGED, fields=RUNNING)
        pods = start(running)
        has_gpus = bool(asked.pool.gpus_per_node)
        exporters = start(partial(metrics.dcgm, api)) if has_gpus else None
        scraped = None
        if has_gpus and prometheus != "none":
            scraped = pool.submit(metrics.prometheus, prometheus, api)
        seen = exporters.result() if exporters else ((), None)
        found_storage = storage(api, asked)
        return Facts(
            server=api.place.server,
            why=api.why,
            version=_tried(lambda: str(api.get("/version")["gitVersion"])),
            groups=groups,
            kinds=names,
            wrong_jobs={kind: answer.result() for kind, answer in wrong_jobs.items()},
            own_jobs={kind: answer.result() for kind, answer in own_jobs.items()},
            operator=found.result(),
            init_template=_init_template(api, found.result()),
            access=access.result(),
            role_file=str(ROLE),
            counters=counters.text(),
            namespace=home.result(),
            quotas=quotas.result(),
            limit_ranges=limits.result(),
            nodes=nodes.result(),
            pods=pods.result(),
            prometheus=scraped.result() if scraped else None,
            exporters=seen if isinstance(seen, Unknown) else seen[0],
            exporter=None if isinstance(seen, Unknown) else seen[1],
            claims=found_storage.claims,
            storage_classes=found_storage.storage_classes,
            volumes=found_storage.volumes,
            queue=_queue(api, asked, served),
        )


def asked_of(plan: RunPlan, namespace: str) -> Asked:
    """Return what a run asks of a cluster."""
    claims = sources.claims(plan)
    return Asked(
        namespace=namespace,
        pool=plan.pool,
        frameworks=(plan.framework,),
        replicas=plan.replicas,
        gpus=plan.gpus_per_replica,
        image=plan.image,
        claims=tuple(claims),
        written=tuple(name for name, writes in claims.items() if writes),
        queue=plan.queue,
        gang=plan.gang,
    )


def init_template() -> str:
    """Return the init container's template that passes the restricted Pod Security Standard."""
    return ROLE.with_name("init-container.yaml").read_text(encoding="utf-8")


def refuse_gang(api: Api) -> None:
    """Reject ``--gang`` where the operator is known to ignore it: before anything is created.

    Raises :class:`Unreachable`. Where the operator's Deployment may not be read nothing is
    raised: the first pods show it (the diagnosis ``gang-ignored``).
    """
    deployment = _tried(partial(_operator, api))
    if deployment is None or isinstance(deployment, Unknown):
        return
    refusal = operator.gang_refusal(deployment)
    if refusal is not None:
        error = Unreachable(refusal, ACTIONS["gang-ignored"])
        error.cause_id = "gang-ignored"
        raise error


def refuse_claims(api: Api, asked: Asked) -> None:
    """Reject volume claims that the pods could not mount, before anything is created.

    Raises :class:`Unreachable`, with a sentence for each. What may not be looked at is no reason.
    """
    lines = claim_checks.claims(storage(api, asked), asked)
    wrong = [line for line in lines if line.level == "failure"]
    if wrong:
        actions = dict.fromkeys(line.action or "" for line in wrong)
        raise Unreachable(" ".join(line.message for line in wrong), " ".join(actions))


def storage(api: Api, asked: Asked) -> Storage:
    """Look at the volume claims, and at what decides whether they can be used."""
    found = {
        name: _find(api, kinds.path("PersistentVolumeClaim", asked.namespace, name))
        for name in asked.claims
    }
    classes: dict[str, KubeObject | Unknown | None] = {}
    volumes: dict[str, KubeObject | Unknown | None] = {}
    for name, claim in found.items():
        if claim is None or isinstance(claim, Unknown):
            continue
        of_class, volume = (claim["spec"].get(f"{each}Name") for each in ("storageClass", "volume"))
        if claim.get("status", {}).get("phase") != "Bound":
            if of_class:
                classes[of_class] = _storage_class(api, asked.namespace, name, of_class)
        elif volume and name in asked.written:
            volumes[volume] = _find(api, kinds.path("PersistentVolume", name=volume))
    return Storage(claims=found, storage_classes=classes, volumes=volumes)


def _storage_class(api: Api, namespace: str, claim: str, name: str) -> KubeObject | Unknown | None:
    """Find the class of a claim that is not bound.

    No Role lets a user read classes: where they may not, the claim's events say how it binds.
    """
    found = _find(api, kinds.path("StorageClass", name=name))
    if not isinstance(found, Unknown):
        return found
    of_claim = f"involvedObject.kind=PersistentVolumeClaim,involvedObject.name={claim}"
    events = _tried(partial(_list, api, kinds.path("Event", namespace), fields=of_claim))
    reasons = set() if isinstance(events, Unknown) else {event.get("reason") for event in events}
    if FIRST_CONSUMER in reasons:
        return {"volumeBindingMode": FIRST_CONSUMER}
    return {"volumeBindingMode": "Immediate"} if reasons & NOT_BOUND else found


def _tried(query: Callable[[], T]) -> T | Unknown:
    try:
        return query()
    except ApiFault as fault:
        text = fault.message.strip().rstrip(".") or fault.reason
        if fault.status is None:
            return Unknown(f"no answer: {text}")
        return Unknown(f"{text} ({fault.status})")
    except (KeyError, TypeError, AttributeError):
        return Unknown("the answer is not an object of Kubernetes' API")


def _find(api: Api, path: str) -> KubeObject | Unknown | None:
    return _tried(partial(api.find, path))


def _list(api: Api, path: str, *, labels: str = "", fields: str = "") -> Sequence[KubeObject]:
    return api.list(path, labels=labels, fields=fields)[0]


def _groups(api: Api) -> Mapping[str, Sequence[str]]:
    return {
        group["name"]: tuple(version["version"] for version in group["versions"])
        for group in api.get("/apis")["groups"]
    }


def _resources(api: Api, groups: Mapping[str, Sequence[str]]) -> Sequence[str]:
    asked = dict.fromkeys(kind.api_version for kind in KINDS.values() if kind.group in groups)
    return tuple(each["name"] for one in asked for each in api.get(f"/apis/{one}")["resources"])


def _wrong_job(name: str) -> dict[str, Any]:
    """Make a job that only the operator's own webhook rejects: for its container's name."""
    kind = KINDS[name]
    container = {"name": NOWHERE, "image": NOWHERE}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": kind.api_version,
        "kind": name,
        "metadata": {"name": NOWHERE},
        "spec": {kind.replicas_key: {kind.types[0]: {"replicas": 1, "template": template}}},
    }


def _refusal(api: Api, namespace: str, job: KubeObject) -> Refusal | None:
    try:
        api.create(kinds.path(job["kind"], namespace), job, dry_run=True)
    except ApiFault as fault:
        return Refusal(status=fault.status, message=fault.message)
    return None


def _operator(api: Api) -> KubeObject | None:
    try:
        found, _ = api.list(kinds.path("Deployment"), labels=operator.SELECTOR)
    except ApiFault as fault:
        if fault.status != 403:
            raise
        # Listing all namespaces is forbidden; reading the usual one may be allowed.
        namespace, name = operator.USUAL_PLACE
        return api.find(kinds.path("Deployment", namespace, name))
    return found[0] if found else None


def _init_template(api: Api, deployment: KubeObject | Unknown | None) -> str | Unknown | None:
    if deployment is None or isinstance(deployment, Unknown):
        return None
    source = operator.init_template_source(deployment)
    if source is None:
        return None
    home = deployment["metadata"]["namespace"]
    found = _find(api, kinds.path("ConfigMap", home, source.config_map))
    if found is None or isinstance(found, Unknown):
        return found
    template = found.get("data", {}).get(source.key)
    return None if template is None else str(template)


def _access(api: Api, namespace: str) -> Sequence[Access]:
    path = kinds.path("SelfSubjectAccessReview")
    roles = yaml.safe_load_all(role.text(templates.load()))

    def one(permission: rules.Permission) -> Access:
        answer = api.create(path, permission.review(namespace))
        return Access(permission=permission, allowed=bool(answer["status"]["allowed"]))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return tuple(pool.map(one, rules.permissions(roles)))


def _queue(
    api: Api, asked: Asked, groups: Mapping[str, Sequence[str]]
) -> KubeObject | Unknown | None:
    name = asked.queue
    versions = groups.get("kueue.x-k8s.io")
    if name is None or not versions:
        return None
    home = f"/apis/kueue.x-k8s.io/{versions[0]}/namespaces/{asked.namespace}/localqueues"
    return _find(api, f"{home}/{name}")

"""Requests to the cluster for the facts that :mod:`k8sbench.diagnose.preflight.checks` judges.

An API server that does not answer raises; a single request that is refused becomes an
:class:`~k8sbench.diagnose.preflight.facts.Unknown`. No pods are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

import yaml

from k8sbench.adapters.files import packaged
from k8sbench.adapters.kubernetes import kinds, kueue, trainer_sources
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ROLE, ApiFault
from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Way
from k8sbench.diagnose.preflight import capacity_checks, checks, cluster_checks
from k8sbench.diagnose.preflight.facts import (
    DoctorRequest,
    MetricsEndpoint,
    Permission,
    PreflightFacts,
    Unknown,
    does_not_run,
    permissions,
)
from k8sbench.model import sources
from k8sbench.model.errors import Unreachable
from k8sbench.model.finding import Finding
from k8sbench.model.kinds import KINDS, WORDS
from k8sbench.model.kube import KubeObject
from k8sbench.model.operators import OPERATORS, Operator
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import Framework
from k8sbench.ports import Manifest
from k8sbench.render import templates

T = TypeVar("T")
AT_ONCE = 8
"""Concurrent requests: each permission needs one."""
ANSWER_SECONDS = 5.0
"""Timeout of the first answer of the API server, and of each source of GPU metrics."""


def ask(
    api: Api,
    request: DoctorRequest,
    jobs: Iterable[Sequence[Manifest]],
    prometheus: str = "none",
) -> PreflightFacts:
    """Return all facts; ``jobs`` are k8sbench's own for a dry run, each after its runtime.

    ``prometheus`` is where to look for one: a URL, ``auto`` or ``none``.

    Raises :class:`ApiFault` where the API server does not answer, or rejects our credentials.
    """
    silence = api.no_answer(ANSWER_SECONDS)
    if silence is not None and silence.status in {None, 401}:
        raise silence
    groups = _answer(partial(_groups, api))
    served = {} if isinstance(groups, Unknown) else groups
    plurals = _answer(partial(_plurals, api, served))
    known_kinds = () if isinstance(plurals, Unknown) else plurals
    ours = [job for job in jobs if KINDS[job[-1]["kind"]].plural in known_kinds]
    home = request.namespace
    operators = [one for one in OPERATORS.values() if one.group in served]
    selector = ",".join(f"{key}={value}" for key, value in request.pool.selector.items())
    queries: dict[str, Callable[[], Any]] = {
        "version": lambda: str(api.get("/version")["gitVersion"]),
        "own_jobs": partial(_dry_run, api, home, ours),
        "deployments": partial(_deployments, api, operators),
        "access": partial(_access, api, home),
        "namespace": lambda: api.find(kinds.path("Namespace", name=home)),
        "quotas": lambda: api.list(kinds.path("ResourceQuota", home))[0],
        "nodes": lambda: api.list(kinds.path("Node"), labels=selector)[0],
        "queue": partial(_queue, api, request),
        "flavors": partial(_flavors, api, request),
    }
    if request.pool.gpus_per_node and prometheus != "none":
        queries["prometheus"] = partial(prometheus_endpoint, prometheus, api)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = pool.map(_answer, queries.values())
        answers: dict[str, Any] = dict(zip(queries, results, strict=True))
    return PreflightFacts(
        request=request,
        claims=_claims(api, request),
        server=api.place.server,
        why=api.why,
        is_verified=api.is_verified,
        groups=groups,
        kinds=plurals,
        role_file=str(ROLE),
        **answers,
    )


def dry_run(api: Api, plan: RunPlan, objects: Sequence[Manifest]) -> list[Finding]:
    """Have the API server and the operator's webhook check the objects; then check the rest.

    The operator creates the pods later: what the checks find of them is returned, without what is
    ok. Raises :class:`~k8sbench.model.errors.BenchError` for a rejection.
    """
    for manifest in objects:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            _try(api, api.place.namespace, manifest)
        except ApiFault as fault:
            if kind == "ConfigMap" and fault.reason == "AlreadyExists":
                trainer_sources.check(api, name)
                continue
            raise api.explained(fault, f"{kind} {name} be created") from fault
    request = request_of(plan, api.place.namespace)
    try:
        facts = ask(api, request, [[one for one in objects if one["kind"] != "ConfigMap"]])
    except ApiFault as fault:
        raise api.explained(fault, "the cluster be looked at") from fault
    return [finding for finding in checks.findings(facts) if finding.severity != "ok"]


def request_of(plan: RunPlan, namespace: str) -> DoctorRequest:
    """Return what a run asks of a cluster."""
    claims = sources.claims(plan)
    return DoctorRequest(
        namespace=namespace,
        pool=plan.pool,
        frameworks=(cast(Framework, plan.framework),),
        replicas=plan.replicas,
        gpus=plan.gpus_per_replica,
        image=plan.image,
        claims=tuple(claims),
        written=tuple(name for name, writes in claims.items() if writes),
        queue=plan.queue,
        gang=plan.gang,
        pack=plan.pack,
        job_kind=next(key for key, kind in WORDS.items() if kind == plan.kind),
    )


def refuse(api: Api, request: DoctorRequest) -> None:
    """Reject volume claims that the pods could not mount, and a queue for other nodes than theirs.

    That is before anything is created. Raises :class:`Unreachable`, with a sentence for each. What
    may not be looked at is no reason.
    """
    results = [*capacity_checks.claims(request, _claims(api, request))]
    if not isinstance(flavors := _answer(partial(_flavors, api, request)), Unknown):
        results += cluster_checks.nodes_of_queue(request, flavors)
    failed = [result for result in results if result.severity == "fail"]
    if failed:
        actions = dict.fromkeys(result.action or "" for result in failed)
        raise Unreachable(" ".join(result.sentence for result in failed), " ".join(actions))


def _claims(api: Api, request: DoctorRequest) -> dict[str, KubeObject | Unknown | None]:
    return {
        name: _answer(
            partial(api.find, kinds.path("PersistentVolumeClaim", request.namespace, name))
        )
        for name in request.claims
    }


def _answer(query: Callable[[], T]) -> T | Unknown:
    """Return the answer to a query, or why there is none."""
    try:
        return query()
    except ApiFault as fault:
        text = fault.message.strip().rstrip(".") or fault.reason
        if fault.status is None:
            return Unknown(f"no answer: {text}")
        return Unknown(f"{text} ({fault.status})")
    except (KeyError, TypeError, AttributeError):
        return Unknown("the answer is not an object of Kubernetes' API")


def _groups(api: Api) -> Mapping[str, Sequence[str]]:
    return {
        group["name"]: tuple(version["version"] for version in group["versions"])
        for group in api.get("/apis")["groups"]
    }


def _plurals(api: Api, groups: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the resources of the job kinds' API groups."""
    versions = dict.fromkeys(kind.api_version for kind in KINDS.values() if kind.group in groups)
    return tuple(resource["name"] for version in versions for resource in _served(api, version))


def _served(api: Api, version: str) -> Sequence[KubeObject]:
    """Return the resources of a version of an API group; none where it is not served."""
    try:
        resources: Sequence[KubeObject] = api.get(f"/apis/{version}")["resources"]
    except ApiFault as fault:
        if fault.status != 404:
            raise
        return ()
    return resources


def _dry_run(api: Api, namespace: str, jobs: Iterable[Sequence[Manifest]]) -> dict[str, str | None]:
    """Return who refuses jobs, by their kinds."""
    refusals: dict[str, str | None] = {}
    for objects in jobs:
        kind = objects[-1]["kind"]
        try:
            for manifest in objects:
                _try(api, namespace, manifest)
            refusals[kind] = None
        except ApiFault as fault:
            refusals[kind] = fault.message
    return refusals


def _try(api: Api, namespace: str, manifest: Manifest) -> None:
    """Have the API server and its webhooks check an object; raises :class:`ApiFault`."""
    kind = KINDS.get(manifest["kind"])
    try:
        api.create(kinds.path(manifest["kind"], namespace), manifest, dry_run=True)
    except ApiFault as fault:
        # A dry run has not made the runtime; the webhook that misses it has read the job.
        runtime = None if kind is None else kind.runtime
        if runtime is None or runtime.missing not in fault.message:
            raise


def _deployments(api: Api, operators: Iterable[Operator]) -> dict[str, KubeObject | Unknown | None]:
    """Return the Deployments of operators, and of what these need."""
    programs = [program for one in operators for program in (one, *one.needs)]
    return {program.name: _answer(partial(_deployment, api, program)) for program in programs}


def is_down(api: Api, operator: Operator) -> bool:
    """Return whether an operator, or what it needs, is seen not to run."""
    return does_not_run(operator, _deployments(api, [operator]))


def _deployment(api: Api, program: Operator) -> KubeObject | None:
    try:
        found, _ = api.list(kinds.path("Deployment"), labels=program.selector)
        return found[0] if found else None
    except ApiFault as fault:
        if fault.status != 403:
            raise
        # Listing all namespaces is forbidden; reading the usual one may be allowed.
        return api.find(kinds.path("Deployment", *program.place))


def _access(api: Api, namespace: str) -> Mapping[Permission, bool]:
    needed = tuple(permissions(yaml.safe_load_all(templates.role(packaged.load_templates()))))
    path = kinds.path("SelfSubjectAccessReview")

    def is_allowed(permission: Permission) -> bool:
        return bool(api.create(path, permission.review(namespace))["status"]["allowed"])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(needed, pool.map(is_allowed, needed), strict=True))


def _queue(api: Api, request: DoctorRequest) -> KubeObject | None:
    if request.queue is None:
        return None
    return kueue.find(api, f"namespaces/{request.namespace}/localqueues/{request.queue}")


def _flavors(api: Api, request: DoctorRequest) -> Mapping[str, Mapping[str, str]]:
    return kueue.flavors(api, _queue(api, request), request.pool)


# -- where GPU metrics would come from -----------------------------------------------------------


def prometheus_endpoint(place: str, api: Api | None) -> MetricsEndpoint:
    """Ask the Prometheus of ``--prometheus``, or the likeliest that answers."""

    def asked(way: Way) -> MetricsEndpoint:
        rows, _ = prometheus_api.ask(way, prometheus_api.fields(), ANSWER_SECONDS)
        return MetricsEndpoint(name=way.name, fields=_fields(row.metric for row in rows))

    try:
        ways = prometheus_api.ways(place, api)
        return prometheus_api.first(ways, asked, lambda endpoint: endpoint.fields != ())
    except PrometheusFault as fault:
        return MetricsEndpoint(name="Prometheus", fault=str(fault).rstrip("."))


def _fields(series: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """Return the names of the fields that series have."""
    return tuple(sorted({labels.get("__name__", "") for labels in series}))

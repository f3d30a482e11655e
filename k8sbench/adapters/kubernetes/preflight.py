"""Requests to the cluster for the facts that :mod:`k8sbench.diagnose.preflight.checks` judges.

An API server that does not answer raises; a single request that is refused becomes an
:class:`~k8sbench.diagnose.preflight.checks.Unknown`. No pods are listed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import yaml

from k8sbench.adapters import templates
from k8sbench.adapters.kubernetes import (
    benchmark_objects,
    job_changes,
    kinds,
    listing,
    operator_proxy,
)
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import OBSERVER, ROLE, ApiFault, Tolerated
from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Way
from k8sbench.catalog.training import mounted_claims
from k8sbench.diagnose.preflight import checks
from k8sbench.diagnose.preflight.facts import (
    MetricsEndpoint,
    ObserverFacts,
    Permission,
    PreflightFacts,
    Unknown,
    permissions,
)
from k8sbench.model.errors import JOB_DENIED, BenchError, Unreachable
from k8sbench.model.kinds import KINDS, kind_of
from k8sbench.model.kube import KubeObject, ServingOperator
from k8sbench.model.operators import Operator
from k8sbench.model.plan import RunPlan
from k8sbench.ports.cluster import Manifest
from k8sbench.render import manifest

T = TypeVar("T")
AT_ONCE = 8
"""Concurrent requests: each permission needs one."""
ANSWER_SECONDS = 5.0
"""Timeout of the API server's first answer and of each metrics source."""


def ask(
    api: Api, plan: RunPlan, jobs: Iterable[Sequence[Manifest]], prometheus: str = "none"
) -> PreflightFacts:
    """Return all facts; ``jobs`` are tried in a dry run where no operator serves.

    Each job is preceded by the objects that it needs. ``prometheus`` is a URL, ``auto`` or
    ``none``. Raises an error of the API server that does not answer, or rejects our credentials.
    """
    _check_answers(api)
    serving = _serving(api)
    operated = isinstance(serving, ServingOperator)
    ours = {job[-1]["kind"]: [one for one in job if one["kind"] != "ConfigMap"] for job in jobs}
    groups = _answer(partial(_groups, api))
    served = _answer(partial(_plurals, api, () if isinstance(groups, Unknown) else groups))
    plurals = () if isinstance(served, Unknown) else served
    home = api.place.namespace
    selector = ",".join(f"{key}={value}" for key, value in plan.pool.selector.items())
    queries: dict[str, Callable[[], Any]] = {
        "version": partial(_version, api),
        # If an operator serves the namespace, users need no right to create jobs.
        "refusals": lambda: {
            kind: refusal(api, job)
            for kind, job in ours.items()
            if KINDS[kind].plural in plurals and not operated
        },
        "deployments": partial(_deployments, api, kind_of(plan).operator),
        "access": partial(_access, api, operated=operated),
        "crd_schema": partial(benchmark_objects.schema, api),
        "namespace": lambda: api.find(kinds.path("Namespace", name=home)),
        "quotas": lambda: api.list(kinds.path("ResourceQuota", home))[0],
        "nodes": lambda: api.list(kinds.path("Node"), labels=selector)[0],
        "claims": partial(_claims, api, plan),
        "queue": partial(_queue, api, plan),
        "flavors": partial(_flavors, api, plan),
    }
    if plan.pool.gpus_per_node and prometheus != "none":
        queries["prometheus"] = partial(prometheus_endpoint, prometheus, api)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = pool.map(_answer, queries.values())
        answers: dict[str, Any] = dict(zip(queries, results, strict=True))
    return PreflightFacts(
        plan=plan,
        home=home,
        server=api.place.server,
        why=api.why,
        groups=groups,
        kinds=served,
        serving=serving,
        asked=tuple(ours),
        role_file=str(ROLE),
        **answers,
    )


def ask_as_observer(api: Api) -> ObserverFacts:
    """Return the facts for jobs of others; raises as :func:`ask` does."""
    _check_answers(api)
    rules = tuple(permissions(yaml.safe_load_all(OBSERVER.read_text(encoding="utf-8"))))
    return ObserverFacts(
        home=api.place.namespace,
        server=api.place.server,
        why=api.why,
        version=_answer(partial(_version, api)),
        groups=_answer(partial(_groups, api)),
        role_file=str(OBSERVER),
        rights=_answer(partial(_allowed, api, rules)),
    )


def _check_answers(api: Api) -> None:
    """Raise an error of an API server that does not answer, or rejects our credentials."""
    silence = api.no_answer(ANSWER_SECONDS)
    if silence is not None and silence.status in {None, 401}:
        raise api.explained(silence, "the cluster be looked at")


def refuse(api: Api, plans: Sequence[RunPlan]) -> None:
    """Reject unmountable claims and a queue for other nodes, before creation.

    Raises :class:`Unreachable` with a sentence for each. Forbidden reads reject nothing.
    """
    # One command names one queue and one pool.
    different = {(*mounted_claims(plan).items(), plan.replicas > 1): plan for plan in plans}
    for plan in different.values():
        if mounted_claims(plan) or plan.queue is not None:
            _refuse(api, plan)


def _refuse(api: Api, plan: RunPlan) -> None:
    facts = PreflightFacts(
        plan=plan,
        home=api.place.namespace,
        claims=_claims(api, plan),
        flavors=_answer(partial(_flavors, api, plan)),
    )
    found = checks.findings(facts, "data", "queue-nodes")
    failed = [finding for finding in found if finding.severity == "fail"]
    if failed:
        actions = dict.fromkeys(finding.action or "" for finding in failed)
        error = Unreachable(" ".join(finding.sentence for finding in failed), " ".join(actions))
        error.cause_id = JOB_DENIED
        raise error


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


def _version(api: Api) -> str:
    return str(api.get("/version")["gitVersion"])


def _groups(api: Api) -> Collection[str]:
    return [group["name"] for group in api.get("/apis")["groups"]]


def _plurals(api: Api, groups: Collection[str]) -> Collection[str]:
    """Return the resources of the job kinds' API groups."""
    versions = dict.fromkeys(kind.api_version for kind in KINDS.values() if kind.group in groups)
    return [resource["name"] for version in versions for resource in _served(api, version)]


def _served(api: Api, version: str) -> Sequence[KubeObject]:
    """Return the resources of an API version; none if not served."""
    with Tolerated(404):
        resources: Sequence[KubeObject] = api.get(f"/apis/{version}")["resources"]
        return resources
    return ()


def refusal(api: Api, job: Sequence[Manifest]) -> str | None:
    """Return the refusal of a job's dry run; None if accepted."""
    try:
        for manifest in job:
            _try(api, manifest)
    except ApiFault as fault:
        return fault.message
    return None


def _try(api: Api, manifest: Manifest) -> None:
    """Have the API server and its webhooks check an object; raises :class:`ApiFault`."""
    kind = KINDS.get(manifest["kind"])
    name = manifest["metadata"]["name"]
    if kind is not None and kind.runtime is not None:
        spec = manifest["spec"]
        runtime = spec["runtimeRef"] | {"name": kind.runtime_name(name, secrets.token_hex(4))}
        manifest = {**manifest, "spec": {**spec, "runtimeRef": runtime}}
    try:
        api.create(kinds.path(manifest["kind"], api.place.namespace), manifest, dry_run=True)
    except ApiFault as fault:
        # A dry run creates no runtime; a webhook that misses it has accepted the job.
        if not job_changes.misses_runtime(manifest, fault):
            raise


def _deployments(api: Api, operator: Operator) -> dict[str, KubeObject | Unknown | None]:
    """Return the Deployments of an operator, and of what it needs."""
    programs = (operator, *operator.needs)
    return {program.name: _answer(partial(_deployment, api, program)) for program in programs}


def _deployment(api: Api, program: Operator) -> KubeObject | None:
    with Tolerated(403):
        found, _ = api.list(kinds.path("Deployment"), labels=program.selector)
        return found[0] if found else None
    # Listing all namespaces is forbidden; reading the usual one may be allowed.
    return api.find(kinds.path("Deployment", *program.place))


def _serving(api: Api) -> ServingOperator | Unknown | None:
    try:
        return operator_proxy.find_operator(api)
    except BenchError as error:
        return Unknown(error.message.rstrip("."))


def _access(api: Api, *, operated: bool) -> Mapping[Permission, bool]:
    role = manifest.role(templates.load_templates(), operated=operated)
    return _allowed(api, tuple(permissions(yaml.safe_load_all(role))))


def _allowed(api: Api, needed: Sequence[Permission]) -> Mapping[Permission, bool]:
    """Return whether the user has each permission."""
    path = kinds.path("SelfSubjectAccessReview")

    def is_allowed(permission: Permission) -> bool:
        answer = api.create(path, permission.review(api.place.namespace))
        return bool(answer["status"]["allowed"])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(needed, pool.map(is_allowed, needed), strict=True))


def _claims(api: Api, plan: RunPlan) -> dict[str, KubeObject | Unknown | None]:
    find, home = api.find, api.place.namespace
    return {
        name: _answer(partial(find, kinds.path("PersistentVolumeClaim", home, name)))
        for name in mounted_claims(plan)
    }


def _queue(api: Api, plan: RunPlan) -> KubeObject | None:
    if plan.queue is None:
        return None
    return listing.read_kueue_object(
        api, f"namespaces/{api.place.namespace}/localqueues/{plan.queue}"
    )


def _flavors(api: Api, plan: RunPlan) -> Mapping[str, Mapping[str, str]]:
    return listing.flavors(api, _queue(api, plan), plan.pool)


def prometheus_endpoint(place: str, api: Api | None) -> MetricsEndpoint:
    """Ask the Prometheus of ``--prometheus``, or the likeliest that answers."""

    def asked(way: Way) -> MetricsEndpoint:
        rows, _ = prometheus_api.ask(way, prometheus_api.fields(), ANSWER_SECONDS)
        names = {row.metric.get("__name__", "").upper() for row in rows}
        return MetricsEndpoint(name=way.name, fields=tuple(sorted(names)))

    try:
        ways = prometheus_api.ways(place, api)
        return prometheus_api.first(ways, asked, lambda endpoint: endpoint.fields != ())
    except PrometheusFault as fault:
        return MetricsEndpoint(name="Prometheus", fault=str(fault).rstrip("."))

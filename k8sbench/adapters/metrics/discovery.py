"""Finds a cluster's Prometheus: the address that the chart publishes, else among its services."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault, KubeObject
from k8sbench.adapters.metrics.http_config import ConfigFault
from k8sbench.adapters.metrics.prometheus_api import (
    PrometheusFault,
    Way,
    direct,
    proxied,
    wrong_address,
)

T = TypeVar("T")

CONFIG_MAP, KEY = "dlperf-prometheus", "url"
"""The ConfigMap of the run's namespace in which the chart publishes an address."""
LABELS = (
    ("app.kubernetes.io/name", ("prometheus", "kube-prometheus-stack-prometheus")),
    ("operated-prometheus", ("true",)),
    ("app", ("prometheus", "kube-prometheus-stack-prometheus", "prometheus-server")),
)
"""Labels of a Prometheus' service: the Prometheus operator's, the charts', older charts'."""
NAMES = ("prometheus", "prometheus-k8s", "prometheus-server", "prometheus-operated")
PORTS = ("web", "http-web", "https-web", "http", "https", "prometheus")
"""Names of the port of its API, in the order in which they count."""
NUMBER = 9090
WELL_KNOWN = (
    ("monitoring", "kube-prometheus-stack-prometheus:9090"),
    ("monitoring", "prometheus-k8s:9090"),
    ("monitoring", "prometheus-operated:9090"),
    ("monitoring", "prometheus-server:80"),
    ("monitoring", "prometheus:9090"),
    ("prometheus", "prometheus-server:80"),
)
"""Namespace and service, for users who may not list services."""
MOST = 4
"""Services that are tried where there are more."""
_COMPONENTS = frozenset({"alertmanager", "pushgateway", "node-exporter", "kube-state-metrics"})
_IN_CLUSTER = re.compile(r"(?P<name>[^.]+)\.(?P<namespace>[^.]+)\.svc(?:\.[a-z.]+)?")


class PrometheusCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """Where a Prometheus may be, the likeliest first."""

    ways: tuple[Way, ...] = ()
    why: str = ""
    """Where there is none: one sentence."""


def named(url: str, api: Api | None) -> PrometheusCandidates:
    """Reach an address; one that is known only in the cluster through its API server."""
    refusal = wrong_address(url)
    if refusal is not None:
        # Not shown: it may hold what nobody is to see.
        return PrometheusCandidates(why=f"The address of Prometheus cannot be used: {refusal}.")
    parts = urlsplit(url)
    inside = _IN_CLUSTER.fullmatch(parts.hostname or "")
    if api is None or inside is None or api.place.context is None:
        try:
            return PrometheusCandidates(ways=(direct(url),))
        except ConfigFault as fault:
            return PrometheusCandidates(why=str(fault))
    scheme = "https:" if parts.scheme == "https" else ""
    port = parts.port or (443 if scheme else 80)
    service = f"{scheme}{inside['name']}:{port}"
    return PrometheusCandidates(ways=(proxied(api, inside["namespace"], service, parts.path),))


def in_cluster(api: Api) -> PrometheusCandidates:
    """Find the cluster's; requests are sent once, so that a refusal is known at once."""
    try:
        published = _published(api)
        if published:
            return named(published, api)
        services, _ = api.list(kinds.path("Service"), keep=_kept, retry_s=0)
        likely = candidates(services)[:MOST]
    except ApiFault as fault:
        if fault.status != 403:
            return PrometheusCandidates(
                why=f"No Prometheus can be looked for: {fault.message.rstrip('.')}."
            )
        likely = list(WELL_KNOWN)
    why = "" if likely else "The cluster has no service that is known as a Prometheus."
    return PrometheusCandidates(
        ways=tuple(proxied(api, space, service) for space, service in likely), why=why
    )


def first(places: PrometheusCandidates, ask: Callable[[Way], T], has: Callable[[T], bool]) -> T:
    """Return the answer of the first that has GPU metrics, else of the first that answers.

    Raises :class:`PrometheusFault`; of several that of a refusal, which says more than that there
    is no such service.
    """
    answers: list[T] = []
    faults: list[PrometheusFault] = []
    for way in places.ways:
        try:
            answers.append(ask(way))
        except PrometheusFault as fault:
            faults.append(fault)
        else:
            if has(answers[-1]):
                return answers[-1]
    if answers:
        return answers[0]
    raise next((fault for fault in faults if fault.is_refusal), None) or (
        faults[0] if faults else PrometheusFault(places.why)
    )


def candidates(services: Iterable[KubeObject]) -> list[tuple[str, str]]:
    """Return namespace and service of what looks like a Prometheus, the likeliest first."""
    likely = []
    for service in services:
        place, port = _likeness(service), _port(service["spec"].get("ports") or ())
        if place is not None and port is not None:
            about = service["metadata"]
            likely.append((place, about["namespace"], f"{port[0]}{about['name']}:{port[1]}"))
    return [(namespace, name) for _, namespace, name in sorted(likely)]


def _published(api: Api) -> str:
    try:
        kept = api.get(kinds.path("ConfigMap", api.place.namespace, CONFIG_MAP), retry_s=0)
    except ApiFault as fault:
        if fault.status not in {403, 404}:
            raise
        return ""
    return str((kept.get("data") or {}).get(KEY, "")).strip()


def _kept(service: KubeObject) -> KubeObject | None:
    return None if _likeness(service) is None else service


def _likeness(service: KubeObject) -> int | None:
    """Return how likely a service is a Prometheus, less for more; None: it is none."""
    about = service["metadata"]
    labels: Mapping[str, str] = about.get("labels") or {}
    component = labels.get("app.kubernetes.io/component", labels.get("component", ""))
    # Those that the proxy reaches have pods behind them.
    if component in _COMPONENTS or service["spec"].get("type") == "ExternalName":
        return None
    for place, (label, values) in enumerate(LABELS):
        if labels.get(label) in values:
            return place
    return len(LABELS) if about["name"] in NAMES else None


def _port(ports: Iterable[Mapping[str, object]]) -> tuple[str, object] | None:
    """Return the scheme that the proxy is to use, and the port by its name or number."""
    listed = list(ports)
    known = [port for name in PORTS for port in listed if port.get("name") == name]
    known += [port for port in listed if port.get("port") == NUMBER or len(listed) == 1]
    if not known:
        return None
    name = str(known[0].get("name") or "")
    return "https:" if name.startswith("https") else "", name or known[0]["port"]

"""Finds a cluster's Prometheus: the address that the chart publishes, else the usual services."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
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
WELL_KNOWN = (
    ("monitoring", "kube-prometheus-stack-prometheus:9090"),
    ("monitoring", "prometheus-k8s:9090"),
    ("monitoring", "prometheus-operated:9090"),
    ("monitoring", "prometheus-server:80"),
    ("monitoring", "prometheus:9090"),
    ("prometheus", "prometheus-operated:9090"),
    ("prometheus", "prometheus-server:80"),
)
"""Namespace and service of the Prometheus operator and of the usual charts, the likeliest first."""
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
    """Name the cluster's: what the chart publishes, or the usual ones."""
    try:
        kept = api.get(kinds.path("ConfigMap", api.place.namespace, CONFIG_MAP), retry_s=0)
        published = str((kept.get("data") or {}).get(KEY, "")).strip()
    except ApiFault as fault:
        if fault.status not in {403, 404}:
            return PrometheusCandidates(
                why=f"No Prometheus can be looked for: {fault.message.rstrip('.')}."
            )
        published = ""
    if published:
        return named(published, api)
    return PrometheusCandidates(ways=tuple(proxied(api, *place) for place in WELL_KNOWN))


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
    if not faults:
        raise PrometheusFault(places.why)
    if all(fault.status == 404 for fault in faults) and len(faults) > 1:
        raise PrometheusFault(
            "The cluster has none of the usual services of a Prometheus; name it with --prometheus."
        )
    raise min(faults, key=lambda fault: (fault.status != 403, fault.status == 404))

"""Asks where GPU metrics would come from: facts for the preflight's checks."""

from __future__ import annotations

import re

from k8sbench.adapters.files import templates
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault, KubeObject
from k8sbench.adapters.metrics import discovery, exporters, prometheus_api, promql
from k8sbench.adapters.metrics.exporters import ExporterFault
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Way
from k8sbench.diagnose.preflight.facts import MetricsEndpoint
from k8sbench.render import role

ANSWER_SECONDS = 4.0
"""For all answers of one endpoint."""
_USER = re.compile(r'User "(?P<user>[^"]+)" cannot')


def prometheus(place: str, api: Api | None) -> MetricsEndpoint:
    """Ask the Prometheus of ``--prometheus``, or the likeliest that answers."""
    try:
        if place == "auto" and api is not None:
            ways = discovery.in_cluster(api)
        else:
            ways = discovery.named(place, api)
        return discovery.first(ways, _asked, lambda endpoint: endpoint.fields != ())
    except PrometheusFault as fault:
        way, why = fault.way, str(fault)
        missing = way.service if way is not None and fault.is_refusal else None
        return MetricsEndpoint(
            name="Prometheus" if way is None else way.name,
            fault=why.rstrip("."),
            role=None if missing is None else _role(why, *missing),
        )


def dcgm(api: Api) -> MetricsEndpoint | None:
    """Find the DCGM exporters, and read one of them; None: there is none."""
    try:
        listed = exporters.find(api)
    except ApiFault as fault:
        return MetricsEndpoint(name="DCGM exporters", fault=fault.message.rstrip("."))
    if listed.refusal:
        missing = _role(listed.refusal, exporters.NAMESPACES[0], None)
        return MetricsEndpoint(name="DCGM exporters", fault=listed.why.rstrip("."), role=missing)
    if not listed.pods:
        return None
    return _read(api, listed.pods[0], len(listed.pods))


def _read(api: Api, pod: KubeObject, count: int) -> MetricsEndpoint:
    name = f"DCGM exporter {exporters.called(pod)} (of {count})"
    try:
        fields = {
            sample.labels["__name__"] for sample in exporters.scrape(api, pod, ANSWER_SECONDS)
        }
    except ExporterFault as fault:
        namespace = pod["metadata"]["namespace"]
        missing = _role(str(fault), namespace, None) if fault.status == 403 else None
        return MetricsEndpoint(name=name, fault=str(fault), role=missing)
    return MetricsEndpoint(name=name, fields=tuple(sorted(fields)))


def _asked(way: Way) -> MetricsEndpoint:
    rows, *_ = prometheus_api.ask(way, promql.fields(), ANSWER_SECONDS)
    return MetricsEndpoint(
        name=way.name, fields=tuple(sorted(row.metric.get("__name__", "") for row in rows))
    )


def _role(refusal: str, namespace: str, service: str | None) -> str:
    """Write what is missing, for the user whom the API server's message names."""
    named = _USER.search(refusal)
    user = named["user"] if named else "USER"
    return role.metrics(templates.load(), user=user, namespace=namespace, service=service)

"""Asks where GPU metrics would come from: facts for the preflight's checks."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from k8sbench.adapters.files import templates
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault, KubeObject
from k8sbench.adapters.metrics import discovery, exporters, prometheus_api, promql
from k8sbench.adapters.metrics.exporters import ExporterFault
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Row, Way
from k8sbench.diagnose.preflight import metrics_checks
from k8sbench.diagnose.preflight.facts import MetricsEndpoint
from k8sbench.render import role

ANSWER_SECONDS = 4.0
"""For all answers of one endpoint."""
LOOK_BACK_SECONDS = 300.0
"""How much of the time until now shows how often a GPU is scraped."""
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


def dcgm(api: Api) -> tuple[Sequence[KubeObject], MetricsEndpoint | None]:
    """Find the DCGM exporters, and read one of them."""
    try:
        listed = exporters.find(api)
    except ApiFault as fault:
        return (), MetricsEndpoint(name="DCGM exporters", fault=fault.message.rstrip("."))
    if listed.refusal:
        missing = _role(listed.refusal, exporters.NAMESPACES[0], None)
        why = listed.why.rstrip(".")
        return (), MetricsEndpoint(name="DCGM exporters", fault=why, role=missing)
    return listed.pods, _read(api, listed.pods[0]) if listed.pods else None


def _read(api: Api, pod: KubeObject) -> MetricsEndpoint:
    name = f"DCGM exporter {exporters.called(pod)}"
    try:
        labels = [sample.labels for sample in exporters.scrape(api, pod, ANSWER_SECONDS)]
    except ExporterFault as fault:
        where, why = pod["metadata"]["namespace"], str(fault)
        missing = _role(why, where, None) if fault.status == 403 else None
        return MetricsEndpoint(name=name, fault=why, role=missing)
    is_named = any(label in of_sample for of_sample in labels for _, label in promql.POD_LABELS)
    return MetricsEndpoint(
        name=name,
        fields=tuple(sorted({of_sample["__name__"] for of_sample in labels})),
        interval=metrics_checks.interval(pod),
        names_pods=is_named or metrics_checks.names_pods(pod),
    )


def _asked(way: Way) -> MetricsEndpoint:
    until = time.monotonic() + ANSWER_SECONDS

    def ask(query: str) -> list[Row]:
        return prometheus_api.ask(way, query, max(0.1, until - time.monotonic()))[0]

    fields = tuple(sorted(row.metric.get("__name__", "") for row in ask(promql.fields())))
    if not fields:
        return MetricsEndpoint(name=way.name)
    scrapes = [
        prometheus_api.number(row.value[1])
        for row in ask(promql.scrapes(fields[0], LOOK_BACK_SECONDS))
    ]
    return MetricsEndpoint(
        name=way.name,
        fields=fields,
        interval=LOOK_BACK_SECONDS / scrapes[0] if scrapes and scrapes[0] > 1 else None,
        names_pods=True if ask(promql.with_pods()) else None,
    )


def _role(refusal: str, namespace: str, service: str | None) -> str:
    """Write what is missing, for the user whom the API server's message names."""
    named = _USER.search(refusal)
    user = named["user"] if named else "USER"
    return role.metrics(templates.load(), user=user, namespace=namespace, service=service)

"""Asks where GPU metrics would come from: facts for the preflight's checks."""

from __future__ import annotations

import re
import time

from k8sbench.adapters.files import templates
from k8sbench.adapters.kubernetes.client.api import Api, KubeObject
from k8sbench.adapters.metrics import discovery, exporters, prometheus_api, promql
from k8sbench.adapters.metrics.exporters import ExporterFault
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Row, Way
from k8sbench.diagnose.preflight import metrics_checks
from k8sbench.diagnose.preflight.facts import Source
from k8sbench.render import role

SECONDS = 4.0
"""For one answer."""
LOOK_BACK_SECONDS = 300.0
_USER = re.compile(r'User "(?P<user>[^"]+)" cannot')


def prometheus(place: str, api: Api | None) -> Source:
    """Ask the Prometheus of ``--prometheus``, or the likeliest that answers."""
    if place == "auto" and api is not None:
        found = discovery.in_cluster(api)
    else:
        found = discovery.named(place, api)
    try:
        return discovery.first(found, _asked, lambda one: one.fields != ())
    except PrometheusFault as fault:
        way, why = fault.way, str(fault)
        missing = way.service if way is not None and fault.is_refusal else None
        return Source(
            name="Prometheus" if way is None else way.name,
            wrong=why.rstrip("."),
            role=None if missing is None else _role(why, *missing),
        )


def dcgm(api: Api) -> tuple[tuple[KubeObject, ...], Source | None]:
    """Find the DCGM exporters, and read one of them.

    Raises :class:`ApiFault` where they cannot be looked for.
    """
    found = exporters.find(api)
    if found.refusal:
        text = _role(found.refusal, exporters.NAMESPACES[0], None)
        return (), Source(name="DCGM exporters", wrong=found.why.rstrip("."), role=text)
    if not found.pods:
        return (), None
    pod = found.pods[0]
    name = f"DCGM exporter {exporters.called(pod)}"
    try:
        labels = [sample.labels for sample in exporters.scrape(api, pod, SECONDS)]
    except ExporterFault as fault:
        where, why = pod["metadata"]["namespace"], str(fault)
        missing = _role(why, where, None) if fault.status == 403 else None
        return found.pods, Source(name=name, wrong=why, role=missing)
    named = any(label in one for one in labels for _, label in promql.POD_LABELS)
    return found.pods, Source(
        name=name,
        fields=tuple(sorted({one["__name__"] for one in labels})),
        interval=metrics_checks.interval(pod),
        names_pods=named or metrics_checks.names_pods(pod),
    )


def _asked(way: Way) -> Source:
    until = time.monotonic() + SECONDS

    def ask(query: str) -> list[Row]:
        return prometheus_api.ask(way, query, max(0.1, until - time.monotonic()))[0]

    fields = tuple(sorted(row.metric.get("__name__", "") for row in ask(promql.fields())))
    if not fields:
        return Source(name=way.name)
    scrapes = [
        prometheus_api.number(row.value[1])
        for row in ask(promql.scrapes(fields[0], LOOK_BACK_SECONDS))
    ]
    return Source(
        name=way.name,
        fields=fields,
        interval=LOOK_BACK_SECONDS / scrapes[0] if scrapes and scrapes[0] > 1 else None,
        names_pods=True if ask(promql.with_pods()) else None,
    )


def _role(refusal: str, namespace: str, service: str | None) -> str:
    """Write what is missing, for the user whom the API server's message names."""
    found = _USER.search(refusal)
    user = found["user"] if found else "USER"
    return role.metrics(templates.load(), user=user, namespace=namespace, service=service)

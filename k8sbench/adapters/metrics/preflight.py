"""Asks where GPU metrics would come from: facts for the preflight's checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.dcgm import ExporterFault, called, find, scrape
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Way
from k8sbench.diagnose.preflight.facts import MetricsEndpoint

ANSWER_SECONDS = 4.0
"""For all answers of one endpoint."""


def prometheus(place: str, api: Api | None) -> MetricsEndpoint:
    """Ask the Prometheus of ``--prometheus``, or the likeliest that answers."""
    try:
        if place == "auto" and api is not None:
            ways = prometheus_api.in_cluster(api)
        else:
            ways = prometheus_api.named(place, api)
        return prometheus_api.first(ways, _asked, lambda endpoint: endpoint.fields != ())
    except PrometheusFault as fault:
        return MetricsEndpoint(name="Prometheus", fault=str(fault).rstrip("."))


def dcgm(api: Api) -> MetricsEndpoint | None:
    """Find the DCGM exporters, and read one of them; None: there is none."""
    try:
        pods = find(api)
    except (ApiFault, ExporterFault) as fault:
        why = f"DCGM exporters cannot be looked for: {str(fault).rstrip('.')}"
        return MetricsEndpoint(name="DCGM exporters", fault=why)
    if not pods:
        return None
    name = f"DCGM exporter {called(pods[0])} (of {len(pods)})"
    try:
        samples = scrape(api, pods[0], ANSWER_SECONDS)
    except ExporterFault as fault:
        return MetricsEndpoint(name=name, fault=f"{name} cannot be read: {fault}")
    return MetricsEndpoint(name=name, fields=_sorted(sample.labels for sample in samples))


def _asked(way: Way) -> MetricsEndpoint:
    rows, *_ = prometheus_api.ask(way, prometheus_api.fields(), ANSWER_SECONDS)
    return MetricsEndpoint(name=way.name, fields=_sorted(row.metric for row in rows))


def _sorted(series: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """Return the names of the fields that series have."""
    return tuple(sorted({labels.get("__name__", "") for labels in series}))

"""Asks where GPU metrics would come from: facts for the preflight's checks."""

from __future__ import annotations

import re
import time

from k8sbench.adapters.files import templates
from k8sbench.adapters.kubernetes.client.api import Api, KubeObject
from k8sbench.adapters.metrics import discovery, exporters, prometheus_api, promql
from k8sbench.adapters.metrics.exporters import ExporterFault
from k8sbench.adapters.metrics.prometheus_api import PrometheusFault, Proxied, Way
from k8sbench.diagnose.preflight import metrics_checks
from k8sbench.diagnose.preflight.facts import Exposed, Source, Unknown
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
    wrong = Source(name="Prometheus", has=Unknown(found.why.rstrip(".")))
    for way in found.ways:
        try:
            has = _asked(way, time.monotonic() + SECONDS)
        except PrometheusFault as fault:
            # A refusal says more than a service that is not there.
            if wrong.role is None:
                text = None
                if fault.status == 403 and isinstance(way, Proxied):
                    text = _role(str(fault), way.namespace, way.service)
                wrong = Source(name=way.name, has=Unknown(str(fault).rstrip(".")), role=text)
            continue
        if has.fields or way is found.ways[-1]:
            return Source(name=way.name, has=has)
    return wrong


def dcgm(api: Api) -> tuple[tuple[KubeObject, ...], Source | None]:
    """Find the DCGM exporters, and read one of them.

    Raises :class:`ApiFault` where they cannot be looked for.
    """
    found = exporters.find(api)
    if found.refusal:
        text = _role(found.refusal, exporters.NAMESPACES[0], None)
        return (), Source(name="DCGM exporters", has=Unknown(found.why.rstrip(".")), role=text)
    if not found.pods:
        return (), None
    pod = found.pods[0]
    name = f"DCGM exporter {exporters.called(pod)}"
    try:
        labels = [sample.labels for sample in exporters.scrape(api, pod, SECONDS)]
    except ExporterFault as fault:
        where = pod["metadata"]["namespace"]
        wanted = _role(str(fault), where, None) if fault.status == 403 else None
        return found.pods, Source(name=name, has=Unknown(str(fault)), role=wanted)
    names_pods = any(label in one for one in labels for _, label in promql.POD_LABELS)
    has = Exposed(
        fields=tuple(sorted({one["__name__"] for one in labels})),
        interval=metrics_checks.interval(pod),
        names_pods=names_pods or metrics_checks.is_mapped(pod),
    )
    return found.pods, Source(name=name, has=has)


def _asked(way: Way, until: float) -> Exposed:
    def ask(query: str) -> list[prometheus_api.Row]:
        return prometheus_api.ask(way, query, max(0.1, until - time.monotonic()))[0]

    fields = tuple(sorted(row.metric.get("__name__", "") for row in ask(promql.fields())))
    if not fields:
        return Exposed(fields=())
    scrapes = [
        prometheus_api.number(row.value[1])
        for row in ask(promql.scrapes(fields[0], LOOK_BACK_SECONDS))
    ]
    return Exposed(
        fields=fields,
        interval=LOOK_BACK_SECONDS / scrapes[0] if scrapes and scrapes[0] > 1 else None,
        names_pods=True if ask(promql.with_pods()) else None,
    )


def _role(refusal: str, namespace: str, service: str | None) -> str:
    """Write what is missing, for the user whom the API server's message names."""
    found = _USER.search(refusal)
    user = found["user"] if found else "USER"
    return role.metrics(templates.load(), user=user, namespace=namespace, service=service)

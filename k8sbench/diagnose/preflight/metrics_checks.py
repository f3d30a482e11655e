"""Checks of where GPU metrics come from. Their figures are an addition: none of these fails."""

from __future__ import annotations

from collections.abc import Iterator

from k8sbench.diagnose.preflight.check import CheckResult, ok, warn
from k8sbench.diagnose.preflight.facts import MetricsEndpoint, PreflightFacts
from k8sbench.model.gpu_metrics import METRICS

PAGE = "docs/gpu-metrics.md"


def prometheus(facts: PreflightFacts) -> Iterator[CheckResult]:
    """The Prometheus that is asked answers, and has GPU metrics."""
    endpoint = facts.prometheus
    if endpoint is None:
        return
    if endpoint.fault:
        yield warn(
            f"{endpoint.fault}.",
            "Name its address with --prometheus, have its Role granted"
            f" ({PAGE}), or go on: exporters are read directly.",
        )
    elif endpoint.fields:
        yield ok(f"{endpoint.name} has GPU metrics.")
    else:
        yield warn(
            f"{endpoint.name} answers, and has no GPU metrics: it scrapes no DCGM exporter.",
            "Have it scrape them (their chart has a ServiceMonitor), or go on: they are read, too.",
        )


def exporters(facts: PreflightFacts) -> Iterator[CheckResult]:
    """DCGM exporters can be read, unless Prometheus has them."""
    endpoint = facts.exporters
    if not facts.request.pool.gpus_per_node:
        return
    if (endpoint is None or not endpoint.fields) and _source(facts) is not None:
        yield ok("GPU metrics come from Prometheus; no exporter need be read.")
    elif endpoint is None:
        yield warn(
            "There is neither a Prometheus with GPU metrics nor a DCGM exporter: k8sbench's own"
            " trainers print theirs, other programs have none.",
            "Install NVIDIA's dcgm-exporter (the GPU operator does).",
        )
    elif endpoint.fault:
        yield warn(
            f"{endpoint.name}: {endpoint.fault}.",
            f"Have the Role to read it granted ({PAGE}), see why it does not answer, or go on"
            " without.",
        )
    elif not endpoint.fields:
        yield warn(f"{endpoint.name} has no GPU metrics.", "Look at the exporter's log.")
    else:
        used = "read where no Prometheus has them" if facts.prometheus else "read directly"
        yield ok(f"{endpoint.name} has GPU metrics, {used}.")


def fields(facts: PreflightFacts) -> Iterator[CheckResult]:
    """The source of a run's figures has the fields that judgements rest on."""
    if (source := _source(facts)) is None:
        return
    missing = [
        metric
        for metric in METRICS
        if metric.dcgm and not any(field.name in source.fields for field in metric.dcgm)
    ]
    names = ", ".join(metric.dcgm[0].name for metric in missing)
    if any(metric.is_wanted for metric in missing):
        yield warn(
            f"{source.name} lacks {names}.",
            f"Have an administrator add them to the exporter's counters ({PAGE}). PROF fields need"
            " a GPU that has them.",
        )
    else:
        lacks = f" but {names}" if missing else ""
        yield ok(f"{source.name} has every field that k8sbench reads{lacks}.")


def _source(facts: PreflightFacts) -> MetricsEndpoint | None:
    """The endpoint of which a run's figures would come; None where there is none."""
    for endpoint in (facts.prometheus, facts.exporters):
        if endpoint is not None and endpoint.fields:
            return endpoint
    return None

"""Checks of where GPU metrics come from. Their figures are an addition: none of these fails."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from k8sbench.diagnose.preflight.check import CheckResult, ok, warn
from k8sbench.diagnose.preflight.facts import MetricsEndpoint, PreflightFacts
from k8sbench.model.counts import counted
from k8sbench.model.gpu_metrics import COUNTERS, EXPORTER_SECONDS, METRICS, GpuMetric
from k8sbench.model.kube import KubeObject

APPLY = "Have an administrator apply the Role and RoleBinding below"


def prometheus(facts: PreflightFacts) -> Iterator[CheckResult]:
    """The Prometheus that is asked answers, and has GPU metrics."""
    endpoint = facts.prometheus
    if endpoint is None:
        return
    if endpoint.fault:
        action = "Name its address with --prometheus, or go on: exporters are read directly."
        yield warn(f"{endpoint.fault}.", f"{APPLY}." if endpoint.role else action)
    elif endpoint.fields:
        yield ok(f"{endpoint.name} has {_described(endpoint)}.")
    else:
        yield warn(
            f"{endpoint.name} answers, and has no GPU metrics: it scrapes no DCGM exporter.",
            "Have it scrape them (their chart has a ServiceMonitor), or go on: they are read, too.",
        )


def exporters(facts: PreflightFacts) -> Iterator[CheckResult]:
    """DCGM exporters can be read, unless Prometheus has them."""
    endpoint = facts.exporter
    if not facts.request.pool.gpus_per_node:
        return
    if (endpoint is None or endpoint.fault) and _source(facts) is not None:
        yield ok("GPU metrics come from Prometheus; no exporter need be read.")
    elif endpoint is None:
        yield warn(
            "There is neither a Prometheus with GPU metrics nor a DCGM exporter: k8sbench's own"
            " trainers print theirs, other programs have none.",
            "Install NVIDIA's dcgm-exporter (the GPU operator does).",
        )
    elif endpoint.fault:
        action = f"{APPLY}, where the exporters are." if endpoint.role else None
        yield warn(
            f"{endpoint.name}: {endpoint.fault}.",
            action or "See why it does not answer, or go on without.",
        )
    else:
        used = "read where no Prometheus has them" if facts.prometheus else "read directly"
        count = counted(len(facts.exporters), "DCGM exporter")
        yield ok(f"{count}, {used}: {endpoint.name} has {_described(endpoint)}.")


def fields(facts: PreflightFacts) -> Iterator[CheckResult]:
    """The source of a run's figures has the fields that judgements rest on."""
    if (source := _source(facts)) is None:
        return
    missing = [metric for metric in METRICS if metric.dcgm and not _gives(source, metric)]
    names = ", ".join(metric.dcgm[0].name for metric in missing)
    if any(metric.is_wanted for metric in missing):
        yield warn(
            f"{source.name} lacks {names}.",
            "Have an administrator give the exporter the counters below"
            f" (DCGM_EXPORTER_CONFIGMAP_DATA=NAMESPACE:{COUNTERS}; of the GPU operator"
            f" dcgmExporter.config.name={COUNTERS}). PROF fields need a GPU that has them.",
        )
    else:
        lacks = f" but {names}" if missing else ""
        yield ok(f"{source.name} has every field that k8sbench reads{lacks}.")


def pods(facts: PreflightFacts) -> Iterator[CheckResult]:
    """The source of a run's figures says which pod has a GPU."""
    if (source := _source(facts)) is None:
        return
    is_named = source.names_pods
    if is_named is None and facts.exporters:
        is_named = all(map(names_pods, facts.exporters))
    if is_named:
        yield ok(f"{source.name} says which pod has a GPU.")
    else:
        seen = ", as far as is seen" if is_named is None else ""
        yield warn(
            f"{source.name} does not say which pod has a GPU{seen}: only GPUs that a run's own log"
            " names are known to be its.",
            "Start the exporters with DCGM_EXPORTER_KUBERNETES=true, as their charts do.",
        )


def manifests(facts: PreflightFacts) -> dict[str, str | None]:
    """Return what an administrator may apply, in YAML, by the check that warns of it."""
    return {
        "prometheus": None if facts.prometheus is None else facts.prometheus.role,
        "gpu-metrics": None if facts.exporter is None else facts.exporter.role,
        "gpu-metrics-fields": facts.counters,
    }


def interval(pod: KubeObject) -> float:
    """Return the seconds between an exporter's values, by its environment and arguments."""
    text = _setting(pod, "DCGM_EXPORTER_INTERVAL", "-c", "--collect-interval")
    return int(text) / 1000 if text is not None and text.isdecimal() else EXPORTER_SECONDS


def names_pods(pod: KubeObject) -> bool:
    """Return whether an exporter is set to name the pods that have its GPUs."""
    text = _setting(pod, "DCGM_EXPORTER_KUBERNETES", "-k", "--kubernetes")
    return text is not None and text.lower() not in {"false", "0", "f"}


def _source(facts: PreflightFacts) -> MetricsEndpoint | None:
    """The endpoint of which a run's figures would come; None where there is none."""
    for endpoint in (facts.prometheus, facts.exporter):
        if endpoint is not None and endpoint.fields:
            return endpoint
    return None


def _described(endpoint: MetricsEndpoint) -> str:
    metrics = [metric.id for metric in METRICS if _gives(endpoint, metric)]
    every = f", every {endpoint.interval:.0f} s" if endpoint.interval is not None else ""
    return f"{', '.join(metrics) or 'no GPU metrics'}{every}"


def _gives(endpoint: MetricsEndpoint, metric: GpuMetric) -> bool:
    return any(field.name in endpoint.fields for field in metric.dcgm)


def _setting(pod: KubeObject, variable: str, *options: str) -> str | None:
    """Return a setting of a pod's program; an option without a value is the empty text."""
    for container in pod["spec"]["containers"]:
        words = [*(container.get("command") or ()), *(container.get("args") or ()), ""]
        for word, following in pairwise(words):
            option, equals, value = word.partition("=")
            if option in options:
                return str(value if equals else "" if following.startswith("-") else following)
        for setting in container.get("env") or ():
            if setting["name"] == variable:
                value = setting.get("value")
                return None if value is None else str(value)
    return None

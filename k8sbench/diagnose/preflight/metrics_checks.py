"""Checks of where GPU metrics come from. Their figures are an addition: none of these fails."""

from __future__ import annotations

from collections.abc import Iterator

from k8sbench.diagnose.preflight.facts import (
    Asked,
    Exposed,
    Facts,
    Line,
    Unknown,
    ok,
    warning,
)
from k8sbench.diagnose.preflight.findings import unseen
from k8sbench.model.gpu_metrics import METRICS, GpuMetric
from k8sbench.model.kube import KubeObject

EXPORTER_SECONDS = 30.0
"""The interval of DCGM's exporter unless it is told another."""
NOTICED = ("sm_active", "throttled")
"""Metrics that judgements rest on and that the default counters lack."""
INSTALL = "Install NVIDIA's dcgm-exporter (the GPU operator does)."
COUNTERS = "k8sbench-dcgm-counters"


def source(facts: Facts, asked: Asked) -> Iterator[Line]:
    """There is a source of GPU metrics beside the trainers."""
    if not asked.pool.gpus_per_node:
        return
    prometheus = facts.prometheus
    if prometheus is not None:
        has = prometheus.has
        if isinstance(has, Unknown):
            action = (
                "Have an administrator apply the Role and RoleBinding below."
                if prometheus.role
                else "Name its address with --prometheus, or go on: exporters are read directly."
            )
            yield warning("prometheus", f"{has.why}.", action, prometheus.role)
        elif has.fields:
            yield ok("prometheus", f"{prometheus.name} has {_described(has)}.")
        else:
            yield warning(
                "prometheus",
                f"{prometheus.name} answers, and has no GPU metrics: it scrapes no DCGM exporter.",
                "Have it scrape them (the exporter's chart has a ServiceMonitor), or go on:"
                " k8sbench reads exporters directly.",
            )
    yield _exporters(facts)


def _exporters(facts: Facts) -> Line:
    one = facts.exporter
    if isinstance(facts.exporters, Unknown):
        return unseen("gpu-metrics", "DCGM exporters", facts.exporters)
    if (one is None or isinstance(one.has, Unknown)) and _chosen(facts) is not None:
        return ok("gpu-metrics", "GPU metrics come from Prometheus; no exporter need be read.")
    if one is None:
        return warning(
            "gpu-metrics",
            "There is neither a Prometheus with GPU metrics nor a DCGM exporter: they come from the"
            " trainers alone (NVML), and of other programs there are none.",
            INSTALL,
        )
    if isinstance(one.has, Unknown):
        action = (
            "Have an administrator apply the Role and RoleBinding below, where the exporters are."
            if one.role
            else "See why it does not answer, or go on without."
        )
        return warning("gpu-metrics", f"{one.name}: {one.has.why}.", action, one.role)
    used = "read where no Prometheus has them" if facts.prometheus else "read directly"
    number = len(facts.exporters)
    count = f"{number} DCGM exporter{'s' if number != 1 else ''}"
    return ok("gpu-metrics", f"{count}, {used}: {one.name} has {_described(one.has)}.")


def fields(facts: Facts, asked: Asked) -> Iterator[Line]:
    """The source gives what judgements rest on."""
    chosen = _chosen(facts) if asked.pool.gpus_per_node else None
    if chosen is None:
        return
    name, has = chosen
    missing = [metric for metric in METRICS if metric.dcgm and not _gives(has, metric)]
    names = ", ".join(metric.dcgm[0].name for metric in missing)
    if not missing:
        yield ok("gpu-metrics-fields", f"{name} has every field that k8sbench reads.")
    elif any(metric.id in NOTICED for metric in missing):
        yield warning(
            "gpu-metrics-fields",
            f"{name} lacks {names}.",
            "Have an administrator give the exporter the counters below"
            f" (DCGM_EXPORTER_CONFIGMAP_DATA=NAMESPACE:{COUNTERS}; of the GPU operator"
            f" dcgmExporter.config.name={COUNTERS}), or go on: our trainers tell the clocks' event"
            " reasons. PROF fields need a GPU with profiling metrics.",
            counters(),
        )
    else:
        yield ok("gpu-metrics-fields", f"{name} lacks {names}, which little depends on.")


def pods(facts: Facts, asked: Asked) -> Iterator[Line]:
    """Samples say whose a GPU is."""
    chosen = _chosen(facts) if asked.pool.gpus_per_node else None
    if chosen is None:
        return
    name, has = chosen
    known = has.names_pods
    if known is None and not isinstance(facts.exporters, Unknown):
        told = [is_mapped(pod) for pod in facts.exporters]
        known = all(told) if told else None
    if known:
        yield ok("gpu-metrics-pods", f"{name} says which pod has a GPU.")
    else:
        seen = ", as far as is seen" if known is None else ""
        yield warning(
            "gpu-metrics-pods",
            f"{name} does not say which pod has a GPU{seen}: only GPUs that a run's own log names"
            " are known to be its.",
            "Start the exporters with DCGM_EXPORTER_KUBERNETES=true, and mount"
            " /var/lib/kubelet/pod-resources, as their charts do.",
        )


def interval(pod: KubeObject) -> float:
    """Return the seconds between an exporter's values, by its environment and arguments."""
    text = _setting(pod, "DCGM_EXPORTER_INTERVAL", "-c", "--collect-interval")
    return int(text) / 1000 if text is not None and text.isdecimal() else EXPORTER_SECONDS


def is_mapped(pod: KubeObject) -> bool:
    """Return whether an exporter is told to name pods."""
    text = _setting(pod, "DCGM_EXPORTER_KUBERNETES", "-k", "--kubernetes")
    return text is not None and text.lower() not in {"false", "0", "f"}


def counters() -> str:
    """Write a ConfigMap of all fields, as the exporter and the GPU operator read one."""
    lines = []
    for metric in METRICS:
        for field in metric.dcgm[:1]:
            kind = "counter" if metric.over_time == "increase" else "gauge"
            lines.append(f"    {field.name}, {kind}, {metric.title}")
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {COUNTERS}\ndata:\n"
    rows = "\n".join(lines)
    # The exporter's own key, then the GPU operator's.
    return f"{head}  metrics: &metrics |\n{rows}\n  dcgm-metrics.csv: *metrics\n"


def _chosen(facts: Facts) -> tuple[str, Exposed] | None:
    """Return the source that a run's figures would come from, and what it has."""
    for one in (facts.prometheus, facts.exporter):
        if one is not None and isinstance(one.has, Exposed) and one.has.fields:
            return one.name, one.has
    return None


def _described(has: Exposed) -> str:
    metrics = [metric.id for metric in METRICS if _gives(has, metric)]
    every = f", every {has.interval:.0f} s" if has.interval is not None else ""
    return f"{', '.join(metrics) or 'no GPU metrics'}{every}"


def _gives(has: Exposed, metric: GpuMetric) -> bool:
    return any(field.name in has.fields for field in metric.dcgm)


def _setting(pod: KubeObject, variable: str, *options: str) -> str | None:
    for container in pod["spec"]["containers"]:
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        for place, word in enumerate(words):
            option, equals, value = word.partition("=")
            if option in options:
                following = words[place + 1] if place + 1 < len(words) else ""
                return str(value if equals else following if following[:1] != "-" else "")
        for each in container.get("env") or ():
            if each["name"] == variable:
                value = each.get("value")
                return None if value is None else str(value)
    return None

"""Checks of where GPU metrics come from. Their figures are an addition: none of these fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from k8sbench.diagnose.preflight.facts import Asked, Facts, Line, Source, Unknown, ok, warning
from k8sbench.diagnose.preflight.findings import unseen
from k8sbench.model.gpu_metrics import COUNTERS, EXPORTER_SECONDS, METRICS, GpuMetric
from k8sbench.model.kube import KubeObject

NOTICED = ("sm_active", "throttled")
"""Metrics that judgements rest on and that the default counters lack."""
INSTALL = "Install NVIDIA's dcgm-exporter (the GPU operator does)."
APPLY = "Have an administrator apply the Role and RoleBinding below."


def sources(facts: Facts, asked: Asked) -> Iterator[Line]:
    """There is a source of GPU metrics beside the trainers; it gives what judgements rest on."""
    if not asked.pool.gpus_per_node:
        return
    known = [one for one in (facts.prometheus, facts.exporter) if one is not None and one.fields]
    if facts.prometheus is not None:
        yield _prometheus(facts.prometheus)
    yield _exporters(facts, known)
    # That of which a run's figures would come.
    for one in known[:1]:
        yield _fields(one, facts.counters)
        yield _pods(one, () if isinstance(facts.exporters, Unknown) else facts.exporters)


def _prometheus(one: Source) -> Line:
    if one.wrong:
        action = "Name its address with --prometheus, or go on: exporters are read directly."
        return warning("prometheus", f"{one.wrong}.", APPLY if one.role else action, one.role)
    if one.fields:
        return ok("prometheus", f"{one.name} has {_described(one)}.")
    return warning(
        "prometheus",
        f"{one.name} answers, and has no GPU metrics: it scrapes no DCGM exporter.",
        "Have it scrape them (the exporter's chart has a ServiceMonitor), or go on:"
        " k8sbench reads exporters directly.",
    )


def _exporters(facts: Facts, known: Sequence[Source]) -> Line:
    one = facts.exporter
    if isinstance(facts.exporters, Unknown):
        return unseen("gpu-metrics", "DCGM exporters", facts.exporters)
    if (one is None or one.wrong) and known:
        return ok("gpu-metrics", "GPU metrics come from Prometheus; no exporter need be read.")
    if one is None:
        return warning(
            "gpu-metrics",
            "There is neither a Prometheus with GPU metrics nor a DCGM exporter: they come from the"
            " trainers alone (NVML), and of other programs there are none.",
            INSTALL,
        )
    if one.wrong:
        action = "See why it does not answer, or go on without."
        if one.role:
            action = f"{APPLY.removesuffix('.')}, where the exporters are."
        return warning("gpu-metrics", f"{one.name}: {one.wrong}.", action, one.role)
    used = "read where no Prometheus has them" if facts.prometheus else "read directly"
    number = len(facts.exporters)
    count = f"{number} DCGM exporter{'s' if number != 1 else ''}"
    return ok("gpu-metrics", f"{count}, {used}: {one.name} has {_described(one)}.")


def _fields(one: Source, counters: str) -> Line:
    missing = [metric for metric in METRICS if metric.dcgm and not _gives(one, metric)]
    names = ", ".join(metric.dcgm[0].name for metric in missing)
    if not missing:
        return ok("gpu-metrics-fields", f"{one.name} has every field that k8sbench reads.")
    if not any(metric.id in NOTICED for metric in missing):
        return ok("gpu-metrics-fields", f"{one.name} lacks {names}, which little depends on.")
    return warning(
        "gpu-metrics-fields",
        f"{one.name} lacks {names}.",
        "Have an administrator give the exporter the counters below"
        f" (DCGM_EXPORTER_CONFIGMAP_DATA=NAMESPACE:{COUNTERS}; of the GPU operator"
        f" dcgmExporter.config.name={COUNTERS}), or go on: our trainers print the clocks' event"
        " reasons. PROF fields need a GPU with profiling metrics.",
        counters,
    )


def _pods(one: Source, exporters: Sequence[KubeObject]) -> Line:
    known = one.names_pods
    if known is None and exporters:
        known = all(map(names_pods, exporters))
    if known:
        return ok("gpu-metrics-pods", f"{one.name} says which pod has a GPU.")
    seen = ", as far as is seen" if known is None else ""
    return warning(
        "gpu-metrics-pods",
        f"{one.name} does not say which pod has a GPU{seen}: only GPUs that a run's own log names"
        " are known to be its.",
        "Start the exporters with DCGM_EXPORTER_KUBERNETES=true, and mount"
        " /var/lib/kubelet/pod-resources, as their charts do.",
    )


def interval(pod: KubeObject) -> float:
    """Return the seconds between an exporter's values, by its environment and arguments."""
    text = _setting(pod, "DCGM_EXPORTER_INTERVAL", "-c", "--collect-interval")
    return int(text) / 1000 if text is not None and text.isdecimal() else EXPORTER_SECONDS


def names_pods(pod: KubeObject) -> bool:
    """Return whether an exporter is set to name the pods that have its GPUs."""
    text = _setting(pod, "DCGM_EXPORTER_KUBERNETES", "-k", "--kubernetes")
    return text is not None and text.lower() not in {"false", "0", "f"}


def _described(one: Source) -> str:
    metrics = [metric.id for metric in METRICS if _gives(one, metric)]
    every = f", every {one.interval:.0f} s" if one.interval is not None else ""
    return f"{', '.join(metrics) or 'no GPU metrics'}{every}"


def _gives(one: Source, metric: GpuMetric) -> bool:
    return any(field.name in one.fields for field in metric.dcgm)


def _setting(pod: KubeObject, variable: str, *options: str) -> str | None:
    """Return a setting of a pod's program; an option without a value is the empty text."""
    for container in pod["spec"]["containers"]:
        words = [*(container.get("command") or ()), *(container.get("args") or ()), ""]
        for word, following in pairwise(words):
            option, equals, value = word.partition("=")
            if option in options:
                return str(value if equals else "" if following.startswith("-") else following)
        for each in container.get("env") or ():
            if each["name"] == variable:
                value = each.get("value")
                return None if value is None else str(value)
    return None

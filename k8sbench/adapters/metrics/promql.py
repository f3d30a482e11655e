"""The text of every query that Prometheus is sent.

Samples are read with range selectors in instant queries, which return them as they were stored,
with their own stamps: no step is chosen that could repeat or skip one, what went stale has no
samples, and a counter's resets are seen. All such functions are known to every server that speaks
Prometheus' API.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from k8sbench.model.gpu_metrics import METRICS

FIELDS = tuple(field.name for metric in METRICS for field in metric.dcgm)
"""DCGM's fields, as exporters name their metrics."""
ANY_FIELD = "DCGM_FI_.+"
COMMON = "DCGM_FI_DEV_POWER_USAGE"
"""A field that nearly all exporters give."""
BATCH = 64
"""GPUs or pods that one query names, so that its URL stays below 8 KiB."""
POD_LABELS = (
    ("exported_namespace", "exported_pod"),
    ("pod_namespace", "pod_name"),
    ("namespace", "pod"),
)
"""Labels of the workload's namespace and pod, in the order in which they count. A Prometheus
without ``honor_labels`` puts ``exported_`` before those that the exporter gives, and sets its own
of the exporter's pod; the second are old exporters'."""
UUID_LABELS = ("UUID", "uuid")
HOST_LABELS = ("hostname", "Hostname")


def owned(namespace: str | None, pods: Sequence[str], uuids: Sequence[str], seconds: float) -> str:
    """Which GPUs pods had, by any style of labels, or which of these GPUs are known."""
    selectors = []
    if namespace is not None and pods:
        for space, pod in POD_LABELS:
            selectors.append(_named(ANY_FIELD, {space: [namespace], pod: pods}))
    if uuids:
        selectors += [_named(ANY_FIELD, {label: uuids}) for label in UUID_LABELS]
    span = _span(seconds)
    latest = " or ".join(f"last_over_time({selector}{span})" for selector in selectors)
    return f"group by ({', '.join(UUID_LABELS)}) ({latest})"


def samples(label: str, uuids: Sequence[str], seconds: float) -> str:
    """The samples of GPUs, whoever has them and whichever exporter gives them."""
    return _named("|".join(FIELDS), {label: uuids}) + _span(seconds)


def known_nodes(seconds: float) -> str:
    """Of which nodes there are GPU metrics, and how often their GPUs were scraped.

    0 where a common field does not show it.
    """
    labels = ", ".join(HOST_LABELS)
    scraped = f"count_over_time({_selector(COMMON, (), {})}{_span(seconds)})"
    latest = f"last_over_time({_named(ANY_FIELD, {})}{_span(seconds)})"
    return f"max by ({labels}) ({scraped}) or 0 * count by ({labels}) ({latest})"


def fields() -> str:
    """Which of the fields that count there are now."""
    return f"count by (__name__) ({_named('|'.join(FIELDS), {})})"


def batches(names: Iterable[str]) -> list[Sequence[str]]:
    """Names in an order of their own, so that one run's queries are the same each time."""
    every = sorted(names)
    return [every[start : start + BATCH] for start in range(0, len(every), BATCH)]


def _named(fields: str, wanted: Mapping[str, Sequence[str]]) -> str:
    return _selector("", [f"__name__=~{_text(fields)}"], wanted)


def _selector(name: str, matchers: Sequence[str], wanted: Mapping[str, Sequence[str]]) -> str:
    others = []
    for label, values in wanted.items():
        if len(values) == 1:
            others.append(f"{label}={_text(values[0])}")
        else:
            any_of = "|".join(re.escape(value).replace(r"\-", "-") for value in values)
            others.append(f"{label}=~{_text(any_of)}")
    return f"{name}{{{','.join([*matchers, *others])}}}"


def _text(value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{quoted}"'


def _span(seconds: float) -> str:
    return f"[{max(1, round(seconds * 1000))}ms]"

"""Queries to a Prometheus, directly or through the API server's proxy.

Each query returns in its time limit, with an answer or a one-sentence reason. Only GET is used, so
``get`` on ``services/proxy`` suffices.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec
import urllib3

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import proxy_for
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.client.transport import Login, Sender
from k8sbench.json_decoders import decoder
from k8sbench.model.errors import InputError
from k8sbench.model.gpu_metrics import METRICS
from k8sbench.model.run import Location

T = TypeVar("T")
AGAIN_SECONDS = 4.0
"""Limit of retries for a server that starts or is busy, seconds."""
CONFIG_MAP, KEY = "dlperf-prometheus", "url"
"""ConfigMap in the run's namespace with the chart's address."""
WELL_KNOWN = (
    ("monitoring", "prometheus-operated:9090"),
    ("monitoring", "prometheus-server:80"),
)
"""Usual namespace and services of the Prometheus operator and of the plain chart."""
_IN_CLUSTER = re.compile(r"(?P<name>[^.]+)\.(?P<namespace>[^.]+)\.svc(?:\.[a-z.]+)?")


class Way(NamedTuple):
    """Connection to a Prometheus."""

    api: Api
    """The client of the cluster, or of an address."""
    path: str
    name: str
    """Name in sentences."""
    service: tuple[str, str] | None = None
    """Namespace and service of a proxied one, as in access rules.

    For example ``prometheus-k8s:web``; None without the API server's proxy.
    """


class PrometheusFault(Exception):
    """There is no answer: one sentence that says why."""


class SeriesRow(msgspec.Struct):
    """One series of an answer."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    """Its samples, where a range was asked for."""
    value: tuple[float, str] = (0.0, "nan")
    """Time of a query's evaluation, and the result."""


class _Data(msgspec.Struct):
    result: list[SeriesRow]


class _Reply(msgspec.Struct):
    status: str = ""
    data: _Data | None = None
    error: str = ""
    error_type: str = msgspec.field(name="errorType", default="")
    warnings: list[str] = []


def proxied(api: Api, namespace: str, service: str, prefix: str = "") -> Way:
    """Reach a service through the API server, with the user's rights."""
    path = f"/api/v1/namespaces/{namespace}/services/{service}/proxy{prefix.rstrip('/')}"
    name = f"Prometheus {namespace}/{service}"
    return Way(api, f"{path}/api/v1/query", name, (namespace, service))


def ask(
    way: Way, query: str, seconds: float, *, at: float | None = None
) -> tuple[list[SeriesRow], list[str]]:
    """Return an answer's rows and warnings; raises :class:`PrometheusFault`."""
    # The server gives up when we do.
    words = {"query": query, "timeout": f"{max(1, int(seconds))}s"}
    if at is not None:
        words["time"] = f"{at:.3f}"
    again_s = min(seconds, AGAIN_SECONDS)
    try:
        answer = way.api.read(way.path, max(0.1, seconds), retry_s=again_s, **words)
    except ApiFault as fault:
        raise PrometheusFault(_explained(way, fault)) from fault
    reply = _decoded(answer)
    if reply is not None and reply.status != "success":
        why = f"{reply.error_type}: {reply.error}"
        raise PrometheusFault(f"{way.name} refuses the query ({why}).")
    if reply is None or reply.data is None:
        raise PrometheusFault(f"{way.name} does not speak Prometheus' API: it answers otherwise.")
    return reply.data.result, reply.warnings


def _decoded(answer: bytes | str) -> _Reply | None:
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        return decoder(_Reply).decode(answer)
    return None


def number(text: str) -> float:
    """Parse a value; invalid text is NaN, which counts as no sample."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _explained(way: Way, fault: ApiFault) -> str:
    if fault.denied or fault.reason == faults.CREDENTIALS:
        why = faults.explained(fault, "Prometheus be asked", way.api.place)
        return f"{way.name} cannot be asked: {why.message}"
    reply = _decoded(fault.message)
    said = " ".join(((reply and reply.error) or fault.message).split()).rstrip(".")
    if fault.status is None:
        return f"{way.name} cannot be reached: {said}."
    said = f"{way.name} answers {fault.status}{': ' if said else ''}{said}"
    if fault.status in {301, 302, 303, 307, 308, 401, 403} and way.service is None:
        said += f"; {VARIABLE} names a file with credentials"
    return f"{said}."


def wrong_address(url: str) -> str | None:
    """Say what is wrong with an address; None: nothing is."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "it is no URL"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "it has to begin with http:// or https://, and a host"
    if parts.username is not None or parts.password is not None:
        return f"it holds a password, which belongs in the file that {VARIABLE} names"
    return None


# --- where it is -------------------------------------------------------------------------------


def named(url: str, api: Api | None) -> tuple[Way, ...]:
    """Return the ways to an address; in-cluster ones through the API server.

    Raises :class:`PrometheusFault` for an unusable address.
    """
    if (refusal := wrong_address(url)) is not None:
        # Not shown, because it may hold a password.
        raise PrometheusFault(f"The address of Prometheus cannot be used: {refusal}.")
    parts = urlsplit(url)
    inside = _IN_CLUSTER.fullmatch(parts.hostname or "")
    if api is None or inside is None or api.place.context is None:
        server = url.rstrip("/")
        proxy = proxy_for(server, os.environ)
        sender = Sender(server, proxy, lambda: _signed_in(proxy))
        own = Api(Location(server=server, namespace=""), VARIABLE, sender)
        return (Way(own, "/api/v1/query", f"Prometheus at {server}"),)
    scheme = "https:" if parts.scheme == "https" else ""
    port = parts.port or (443 if scheme else 80)
    service = f"{scheme}{inside['name']}:{port}"
    return (proxied(api, inside["namespace"], service, parts.path),)


def ways(place: str, api: Api | None) -> tuple[Way, ...]:
    """Return the ways to ``--prometheus``: a URL, or ``auto``.

    That is what the chart publishes in the namespace, or else the ``usual`` ones. Raises
    :class:`PrometheusFault`. The API client stays its owner's to close.
    """
    if api is None or place not in {"auto", "usual"}:
        return named(place, api)
    if place == "auto" and (published := _published(api)):
        return named(published, api)
    return tuple(proxied(api, *usual) for usual in WELL_KNOWN)


def _published(api: Api) -> str:
    try:
        with faults.Tolerated(403, 404):
            kept = api.get(kinds.path("ConfigMap", api.place.namespace, CONFIG_MAP), retry_s=0)
            return str((kept.get("data") or {}).get(KEY, "")).strip()
    except ApiFault as fault:
        why = f"No Prometheus can be looked for: {fault.message.rstrip('.')}."
        raise PrometheusFault(why) from fault
    return ""


def first(ways: Sequence[Way], ask: Callable[[Way], T], has: Callable[[T], bool]) -> T:
    """Return the first answer with GPU metrics, or the first answer.

    Raises :class:`PrometheusFault` with the reasons of all.
    """
    answers: list[T] = []
    faults: list[str] = []
    for way in ways:
        try:
            answers.append(ask(way))
        except PrometheusFault as fault:
            faults.append(str(fault))
    if answers:
        return next(filter(has, answers), answers[0])
    hint = ["Name another with --prometheus."] if len(faults) > 1 else []
    raise PrometheusFault(" ".join(faults + hint))


# -- promql ---------------------------------------------------------------------------------------
#
# Samples are read with range selectors in instant queries, which return them as they were stored,
# with their own stamps: no step could repeat or skip one, what went stale has no samples, and a
# counter's resets are seen. Every server that speaks Prometheus' API knows such functions.

FIELDS = tuple(field.name for metric in METRICS for field in metric.dcgm)
"""DCGM's fields, as exporters name their metrics."""
_ALL_FIELDS = "|".join((*FIELDS, *map(str.lower, FIELDS)))
ANY_FIELD = "DCGM_FI_.+|dcgm_fi_.+"
COMMON = "DCGM_FI_DEV_POWER_USAGE"
"""A field that nearly all exporters give."""
BATCH = 64
"""Maximum GPUs or pods per query, so that URLs stay below 8 KiB."""
POD_LABELS = (
    ("exported_namespace", "exported_pod"),
    # Of exporters that keep to their first labels, of collectors in between, and of clouds.
    ("pod_namespace", "pod_name"),
    ("exported_namespace", "pod_name"),
    ("namespace", "pod_name"),
    ("NamespaceName", "PodName"),
    ("namespace", "pod"),
)
"""Labels of the workload's namespace and pod, in order of precedence.

A Prometheus without ``honor_labels`` adds ``exported_`` to the exporter's labels and sets its own
labels of the exporter's pod.
"""
UUID, HOST = "UUID", "Hostname"
"""Labels of a GPU and its node; some exporters and collectors write them in lower case."""
Lookup = tuple[str, tuple[tuple[str, str], ...]]
LOOKUPS: tuple[Lookup, ...] = (
    (UUID, (POD_LABELS[0], POD_LABELS[-1])),
    *((UUID.lower(), (labels,)) for labels in POD_LABELS[1:-1]),
)
"""Labels by which a run's GPUs are looked up, until some are found.

The label of the UUIDs of its log, and those of its pods: today's exporter first.
"""


def owned(
    namespace: str | None,
    pods: Sequence[str],
    uuids: Sequence[str],
    seconds: float,
    lookup: Lookup = LOOKUPS[0],
) -> str:
    """Query the GPUs of pods, and the known ones among UUIDs."""
    label, styles = lookup
    selectors = []
    if namespace is not None and pods:
        for space, pod in styles:
            selectors.append(_named(ANY_FIELD, {space: [namespace], pod: pods}))
    if uuids:
        selectors.append(_named(ANY_FIELD, {label: uuids}))
    span = _span(seconds)
    latest = " or ".join(f"last_over_time({selector}{span})" for selector in selectors)
    return f"group by ({_either(UUID)}) ({latest})"


def samples(uuids: Sequence[str], seconds: float, label: str = UUID) -> str:
    """Query the samples of GPUs, regardless of pod and exporter."""
    return _named(_ALL_FIELDS, {label: uuids}) + _span(seconds)


def known_nodes(seconds: float) -> str:
    """Query the nodes with GPU metrics and their number of scrapes.

    The number is 0 if a common field does not show it.
    """
    by = f"by ({_either(HOST)})"
    names = (COMMON, COMMON.lower())
    scraped = [f"max {by} (count_over_time({name}{_span(seconds)}))" for name in names]
    latest = f"last_over_time({_named(ANY_FIELD, {})}{_span(seconds)})"
    return " or ".join([*scraped, f"0 * count {by} ({latest})"])


def fields() -> str:
    """Query the present fields among those that count."""
    return f"count by (__name__) ({_named(_ALL_FIELDS, {})})"


def either(labels: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return a label's name as the exporter writes it, and its value or ''."""
    found = name if labels.get(name) else name.lower()
    return found, labels.get(found, "")


def _either(name: str) -> str:
    return f"{name}, {name.lower()}"


def batches(names: Iterable[str]) -> list[Sequence[str]]:
    """Split names into sorted batches, so that queries are reproducible."""
    every = sorted(names)
    return [every[start : start + BATCH] for start in range(0, len(every), BATCH)]


def _named(fields: str, wanted: Mapping[str, Sequence[str]]) -> str:
    matchers = [f"__name__=~{_text(fields)}"]
    for label, values in wanted.items():
        any_of = "|".join(re.escape(value).replace(r"\-", "-") for value in values)
        # A proxy that enforces a label may know only an equal one.
        is_one = len(values) == 1
        matchers.append(f"{label}={_text(values[0])}" if is_one else f"{label}=~{_text(any_of)}")
    return f"{{{','.join(matchers)}}}"


def _text(value: str) -> str:
    """Quote a text; PromQL's escapes include JSON's."""
    return msgspec.json.encode(value).decode()


def _span(seconds: float) -> str:
    return f"[{max(1, round(seconds * 1000))}ms]"


# -- credentials of an address ---------------------------------------------------------------------
#
# A part of promtool's configuration says whom to trust and what to send. The configuration and its
# files are read for each request, because tokens are renewed.

VARIABLE = "K8SBENCH_PROMETHEUS_CONFIG"
"""The environment variable that names the file."""


class ConfigFault(InputError):
    """Invalid configuration; the sentence shows none of its content."""


class Authorization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bearer token, in a file."""

    credentials_file: str


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whom to trust."""

    ca_file: str


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Values of one header: literal, or from one file each."""

    values: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the file."""

    authorization: Authorization | None = None
    tls_config: Tls | None = None
    http_headers: dict[str, Header] = {}


class _ConfiguredLogin(Login):
    """The file's credentials, read for each request."""

    def headers(self) -> urllib3.HTTPHeaderDict:
        """Return the headers of a request; raises :class:`ConfigFault`."""
        config, folder = _read_config()
        headers = urllib3.HTTPHeaderDict()
        for name, one in config.http_headers.items():
            for value in (*one.values, *(_read(folder, file) for file in one.files)):
                headers.add(name, value)
        if config.authorization is not None:
            token = _read(folder, config.authorization.credentials_file)
            headers["Authorization"] = f"Bearer {token}"
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise ConfigFault(f"No header can hold a token or value that {VARIABLE} gives.")
        return headers


def _signed_in(proxy: str | None) -> Login:
    config, folder = _read_config()
    tls = config.tls_config
    ca = None if tls is None else str(folder / Path(tls.ca_file).expanduser())
    made = urllib3.ProxyManager(proxy, ca_certs=ca) if proxy else None
    pool = made or urllib3.PoolManager(ca_certs=ca)
    return _ConfiguredLogin(None, pool, VARIABLE)


def _read_config() -> tuple[HttpConfig, Path]:
    """Read the file and its folder; raises :class:`ConfigFault`."""
    path = os.environ.get(VARIABLE)
    if not path:
        return HttpConfig(), Path()
    folder = Path(path).expanduser().absolute().parent
    try:
        text = _read(Path(), path)
        return msgspec.yaml.decode(text, type=HttpConfig | None) or HttpConfig(), folder
    except msgspec.ValidationError as error:
        why = str(error).replace(
            "Object contains unknown field", "k8sbench does not support the key"
        )
        raise ConfigFault(f"{path} ({VARIABLE}) cannot be used: {why}.") from None
    except msgspec.DecodeError:  # not shown: parsers quote what they stumble over, as a password
        raise ConfigFault(f"{path} ({VARIABLE}) is not YAML.") from None


def _read(folder: Path, file: str) -> str:
    path = folder / Path(file).expanduser()
    try:
        return path.read_text(errors="replace").strip()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigFault(f"{path} cannot be read: {why}; {VARIABLE} names it.") from error

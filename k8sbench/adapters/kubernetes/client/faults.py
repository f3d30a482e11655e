"""Faults of requests to the API server, and their meaning.

:class:`ApiFault` is for the adapter, which needs to know whether a retry helps. :func:`explained`
turns one into the error that the user reads: one sentence on what is wrong, one on what to do.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import urllib3.exceptions

from k8sbench.model import benchmark_object
from k8sbench.model.errors import BenchError, Unreachable, UsageError
from k8sbench.model.operators import OPERATORS
from k8sbench.model.run import Location

E = TypeVar("E", bound=BaseException)
ROLE = Path(__file__).parents[3] / "role.yaml"
"""Permissions of k8sbench: a Role, and a ClusterRole for nodes."""
OBSERVER = ROLE.with_name("observer.yaml")
"""Permissions to observe jobs of others."""
CREDENTIALS = "Credentials"
"""ApiFault reason: no credentials; ``__cause__`` is the BenchError."""
CERTIFICATE = "api-not-trusted"
"""ApiFault reason: the server's certificate is not trusted."""
CLIENT_CERTIFICATE = "client-certificate"
"""ApiFault reason: our certificate is unusable or rejected."""
CERTIFICATES = {CERTIFICATE, CLIENT_CERTIFICATE}
"""Reasons that no retry helps against, but other credentials may."""
ABSENT = "Absent"
"""ApiFault reason: no server at the address, or an invalid address."""

NOT_KUBERNETES = "not-kubernetes"
"""ApiFault reason: another server answers, such as a proxy's login page."""


REPAIR = "Repair it (`kubectl config view` shows the same), or name another with --kubeconfig."
SIGN_IN = "Sign in again (`kubectl get pods` asks the same plugin), or correct the user's entry."


class KubeconfigFault(Unreachable):
    """A kubeconfig, or a file that it names, cannot be used."""


class ApiFault(Exception):
    """A request that did not succeed."""

    def __init__(
        self, status: int | None, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; None: no answer (refused, reset, timed out)."""
        self.reason = reason
        """Status.reason (``NotFound``), a reason above, a cause id, or empty."""
        self.message = message
        """Status.message, or the transport's message."""
        self.retry_after = retry_after
        """Seconds after which the server accepts the next attempt (Retry-After)."""

    @property
    def answer(self) -> str:
        """The API server's answer as the beginning of a sentence."""
        if self.status is None:
            return f"The API server does not answer ({self.message})"
        if self.status == 429:
            return "The API server throttles requests (429)"
        return f"The API server answers {self.status} ({self.message.rstrip('.')})"

    @property
    def denied(self) -> bool:
        """True if the user lacks the permission.

        False if a rule forbids this object.
        """
        return self.status == 403 and _RBAC.search(self.message) is not None

    @property
    def passes(self) -> bool:
        """True if the fault may be temporary, so that a retry helps."""
        if self.status is None:
            return self.reason not in CERTIFICATES
        if self.status == 500 and "failed calling webhook" in self.message:
            return False
        return self.status in {408, 429, 500, 502, 503, 504}


class Tolerated:
    """Context that a fault of one of some HTTP statuses ends in silence."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = statuses

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        return isinstance(error, ApiFault) and error.status in self._statuses


def from_status(status: Mapping[str, Any], retry_after: float | None = None) -> ApiFault:
    """Make a fault of a Status object of the API server."""
    code = status.get("code")
    known = code if isinstance(code, int) else None
    message = str(status.get("message") or http.client.responses.get(known or 0, ""))
    return ApiFault(known, str(status.get("reason") or ""), message, retry_after)


_TRANSPORT: tuple[tuple[type[BaseException], str, str], ...] = (
    (ssl.SSLEOFError, "", "it closed the connection during the TLS handshake"),
    (ssl.SSLZeroReturnError, "", "it closed the connection during the TLS handshake"),
    (socket.gaierror, ABSENT, "its name cannot be resolved"),
    (ConnectionRefusedError, ABSENT, "connection refused"),
    (http.client.RemoteDisconnected, "", "it closed the connection without an answer"),
    (http.client.IncompleteRead, "", "it closed the connection before the end of its answer"),
    (http.client.HTTPException, "", "its answer is not HTTP"),
    (urllib3.exceptions.InvalidHeader, "", "its answer is not HTTP"),
    (urllib3.exceptions.DecodeError, "", "its answer cannot be decompressed"),
    (urllib3.exceptions.ProxySchemeUnknown, ABSENT, "this kind of proxy is not supported"),
    # SOCKS takes a package of its own, and version 36 or later of the official client.
    (ImportError, ABSENT, "this kind of proxy is not supported"),
    (urllib3.exceptions.LocationValueError, ABSENT, "its address is not the URL of a server"),
)
"""Error of urllib3, http.client or the socket → reason and message.

The first match counts.
"""


def from_transport(error: BaseException, proxy: str | None = None) -> ApiFault:
    """Convert an error of urllib3 or the socket; ``proxy`` is a URL."""
    chain = _chain(error)
    reason, message = _meaning(chain)
    if proxy is None:
        return ApiFault(None, reason, message)
    # A proxy's URL may hold a password.
    shown = urlsplit(proxy).netloc.rpartition("@")[2] or "of the kubeconfig"
    if refusal := re.search(r"Tunnel connection failed: ([^')]*)", str(error)):
        reason = ""
        message = refusal[1]
    return ApiFault(None, reason, f"{message} (asked through the proxy {shown})")


def _meaning(chain: list[BaseException]) -> tuple[str, str]:
    """Return the reason and message of an error with its causes."""

    def first(kind: type[E]) -> E | None:
        return next((cause for cause in chain if isinstance(cause, kind)), None)

    if (rejected := first(ssl.SSLCertVerificationError)) is not None:
        return CERTIFICATE, f"its certificate: {rejected.verify_message.rstrip('.')}"
    if first(TimeoutError) is not None or "Timeout" in type(chain[0]).__name__:
        return "", "it did not answer in time"
    for kind, reason, message in _TRANSPORT:
        if first(kind) is not None:
            return reason, message
    if (tls := first(ssl.SSLError)) is not None:
        return _tls(tls)
    known = (cause for cause in reversed(chain) if isinstance(cause, OSError) and cause.strerror)
    cause = next(known, OSError(0, "the connection failed"))
    text = f"{cause.strerror}{f' ({cause.filename})' if cause.filename else ''}"
    return "", text[0].lower() + text[1:]


def _tls(error: ssl.SSLError) -> tuple[str, str]:
    """Return reason and message of an OpenSSL error, also of a file."""
    reason = error.reason or ""
    is_mismatch = reason == "KEY_VALUES_MISMATCH"
    if error.library == "X509" and not is_mismatch:
        return CERTIFICATE, "the certificate authority that is given holds no certificate in PEM"
    if is_mismatch or "PEM lib" in str(error):
        return (
            CLIENT_CERTIFICATE,
            "cannot be used: it is no certificate with an unencrypted key in PEM",
        )
    words = reason.replace("_", " ").lower() or "no reason given"
    if "ALERT" in reason and "CERTIFICATE" in reason:
        return CLIENT_CERTIFICATE, f"is rejected ({words})"
    return "", f"TLS cannot be agreed on ({words}); if it does not speak TLS, write http://"


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an error and its causes, also those passed as arguments."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        inner = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        error = error.__cause__ or error.__context__ or inner
    return chain


# -- what the user reads ------------------------------------------------------------------------

_RBAC = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_NAMESPACE = re.compile(r'namespaces "([^"]+)" not found')
_READING = frozenset({"get", "list", "watch"})
_REFUSED = "The API server does not let {doing} in namespace {namespace}: {message}."
_EITHER = " or ".join(operator.name for operator in OPERATORS.values())
_SEE_MANIFEST = "Look at the manifest: `k8sbench render`."
_ERRORS: Mapping[str, tuple[str, str]] = {
    "unauthorized": (
        "The API server {server} does not accept these credentials: expired, or another cluster's.",
        "Sign in again (`kubectl get pods` asks the same), or choose another --context.",
    ),
    "api-not-trusted": (
        "The API server {server}{context} is not trusted; {message}.",
        "Check certificate-authority, server, tls-server-name, the dates and this machine's clock.",
    ),
    "client-certificate": (
        "The API server {server}{context} cannot be queried: our client certificate {message}.",
        "Sign in again or renew it; if this machine's clock is wrong, correct that first.",
    ),
    "not-kubernetes": (
        "What answers at {server}{context} is not a Kubernetes API server: {message}.",
        "Sign in where that leads, or correct the server in the kubeconfig or the proxy variables.",
    ),
    "forbidden-to-all": (
        "The API server {server}{context} does not let {doing}: {message}.",
        f"Have an administrator grant the rules in {ROLE}, or choose another --context.",
    ),
    "api-unreachable": (
        "The API server {server}{context} cannot be reached: {message}.",
        "Check the network, the proxy variables and the kubeconfig, or choose another --context.",
    ),
    "api-busy": (
        "The API server {server} could not serve us ({status}: {message}).",
        "Try again in a minute; nothing that was created before is lost.",
    ),
    "conflict": (
        "The API server does not let {doing}: others change it again and again ({message}).",
        "Try again.",
    ),
    "webhook-down": (
        "One of the cluster's admission webhooks does not answer: {message}.",
        "Have an administrator start it: `k8sbench doctor` checks the operators.",
    ),
    "operator-missing": (
        "The cluster does not know this kind of job: its operator is not installed.",
        f"Have {_EITHER} installed. Where one is, --job-kind auto takes it.",
    ),
}
"""Cause id → error of the cluster or the connection, action: exit code 6."""
_USAGE_ERRORS: Mapping[str, tuple[str, str]] = {
    "namespace-missing": (
        "There is no namespace {namespace} on {server}.",
        "Create it, or name another with -n.",
    ),
    "quota-exceeded": (_REFUSED, "Wait for room, ask for more, or use a smaller case."),
    "pod-security": (_REFUSED, "Use a pool without the opt-ins it names, or -n."),
    "admission-denied": (_REFUSED, "Change what the rule asks for, or ask who set it."),
    "job-denied": (_REFUSED, "Change what the rule asks for, or ask who set it."),
    "namespace-terminating": (_REFUSED, "Name another namespace with -n."),
    "manifest-refused": (_REFUSED, _SEE_MANIFEST),
    "refused": (_REFUSED, _SEE_MANIFEST),
}
"""Cause id → error of the request, action: exit code 2."""
_GROUPS = {
    re.escape(one.group) for operator in OPERATORS.values() for one in (operator, *operator.needs)
}
_MESSAGES = (
    ("failed calling webhook", "webhook-down"),
    ('namespaces "[^"]+" not found', "namespace-missing"),
    ("could not find the requested resource|page not found", "operator-missing"),
    ("exceeded quota", "quota-exceeded"),
    ("violates PodSecurity", "pod-security"),
    # The webhook of the operator of jobs reads the job, those of others hold rules of the place.
    (f'webhook "[^"]*({"|".join(sorted(_GROUPS))})" denied the request', "job-denied"),
    # A webhook's message, and a ValidatingAdmissionPolicy's.
    ("denied (the )?request", "admission-denied"),
    ("being terminated", "namespace-terminating"),
    ("strict decoding error", "manifest-refused"),
)
"""Regular expression of the API server's message → cause id."""


def explained(fault: ApiFault, doing: str, place: Location) -> BenchError:
    """Return the user's error for a fault, with its ``cause_id``.

    ``doing`` completes "... does not let ...", such as ``job x be created``.
    """
    error = fault.__cause__
    if fault.reason != CREDENTIALS or not isinstance(error, BenchError):
        error = _explained(fault, doing, place)
    error.__cause__ = fault
    return error


def _explained(fault: ApiFault, doing: str, place: Location) -> BenchError:
    denied = _RBAC.search(fault.message)
    if denied is not None and fault.status != 401:
        return _forbidden(denied)
    cause_id = _cause_id(fault)
    is_usage = cause_id in _USAGE_ERRORS
    message, action = _USAGE_ERRORS[cause_id] if is_usage else _ERRORS[cause_id]
    named = _NAMESPACE.search(fault.message)  # it may be another than that of the connection
    names = {
        "server": place.server,
        "context": f" of context {place.context}" if place.context else "",
        "namespace": named[1] if named else place.namespace,
        "message": fault.message.rstrip("."),
        "status": fault.status,
        "doing": doing,
    }
    text = message.format_map(names)
    action = action.format_map(names)
    error = UsageError(text, action) if is_usage else Unreachable(text, action)
    error.cause_id = cause_id
    return error


def _cause_id(fault: ApiFault) -> str:
    if fault.reason in _ERRORS:
        return fault.reason
    if fault.status is None:
        return "api-unreachable"
    if fault.status == 401:
        return "unauthorized"
    if fault.passes:
        return "api-busy"
    if fault.status == 409 and fault.reason != "AlreadyExists":
        return "conflict"
    causes = (cause_id for pattern, cause_id in _MESSAGES if re.search(pattern, fault.message))
    if fault.status != 403:
        return next(causes, "refused")
    # Admission names the forbidden object; otherwise the user or a proxy is refused.
    is_of_object = '" is forbidden: ' in fault.message
    return next(causes, "admission-denied" if is_of_object else "forbidden-to-all")


def _forbidden(denied: re.Match[str]) -> BenchError:
    group = f".{denied['group']}" if denied["group"] else ""
    namespace = denied["namespace"]
    where = f"in namespace {namespace}" if namespace else "in the whole cluster"
    verb = denied["verb"]
    role = f"bind you to the {'Role' if namespace else 'ClusterRole'} in {ROLE}"
    # The Role also lets users create jobs, which the operator does for its users.
    if namespace and (verb in _READING or denied["group"] == benchmark_object.GROUP):
        role = (
            f"list you in users.subjects of the operator's chart, or, without an operator, {role}"
        )
    error = Unreachable(
        f"User {denied['user']} may not {verb} {denied['resource']}{group} {where}.",
        f"Have an administrator {role}" + (f" in namespace {namespace}." if namespace else "."),
    )
    error.cause_id = "forbidden"
    return error

"""What the API server, or the way to it, refuses; and what that means to the user.

:class:`ApiFault` is for the adapter, which asks whether trying again helps. :func:`explained`
turns one into the error that the user reads: one sentence on what is wrong, one on what to do.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from k8sbench.model.errors import BenchError, Unreachable, UsageError
from k8sbench.model.kinds import KINDS
from k8sbench.model.run import Location

ROLE = Path(__file__).parents[3] / "role.yaml"
"""The rules that k8sbench needs, as a Role and, for nodes, a ClusterRole."""
CREDENTIALS = "Credentials"
"""Reason of an ApiFault: there is nothing to sign in with. ``__cause__`` is the BenchError."""
CERTIFICATE = "Certificate"
"""Reason of an ApiFault: the server's certificate is not trusted."""


class ApiFault(Exception):
    """A request that did not succeed."""

    def __init__(
        self, status: int | None, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; None: no answer (refused, reset, timed out)."""
        self.reason = reason
        """Kubernetes' Status.reason (``NotFound``, ``Expired``), a reason of ours, or nothing."""
        self.message = message
        """Status.message, or the transport's words."""
        self.retry_after = retry_after
        """Seconds after which the server wants to be asked again."""

    @property
    def answered(self) -> bool:
        """Whether it was the API server that refused, rather than the way to it."""
        return self.status is not None

    @property
    def denied(self) -> bool:
        """Whether the user lacks the permission, rather than that a rule forbids this object."""
        return self.status == 403 and _RBAC.search(self.message) is not None

    @property
    def passes(self) -> bool:
        """Whether it may pass by itself, so that trying again helps."""
        if self.status is None:
            return self.reason != CERTIFICATE
        if self.status == 500 and "failed calling webhook" in self.message:
            return False
        return self.status in {408, 429, 500, 502, 503, 504}


def from_status(status: Mapping[str, Any], retry_after: float | None = None) -> ApiFault:
    """Make a fault of a Status object of the API server."""
    return ApiFault(
        status.get("code"), status.get("reason") or "", status.get("message") or "", retry_after
    )


def from_transport(wrong: BaseException) -> ApiFault:
    """Make a fault of an error of urllib3 or of the socket."""
    chain = list(_chain(wrong))
    for one in chain:
        if isinstance(one, ssl.SSLCertVerificationError):
            return ApiFault(None, CERTIFICATE, f"its certificate: {one.verify_message}")
    if any(isinstance(one, TimeoutError) for one in chain) or "Timeout" in type(wrong).__name__:
        return ApiFault(None, "", "it did not answer in time")
    for one in reversed(chain):
        if isinstance(one, OSError) and one.strerror:
            return ApiFault(None, "", one.strerror[0].lower() + one.strerror[1:])
    words = str(wrong).strip().splitlines()
    return ApiFault(None, "", words[0] if words else type(wrong).__name__)


def _chain(wrong: BaseException | None) -> Any:
    seen: list[BaseException] = []
    while wrong is not None and wrong not in seen:
        seen.append(wrong)
        inner = next((one for one in wrong.args if isinstance(one, BaseException)), None)
        wrong = wrong.__cause__ or wrong.__context__ or inner
    return seen


# -- what the user reads ------------------------------------------------------------------------

_RBAC = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_WEBHOOK_DOWN = re.compile(r'failed calling webhook "(?P<name>[^"]+)"')
_OPERATOR = "training-operator"


def explained(
    fault: ApiFault, doing: str, place: Location, *, trainer_v2: bool = False
) -> BenchError:
    """Say what a fault means to the user; ``doing`` completes "... could not be ...".

    ``doing`` is such as ``job x be created``; ``trainer_v2`` says whether Kubeflow Trainer v2
    answers. The error's ``cause_id`` is set where the fault has one.
    """
    error = _explained(fault, doing, place, trainer_v2)
    error.__cause__ = fault
    return error


def _explained(fault: ApiFault, doing: str, place: Location, trainer_v2: bool) -> BenchError:
    if fault.status is None:
        return _no_answer(fault, place)
    if fault.status == 401:
        return _error(
            Unreachable,
            "unauthorized",
            f"The API server {place.server} does not accept these credentials: they are expired,"
            " or of another cluster.",
            "Sign in again (`kubectl get pods` asks the same), or choose another --context.",
        )
    if (denied := _RBAC.search(fault.message)) is not None:
        return _denied(denied)
    if (hook := _WEBHOOK_DOWN.search(fault.message)) is not None:
        return _webhook_down(hook["name"], fault.message)
    if fault.status == 404:
        return _not_found(fault, doing, place, trainer_v2)
    if fault.passes:
        return _error(
            Unreachable,
            "api-busy",
            f"The API server {place.server} could not serve us ({fault.status}: {fault.message}).",
            "Try again in a minute; nothing that was created before is lost.",
        )
    return _refused(fault, doing, place)


def _error(
    kind: type[Unreachable] | type[UsageError], cause_id: str, message: str, action: str
) -> BenchError:
    error = kind(message, action)
    error.cause_id = cause_id
    return error


def _no_answer(fault: ApiFault, place: Location) -> BenchError:
    if fault.reason == CREDENTIALS and isinstance(fault.__cause__, BenchError):
        fault.__cause__.cause_id = "unauthorized"
        return fault.__cause__
    where = f" of context {place.context}" if place.context else ""
    if fault.reason == CERTIFICATE:
        return _error(
            Unreachable,
            "api-not-trusted",
            f"The API server {place.server}{where} is not trusted; {fault.message}.",
            "Check certificate-authority in the kubeconfig: the cluster may have been made anew.",
        )
    return _error(
        Unreachable,
        "api-unreachable",
        f"The API server {place.server}{where} cannot be reached: {fault.message}.",
        "Check the network, the proxy variables and the kubeconfig, or choose another --context.",
    )


def _denied(denied: re.Match[str]) -> BenchError:
    group = f".{denied['group']}" if denied["group"] else ""
    namespaced = denied["namespace"] is not None
    where = f"in namespace {denied['namespace']}" if namespaced else "in the whole cluster"
    return _error(
        Unreachable,
        "forbidden",
        f"User {denied['user']} may not {denied['verb']} {denied['resource']}{group} {where}.",
        f"Have an administrator bind you to the Role in {ROLE}"
        + (f" in namespace {denied['namespace']}." if namespaced else "."),
    )


def _webhook_down(name: str, message: str) -> BenchError:
    if _OPERATOR in name:
        return _error(
            Unreachable,
            "operator-down",
            "The training operator does not run: its webhook, which checks every job, does not"
            " answer.",
            "Have it started (Deployment training-operator, by default in namespace kubeflow).",
        )
    return _error(
        Unreachable,
        "webhook-down",
        f"The cluster's admission webhook {name} does not answer: {message}.",
        "Have an administrator start it, or remove its configuration.",
    )


def _not_found(fault: ApiFault, doing: str, place: Location, trainer_v2: bool) -> BenchError:
    if f'namespaces "{place.namespace}" not found' in fault.message:
        return _error(
            UsageError,
            "namespace-missing",
            f"There is no namespace {place.namespace} on {place.server}.",
            "Create it, or name another with -n.",
        )
    if "could not find the requested resource" not in fault.message and "page not found" not in (
        fault.message
    ):
        return _refused(fault, doing, place)
    if trainer_v2:
        return _error(
            Unreachable,
            "trainer-v2-only",
            f"The cluster has Kubeflow Trainer v2, which knows no {' and no '.join(KINDS)}.",
            "Have the training operator v1 (1.9) installed beside it; the two get along.",
        )
    return _error(
        Unreachable,
        "operator-missing",
        f"The cluster knows no {' and no '.join(KINDS)}: the training operator is not installed.",
        "Have the training operator v1 (1.9) installed.",
    )


_REFUSALS: tuple[tuple[str, str, str], ...] = (
    # Regular expression of the message, cause id, what to do.
    ("exceeded quota", "quota-exceeded", "Wait for room, ask for more, or use a smaller case."),
    ("violates PodSecurity", "pod-security", "Use a pool without the opt-ins it names, or -n."),
    # A webhook's words, and a ValidatingAdmissionPolicy's.
    (
        "denied (the )?request",
        "admission-denied",
        "Change what the rule asks for, or ask who set it.",
    ),
    ("being terminated", "namespace-terminating", "Name another namespace with -n."),
    ("strict decoding error", "manifest-refused", "Look at the manifest: `k8sbench render`."),
)


def _refused(fault: ApiFault, doing: str, place: Location) -> BenchError:
    cause_id, action = next(
        (told for part, *told in _REFUSALS if re.search(part, fault.message)),
        ("refused", "Look at the manifest: `k8sbench render`."),
    )
    message = f"The API server does not let {doing} in namespace {place.namespace}"
    return _error(UsageError, cause_id, f"{message}: {fault.message.rstrip('.')}.", action)

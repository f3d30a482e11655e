"""Why the operator cannot create pods: the API server's refusals, as its events quote them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from k8sbench.diagnose.job.causes import Diagnosis, found
from k8sbench.diagnose.job.facts import Facts, Replica, words
from k8sbench.diagnose.job.reasons import Event
from k8sbench.diagnose.job.words import names, quoted
from k8sbench.model.pool import amount

_EVENT = re.compile(r"^Error creating: ", re.IGNORECASE)
_POD = re.compile(r'[Pp]ods? "(?P<pod>[^"]+)" (?:is (?:forbidden|invalid)|already exists)')
_QUOTA = re.compile(
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>.+), used: (?P<used>.+), "
    r"limited: (?P<limited>.+)$"
)
_POD_SECURITY = re.compile(r'violates PodSecurity "(?P<level>[^"]+)": (?P<rules>.*)$', re.DOTALL)
_GUILTY = re.compile(r'containers? ((?:"[^"]+"(?:, )?)+)')
_QUOTA_WANTS = re.compile(r"failed quota: (?P<quota>[^:]+): must specify (?P<what>.*)$")
_WEBHOOK = re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request: (?P<why>.*)$')
_WEBHOOK_DOWN = re.compile(r'failed calling webhook "(?P<name>[^"]+)"')
_FORBIDDEN = re.compile(r"^pods? \S+ is forbidden: ")
_EXISTS = re.compile(r"object is being deleted|already exists")
INIT = "init-pytorch"


def causes(facts: Facts) -> Iterator[Diagnosis]:
    """Yield why pods of the job are not created, each refusal once."""
    missing = [one for one in facts.replicas if one.pod is None or one.gone]
    refusals: dict[str, list[Replica]] = {}
    for one in missing:
        message = _refusal(facts, one)
        if message is not None:
            refusals.setdefault(message.replace(f'"{one.pod_name}"', '"POD"'), []).append(one)
    for message, some in refusals.items():
        head = f"The pods of {names(some)} are not created"
        if len(some) == 1:
            head = f"The pod of {some[0].name} is not created"
        yield cause(message, head, facts.names(), replicas=len(facts.replicas))


def _refusal(facts: Facts, one: Replica) -> str | None:
    """The newest refusal of a pod; of one that was created since, none."""
    for event in facts.events_of(Event.POD_REFUSED):
        message = _EVENT.sub("", words(event))
        about = _POD.search(message)
        if about is None or about["pod"] == one.pod_name:
            return message
    return None


def cause(message: str, head: str, where: Mapping[str, str], *, replicas: int = 1) -> Diagnosis:
    """Read a refusal of pods.

    ``head`` begins the sentence: whose pods are not created. ``where`` names the namespace, as
    :meth:`.Facts.names` does. Of a job ``replicas`` ask for the same, and need it at once.
    """
    if quota := _QUOTA.search(message):
        return _quota(quota, head, where, replicas)
    if secured := _POD_SECURITY.search(message):
        return _pod_security(secured, head, where["namespace"])
    if quota := _QUOTA_WANTS.search(message):
        text = f"{head}: quota {quota['quota']} wants {quota['what']} to be set."
        return found("quota-exceeded", text, where, unrecoverable=True)
    if webhook := _WEBHOOK.search(message):
        text = f"{head}: the webhook {webhook['name']} refuses: {quoted(webhook['why'])}."
        return found("admission-denied", text)
    if webhook := _WEBHOOK_DOWN.search(message):
        text = f"{head}: the webhook {webhook['name']} does not answer: {quoted(message)}."
        return found("admission-denied", text)
    if _EXISTS.search(message):
        return found("name-in-use", f"{head}: pods of an earlier job of this name still end.")
    if " is invalid: " in message:
        return found("pod-invalid", f"{head}: {quoted(message.partition(' is invalid: ')[2])}.")
    return found("admission-denied", f"{head}: {quoted(_FORBIDDEN.sub('', message))}.")


def _quota(quota: re.Match[str], head: str, where: Mapping[str, str], replicas: int) -> Diagnosis:
    requested, used, limited = (_amounts(quota[part]) for part in ("requested", "used", "limited"))
    known = {name: asked for name, asked in requested.items() if name in limited}
    parts = [
        f"{name} {limited[name]}, of which {used.get(name, '0')} used, and {asked} more asked for"
        for name, asked in known.items()
    ]
    never = [
        name for name, asked in known.items() if replicas * _number(asked) > _number(limited[name])
    ]
    text = f"{head}: quota {quota['quota']} allows {'; '.join(parts) or quoted(quota[0])}"
    if never and replicas > 1:
        each = " and ".join(f"{known[name]} of {name}" for name in never)
        text += f"; the job needs {replicas} times {each}"
    return found("quota-exceeded", f"{text}.", where, unrecoverable=bool(never))


def _pod_security(secured: re.Match[str], head: str, namespace: str) -> Diagnosis:
    guilty = {
        name
        for listed in _GUILTY.findall(secured["rules"])
        for name in re.findall('"(.+?)"', listed)
    }
    # "check (details), check (details)": the details name the same containers again and again.
    checks = ", ".join(part.partition(" (")[0] for part in secured["rules"].split("), "))
    rules = f"'{checks}' ({', '.join(sorted(guilty))})" if guilty else quoted(secured["rules"])
    if guilty == {INIT}:
        text = (
            f"{head}: the namespace {namespace} enforces Pod Security {secured['level']}, and the"
            f" operator's init container has no security context: {rules}."
        )
        return found("operator-init-not-restricted", text)
    text = f"{head}: the namespace {namespace} enforces Pod Security {secured['level']}: {rules}."
    return found("pod-security", text)


def _amounts(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _number(text: str) -> Decimal:
    try:
        return amount(text)
    except ValueError:
        return Decimal(0)

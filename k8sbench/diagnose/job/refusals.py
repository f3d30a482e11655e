"""Reason why pods are not created: the API server refuses them.

Its sentence stands in the operator's events, and in the answer to a job that is refused itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from k8sbench.diagnose.job.causes import Event, finding_of
from k8sbench.diagnose.job.facts import Facts, Replica, message_of, names, quoted
from k8sbench.model.errors import Finding
from k8sbench.model.kinds import kind_of
from k8sbench.model.operators import OPERATORS
from k8sbench.model.pool import parse_quantity

_EVENT = re.compile(r"^Error creating: ", re.IGNORECASE)
_POD = re.compile(r'[Pp]ods? "(?P<pod>[^"]+)" (?:is (?:forbidden|invalid)|already exists)')
_OTHER = re.compile(r'.*?(?<![\w.])(?!pods?\b)[\w.]+ "[^"]+" is forbidden')
_QUOTA = re.compile(
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>.+), used: (?P<used>.+), "
    r"limited: (?P<limited>.+)$"
)
_POD_SECURITY = re.compile(r'violates PodSecurity "(?P<level>[^"]+)": (?P<rules>.*)$', re.DOTALL)
_CONTAINERS = re.compile(r'containers? ((?:"[^"]+"(?:, )?)+)')
_QUOTA_WANTS = re.compile(r"failed quota: (?P<quota>[^:]+): must specify (?P<what>.*)$")
_FORBIDDEN = re.compile(r"^pods? \S+ is forbidden: ")
_EXISTS = re.compile(r"object is being deleted|already exists")
_INVALID = " is invalid: "
_WEBHOOK_DOWN = re.compile(r'failed calling webhook "(?P<name>[^"]+)": (?P<why>.*)$', re.DOTALL)
INIT = "init-pytorch"


def find_refusals(facts: Facts) -> Iterator[Finding]:
    """Yield the refusals of the job's pods, each once."""
    refused_by: dict[str, list[Replica]] = {}
    for replica in facts.replicas:
        if replica.pod is None or replica.gone:
            message = _newest_refusal(facts, replica)
            if message is not None:
                text = _POD.sub(lambda found: found[0].replace(found["pod"], "POD"), message)
                refused_by.setdefault(text, []).append(replica)
    for message, refused in refused_by.items():
        head = f"The pods of {names(refused)} are not created"
        if len(refused) == 1:
            head = f"The pod of {refused[0].name} is not created"
        # What makes the pods is one object, and may be refused as they may.
        is_of_pods = _OTHER.match(message) is None
        count = len(facts.replicas) if is_of_pods else 1
        yield refusal(message, head, facts.names(), replicas=count)


def _newest_refusal(facts: Facts, replica: Replica) -> str | None:
    """Return the newest refusal of a pod; None if it was created since."""
    for event in facts.events_of(Event.POD_REFUSED):
        message = _EVENT.sub("", message_of(event))
        about = _POD.search(message)
        kind = kind_of(facts.plan)
        job = facts.plan.job_name
        if about is None or kind.replica_of(about["pod"], job) == replica.name:
            return message
    return None


def refusal(message: str, head: str, where: Mapping[str, str], *, replicas: int = 1) -> Finding:
    """Read a refusal of pods.

    ``head`` begins the sentence: whose pods are not created. ``where`` names the namespace, as
    :meth:`.Facts.names` does. Of a job ``replicas`` ask for the same, and need it at once.
    """
    if quota := _QUOTA.search(message):
        return _quota(quota, head, where, replicas)
    if violation := _POD_SECURITY.search(message):
        return _pod_security(violation, head, where)
    if quota := _QUOTA_WANTS.search(message):
        words = {"quota": quota["quota"], "why": f"wants {quota['what']} to be set"}
        return finding_of("quota-exceeded", where, unrecoverable=True, head=head, **words)
    if down := _WEBHOOK_DOWN.search(message):
        programs = (one for each in OPERATORS.values() for one in (*each.needs, each))
        known = (one.name for one in programs if one.webhook in message)
        why = quoted(down["why"].rpartition('": ')[2])  # after the URL
        return finding_of(
            "webhook-down", where, head=head, server=next(known, down["name"]), why=why
        )
    if _EXISTS.search(message):
        return finding_of("name-in-use", where, head=head)
    _, invalid, why = message.partition(_INVALID)
    why = quoted(why if invalid else _FORBIDDEN.sub("", message))
    return finding_of("admission-denied", where, unrecoverable=bool(invalid), head=head, why=why)


def _quota(quota: re.Match[str], head: str, where: Mapping[str, str], replicas: int) -> Finding:
    requested, used, limited = (_amounts(quota[part]) for part in ("requested", "used", "limited"))
    known = {name: asked for name, asked in requested.items() if name in limited}
    parts = [
        f"{name} {limited[name]}, of which {used.get(name, '0')} used, and {asked} more asked for"
        for name, asked in known.items()
    ]
    never = [
        name for name, asked in known.items() if replicas * _number(asked) > _number(limited[name])
    ]
    why = f"allows {'; '.join(parts) or quoted(quota[0])}"
    if never:
        amounts = " and ".join(f"{known[name]} of {name}" for name in never)
        why += f"; the job needs {f'{replicas} times ' if replicas > 1 else ''}{amounts}"
    words = {"head": head, "quota": quota["quota"], "why": why}
    return finding_of("quota-exceeded", where, unrecoverable=bool(never), **words)


def _pod_security(violation: re.Match[str], head: str, where: Mapping[str, str]) -> Finding:
    containers = {
        name
        for listed in _CONTAINERS.findall(violation["rules"])
        for name in re.findall('"(.+?)"', listed)
    }
    rules = quoted(violation["rules"])
    cause_id = "operator-init-not-restricted" if containers == {INIT} else "pod-security"
    return finding_of(cause_id, where, head=head, level=violation["level"], why=rules)


def _amounts(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _number(text: str) -> Decimal:
    try:
        return parse_quantity(text)
    except ValueError:
        return Decimal(0)

"""The API server's audit log of all requests except those of components."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

READS = {"get", "list", "watch"}
"""Verbs that write nothing."""
OF_AN_OPERATOR = {"leases", "selfsubjectaccessreviews"}
"""Resources that an operator writes while it observes: nothing of a job's."""


class Asked(NamedTuple):
    """The kind of a request."""

    verb: str
    resource: str
    """With a subresource: ``pods/log``."""


def requests(log: Path) -> list[dict[str, Any]]:
    """Return logged requests in order of their answers, without an unfinished line.

    A line is written after the answer, so the newest may be missing.
    """
    *whole, _ = log.read_bytes().split(b"\n")
    return [json.loads(line) for line in whole]


def asked(log: Path, user: str) -> Counter[Asked]:
    """Count a user's requests by kind, refused ones too; one that has two lines counts once."""
    found = {
        entry["auditID"]: _kind(entry)
        for entry in requests(log)
        if entry["user"].get("username") == user
    }
    return Counter(found.values())


def _kind(entry: dict[str, Any]) -> Asked:
    about = entry.get("objectRef") or {}
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return Asked(entry["verb"], resource or entry["requestURI"])


def writes(kinds: Iterable[Asked], but: Iterable[str] = ()) -> set[Asked]:
    """Return the kinds of requests that write, except to the resources ``but``."""
    return {one for one in kinds if one.verb not in READS and one.resource not in but}

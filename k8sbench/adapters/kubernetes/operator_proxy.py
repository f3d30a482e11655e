"""The operator of a namespace: found by its Lease, read with its token.

The Lease alone says whether an operator serves a namespace. Annotations hold the operator's place
and version. The Lease has no ownerReference: after the operator's end it shows the last renewal.
Requests go through the API server's service proxy.
"""

from __future__ import annotations

import base64
import re
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

import msgspec

from k8sbench import __version__, limits
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault, Tolerated
from k8sbench.adapters.kubernetes.client.transport import ApiRequest, read
from k8sbench.json_decoders import decoder
from k8sbench.model import times
from k8sbench.model.errors import QueryRefused, Unreachable
from k8sbench.model.group import Group, GroupList, GroupRow
from k8sbench.model.kube import (
    MOST_GROUPS,
    MOST_RUNS,
    OPERATOR,
    TOKEN_HEADER,
    ServingOperator,
    annotations_of,
    parse_time,
)
from k8sbench.model.names import LABEL_DOMAIN
from k8sbench.model.run import Baseline, Run
from k8sbench.store import disk

T = TypeVar("T")
PORT = "http"
TOKEN_KEY = "token"
LEASE = "k8sbench-operator"
"""Name of the Lease, one in each served namespace."""
PLACE_ANNOTATION = f"{LABEL_DOMAIN}/operator"
"""Namespace and name of the operator's Service, ``NAMESPACE/NAME``."""
VERSION_ANNOTATION = f"{LABEL_DOMAIN}/operator-version"


def find_operator(api: Api) -> ServingOperator | None:
    """Return the operator that serves the namespace; None without one.

    Retries for a few seconds, then raises :class:`BenchError`. A Lease without a place belongs to
    no operator.
    """
    here = api.place.namespace
    with api.explaining(f"Lease {LEASE} be read"):
        found = api.find(kinds.path("Lease", here, LEASE), retry_s=limits.now.request_short)
    annotations = {} if found is None else annotations_of(found)
    namespace, _, name = annotations.get(PLACE_ANNOTATION, "").partition("/")
    if found is None or not name:
        return None
    renewed_at = parse_time((found.get("spec") or {}).get("renewTime"))
    age_s = max(0.0, api.time() - (renewed_at or 0.0))
    return ServingOperator(
        namespace=namespace,
        name=name,
        version=annotations.get(VERSION_ANNOTATION, ""),
        age_s=age_s,
        is_alive=age_s <= limits.now.lease_alive,
    )


# -- its token -------------------------------------------------------------------------------------


def token(api: Api, name: str) -> str:
    """Return the token that the operator's readers send; creates a missing one.

    ``name`` is the operator's. Raises :class:`BenchError`.
    """
    path = kinds.path("Secret", api.place.namespace)
    drawn = secrets.token_urlsafe(32)
    with api.explaining(f"Secret {_secret(name)} be read or created"):
        if (found := _read_token(api, api.place.namespace, name)) is not None:
            return found
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _secret(name)},
            "stringData": {TOKEN_KEY: drawn},
        }
        with Tolerated(409):
            api.create(path, body, retry_s=0.0)
            return drawn
        return _read_token(api, api.place.namespace, name) or ""


def _secret(name: str) -> str:
    return f"{name}-token"


def _read_token(api: Api, namespace: str, name: str) -> str | None:
    path = kinds.path("Secret", namespace, _secret(name))
    found = api.find(path, retry_s=limits.now.request_short)
    if found is None:
        return None
    kept = (found.get("data") or {}).get(TOKEN_KEY, "")
    text = base64.b64decode(kept).strip().decode(errors="replace")
    if text and text.isascii() and text.isprintable():
        return text
    raise Unreachable(
        f"The Secret {_secret(name)} of namespace {namespace} holds no token that can be sent.",
        f"Put printable ASCII under its key {TOKEN_KEY!r}, such as: openssl rand -hex 32",
    )


# -- its documents ---------------------------------------------------------------------------------


class _File(msgspec.Struct):
    """Fields read from an entry of ``/artifacts``."""

    name: str


_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def connect_operator(api: Api) -> OperatorProxy | None:
    """Return the operator that serves the namespace; None without one.

    Raises :class:`BenchError` if that cannot be known.
    """
    operator = find_operator(api)
    if operator is None:
        return None
    with api.explaining("the operator's token be read"):
        # Names become parts of paths. It makes its token when it first starts.
        kept = _read_token(api, quote(operator.namespace, ""), quote(operator.name, ""))
    return OperatorProxy(api, operator, kept)


class OperatorProxy:
    """The operator of one namespace."""

    def __init__(self, api: Api, operator: ServingOperator, token: str | None) -> None:
        self._api, self._operator = api, operator
        self._until = time.monotonic() + limits.now.operator_answers
        place = quote(operator.namespace, "")
        service = f"{quote(operator.name, '')}:{PORT}"
        self._base = kinds.path("Service", place, service, "proxy")
        self._headers = {} if token is None else {TOKEN_HEADER: token}

    def runs(self, query: Mapping[str, str], limit: int | None = None) -> Iterator[Run]:
        """Yield the runs that match, page by page, the newest page first.

        A run may come again. With a ``limit`` there is one page of the newest ones.
        """
        most = MOST_RUNS if limit is None else limit
        given = {**query, "detail": "status", "limit": f"{most}"}
        while True:
            page = _understood(list[Run], self._within_time("runs", given) or b"[]")
            yield from map(_theirs, page)
            # The oldest one comes again: another may have been created at the same time.
            before = repr(min((run.created_at for run in page), default=0.0))
            if limit is not None or len(page) < most or given.get("until") == before:
                return
            given = {**given, "until": before}

    @property
    def namespace(self) -> str:
        """The namespace that it serves."""
        return self._api.place.namespace

    def group_list(self, accept: Collection[str] = ()) -> GroupList:
        """Return the rows of its groups, and the names of its runs.

        ``accept`` are the ids of overruled reasons. Raises :class:`Unreachable` for an operator of
        another version, which has none.
        """
        answer = self.read("rows", _accepting(accept))
        if answer is None:
            version = self._operator.version or "unknown"
            raise Unreachable(
                f"It is of version {version}, which k8sbench {__version__} cannot read.",
                "Use the version of k8sbench that the operator has, or upgrade the operator.",
            )
        found = _understood(GroupList, answer)
        if found.columns != GroupRow._fields:
            raise _other_version(f"its rows have the columns {', '.join(found.columns)}")
        return found

    def groups(self, ids: Collection[str], accept: Collection[str] = ()) -> Iterator[Group]:
        """Yield groups by id, less those that are gone; ``accept`` as of :meth:`group_list`."""
        left = sorted(ids)
        while left:
            some = ",".join(left[:MOST_GROUPS])
            left = left[MOST_GROUPS:]
            answer = self._within_time(f"groups/{some}", _accepting(accept)) or b"[]"
            yield from map(_their_group, _understood(list[Group], answer))

    def run(self, text: str) -> Run | None:
        """Return the run with this id or unique id prefix, if there is one."""
        answer = self.read(f"runs/{text}", {})
        return None if answer is None else _theirs(_understood(Run, answer))

    def baselines(self) -> list[Baseline]:
        """Return its baselines; none of an operator that knows no such."""
        return _understood(list[Baseline], self.read("baselines", {}) or b"[]")

    def copy(
        self, run_id: str, folder: Path, kinds: Sequence[Literal["logs", "gpu", ""]]
    ) -> list[Path]:
        """Copy a run's logs, GPU series or other files (``""``) into a folder.

        Returns the copies; raises :class:`BenchError`.
        """
        copies = []
        files = self.read(f"runs/{run_id}/artifacts", {}) or b"[]"
        for entry in _understood(list[_File], files):
            kind, _, name = entry.name.rpartition("/")
            if kind not in kinds or _FILE_NAME.fullmatch(name) is None:
                continue
            path = folder / kind / name
            disk.make_folder(path.parent)
            copies.append(path)
            try:
                with disk.create(path, "wb") as out:
                    out.writelines(self.pieces(f"runs/{run_id}/artifacts/{entry.name}"))
            except ApiFault as fault:
                raise Unreachable(
                    f"The operator's file {entry.name} of run {run_id} cannot be read:"
                    f" {fault.message.rstrip('.')}.",
                    "Try again.",
                ) from fault
        return copies

    def _within_time(self, path: str, query: Mapping[str, str]) -> bytes | None:
        """Read one of many documents; raises :class:`Unreachable` if all take too long."""
        if time.monotonic() > self._until:
            seconds = limits.now.operator_answers
            raise Unreachable(f"It has not sent everything in {seconds:g} s.", "Ask for less.")
        return self.read(path, query)

    def read(self, path: str, query: Mapping[str, str]) -> bytes | None:
        """Return a document; None if the operator does not have it."""
        try:
            sender, seconds = self._api.sender, self._api.retry_s
            request = ApiRequest("get", self._at(path), query, headers=self._headers)
            return read(sender.send(request, read_s=seconds), seconds)
        except ApiFault as fault:
            # The API server's own 404: the operator's Service is gone.
            if fault.status == 404 and fault.reason != "NotFound":
                return None
            if fault.status in {401, 403}:
                raise self._api.explained(fault, "the operator be read") from fault
            if fault.status == 400:
                raise QueryRefused(*_said(fault.message)) from fault
            last = f"last seen {times.duration(self._operator.age_s)} ago"
            raise Unreachable(
                f"The operator does not answer ({fault.message.rstrip('.')}; {last}).",
                f"See: kubectl get pods -n {self._operator.namespace}"
                " -l app.kubernetes.io/component=operator",
            ) from fault

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield a document as it arrives; raises :class:`ApiFault`."""
        seconds, headers = self._api.retry_s, self._headers
        at = self._at(path)
        yield from self._api.stream(at, {}, silence_s=seconds, headers=headers).chunks()

    def _at(self, path: str) -> str:
        return f"{self._base}/api/v1/{quote(path)}"


def _accepting(accept: Collection[str]) -> Mapping[str, str]:
    return {"accept": ",".join(accept)} if accept else {}


def _understood(kind: type[T], answer: bytes) -> T:
    """Decode an answer; :class:`Unreachable` if this version cannot read it."""
    try:
        return decoder(kind).decode(answer)
    except msgspec.MsgspecError as error:
        raise _other_version(str(error)) from error


def _other_version(why: str) -> Unreachable:
    return Unreachable(
        f"Its answer is not one that this version of k8sbench reads ({why}).",
        "Use the version of k8sbench that the operator has.",
    )


def _said(answer: str) -> tuple[str, str]:
    """Return the error and its action in an answer of the operator, as far as it came."""
    found = re.match(r'\{"error":"((?:[^"\\]|\\.)*)(?:","action":"((?:[^"\\]|\\.)*))?', answer)
    if found is None:
        return answer, ""
    message, action = (re.sub(r"\\(.)", r"\1", part) for part in found.groups(""))
    return message, action


def _theirs(answer: Run) -> Run:
    """Make of its answer the run that it has."""
    return msgspec.structs.replace(
        answer,
        process=None,
        artifacts=None,
        artifacts_missing=f"The operator has its files: k8sbench logs {answer.run_id}",
        source=OPERATOR,
    )


def _their_group(answer: Group) -> Group:
    """Make of its answer the group that it has."""
    members = (msgspec.structs.replace(member, source=OPERATOR) for member in answer.members)
    return msgspec.structs.replace(answer, members=tuple(members))

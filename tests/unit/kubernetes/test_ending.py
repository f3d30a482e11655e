"""Deleting a job that was followed: by one request, unless others may need it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from k8sbench.adapters.kubernetes import ending, sharing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ending import LastSeen
from k8sbench.adapters.kubernetes.sharing import User
from k8sbench.model.kube import RUN_LABEL
from k8sbench.model.run import Location

ANN = User(store="0123456789", host="lab-7")
BEN = User(store="abcdef0123", host="ci-2", keep=True)
KIND = "PyTorchJob"


class Server:
    """An API server with one job of the run ``mine``."""

    place = Location(server="https://cluster.example:6443", namespace="bench")

    def __init__(self, *users: User, **metadata: Any) -> None:
        own = {"name": "mine", "uid": "1", "resourceVersion": "10", "labels": {RUN_LABEL: "mine"}}
        found: Any = {"kind": KIND, "metadata": own | metadata}
        for user in users:
            (found,) = sharing.marked([found], user)
        self.job: dict[str, Any] | None = found
        self.sent: list[str] = []

    def time(self) -> float:
        return 0.0

    def find(self, path: str) -> dict[str, Any] | None:
        self.sent.append("get")
        return self.job if path.endswith("pytorchjobs/mine") else None

    def patch(self, path: str, body: dict[str, Any], *, retry_s: float) -> dict[str, Any]:
        self.sent.append("patch")
        assert self.job is not None
        return self.job

    def delete(self, path: str, *, uid: str, version: str | None = None) -> dict[str, Any] | None:
        self.sent.append("delete")
        if self.job is None:
            return None
        metadata = self.job["metadata"]
        if (uid, version or metadata["resourceVersion"]) != (
            metadata["uid"],
            metadata["resourceVersion"],
        ):
            raise ApiFault(409, "Conflict", "the object has been modified")
        if metadata.get("finalizers"):
            metadata["deletionTimestamp"] = "2026-11-20T08:15:00Z"
            return self.job
        self.job = None
        return {"kind": "Status"}


def last(server: Server) -> LastSeen:
    assert server.job is not None
    return LastSeen.of(KIND, server.job)


def remove(server: Server, seen: LastSeen, **more: Any) -> str | None:
    given: Any = {"user": ANN, "owns_config_map": True} | more
    return ending.remove(cast("Api", server), "mine", last=seen, **given)


def test_a_job_that_nobody_has_changed_is_deleted_by_one_request() -> None:
    server = Server(ANN)
    assert remove(server, last(server)) is None
    assert (server.job, server.sent) == (None, ["delete"])


def test_a_job_that_has_changed_is_looked_at_first() -> None:
    server = Server(ANN)
    seen = last(server)._replace(version="9")
    assert remove(server, seen) is None
    assert (server.job, server.sent) == (None, ["delete", "get", "delete"])


def test_a_job_that_another_store_has_marked_since_it_was_seen_stays() -> None:
    before = last(Server(ANN))
    server = Server(ANN, BEN, resourceVersion="11")
    assert "ci-2 keeps it" in str(remove(server, before))
    assert server.job is not None
    assert server.sent == ["delete", "get", "patch"]


@pytest.mark.parametrize(
    ("server", "owns"), [(Server(ANN, BEN), True), (Server(ANN), False)], ids=["marked", "map"]
)
def test_where_more_is_to_be_known_the_job_is_looked_at_first(server: Server, owns: bool) -> None:
    remove(server, last(server), owns_config_map=owns)
    assert server.sent[0] == "get"


def test_another_job_of_the_name_stays() -> None:
    before = last(Server(ANN))
    server = Server(ANN, uid="2", resourceVersion="20")
    assert "another job of that name" in str(remove(server, before))
    assert server.job is not None


def test_what_a_finalizer_keeps_is_named() -> None:
    server = Server(ANN, finalizers=["example.com/wait"])
    assert "example.com/wait" in str(remove(server, last(server)))


def test_a_job_that_is_gone_is_no_error() -> None:
    server = Server(ANN)
    seen = last(server)
    server.job = None
    assert remove(server, seen) is None

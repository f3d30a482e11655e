"""A Lease: one of several holds it, and another takes it over when it is not renewed."""

from __future__ import annotations

import copy
from typing import Any, cast

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.lease import SECONDS, Lease
from k8sbench.model.errors import Unreachable
from k8sbench.model.run import Location


class Server:
    """An API server with at most one Lease, which it changes by the versions of the requests."""

    place = Location(server="https://cluster.example", namespace="team")

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.is_away = False
        self.api = cast("Api", self)
        self.now = 0.0

    def time(self) -> float:
        return 1000.0 + self.now

    def lease_of(self, holder: str) -> Lease:
        return Lease(self.api, "one", holder, clock=lambda: self.now)

    def get(self, path: str, *, retry_s: float = 0.0) -> dict[str, Any]:
        assert path == "/apis/coordination.k8s.io/v1/namespaces/team/leases/one"
        if self.is_away:
            raise ApiFault(503, "", "it is away")
        if self.lease is None:
            raise ApiFault(404, "NotFound", "there is none")
        return copy.deepcopy(self.lease)

    def create(self, path: str, body: dict[str, Any], *, retry_s: float = 0.0) -> None:
        if self.lease is not None:
            raise ApiFault(409, "AlreadyExists", "there is one")
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = "1"

    def patch(self, path: str, body: dict[str, Any], *, retry_s: float = 0.0) -> None:
        assert self.lease is not None
        version = self.lease["metadata"]["resourceVersion"]
        if body["metadata"]["resourceVersion"] != version:
            raise ApiFault(409, "Conflict", "it was changed")
        self.lease["spec"] |= body["spec"]
        self.lease["metadata"]["resourceVersion"] = str(int(version) + 1)

    def explained(self, fault: ApiFault, doing: str) -> Unreachable:
        return Unreachable(f"{doing}: {fault.message}")


def test_one_that_is_not_renewed_is_taken_over_once() -> None:
    server = Server()
    one, two, three = map(server.lease_of, ("one", "two", "three"))
    assert one.attempt()
    assert [two.attempt(), three.attempt()] == [False, False], "it is new to them"
    server.now += SECONDS
    assert [two.attempt(), three.attempt(), one.attempt()] == [True, False, False]
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1
    assert server.lease["spec"]["renewTime"] == "1970-01-01T00:16:55.000000Z"


def test_of_two_that_take_it_at_once_one_gets_it() -> None:
    server = Server()
    one, two = server.lease_of("one"), server.lease_of("two")

    class Slow(Server):
        def create(self, path: str, body: dict[str, Any], *, retry_s: float = 0.0) -> None:
            assert one.attempt()
            server.create(path, body)

    slow = Slow()
    two = slow.lease_of("two")
    assert not two.attempt()
    assert one.attempt()

"""Leadership of the namespaces: one replica of an operator, and each namespace for itself."""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from k8sbench import limits
from k8sbench.adapters.kubernetes import benchmark_objects, leadership, operator_proxy
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.leadership import Leadership, Lease
from k8sbench.adapters.kubernetes.operator_proxy import PLACE_ANNOTATION
from k8sbench.model.benchmark_object import SCHEMA
from k8sbench.model.errors import StoreError
from k8sbench.model.run import Location
from tests.harness.cluster.limits import shorten


class Server:
    """The Leases of some namespaces, by path; refuses what tests say."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self.refuses: dict[str, ApiFault] = {}
        self.writes: list[str] = []

    def find(self, path: str, retry_s: float) -> Mapping[str, Any] | None:
        if (fault := self.refuses.get(path.split("/")[5])) is not None:
            raise fault
        return copy.deepcopy(self.found.get(path))

    def create(self, path: str, body: Mapping[str, Any], retry_s: float) -> None:
        self._write(f"{path}/{body['metadata']['name']}", copy.deepcopy(dict(body)))

    def patch(self, path: str, body: Mapping[str, Any], retry_s: float) -> None:
        found = copy.deepcopy(self.found[path])
        assert found["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"]
        found["spec"] |= body["spec"]
        named = found["metadata"]["annotations"] | body["metadata"]["annotations"]
        found["metadata"]["annotations"] = {k: v for k, v in named.items() if v is not None}
        self._write(path, found)

    def _write(self, path: str, found: dict[str, Any]) -> None:
        self.writes.append(path.split("/")[5])
        found["metadata"]["resourceVersion"] = str(len(self.writes))
        self.found[path] = found

    def places(self) -> dict[str, str | None]:
        """Namespace → the operator that its Lease names."""
        return {
            path.split("/")[5]: found["metadata"]["annotations"].get(PLACE_ANNOTATION)
            for path, found in self.found.items()
        }


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(leadership, "time", clock)
    monkeypatch.setattr(benchmark_objects, "check", lambda _: None)
    monkeypatch.setattr(operator_proxy, "token", lambda *_: "token")
    return clock


def unused() -> Api:
    """Connect to nothing: a test runs the rounds of the thread itself."""
    raise NotImplementedError


class Replica:
    """One process of an operator; each turn is a round of its thread."""

    def __init__(
        self, clock: Clock, server: Server, name: str, *namespaces: str, holder: str = "1"
    ) -> None:
        place = Location(server="https://x", namespace="home")
        api: Any = SimpleNamespace(place=place, time=lambda: 1e9)
        api.explaining = Api.explaining.__get__(api)
        api.explained = Api.explained.__get__(api)
        api.find = server.find
        api.create = server.create
        api.patch = server.patch
        self.api = api
        self.leases = [
            Lease(
                api,
                n,
                place=f"home/{name}",
                holder=f"{name}_{holder}",
                clock=clock.monotonic,
            )
            for n in sorted(namespaces)
        ]
        self.it = Leadership(unused, name, namespaces, lambda _: None)

    def turn(self) -> bool:
        self.it.take_turn(self.api, self.leases)
        return self.it.is_held


def test_a_namespace_of_another_operator_is_refused_by_name_and_the_others_are_taken(
    clock: Clock,
) -> None:
    server = Server()
    first, second = Replica(clock, server, "one", "b", "c"), Replica(clock, server, "two", "a", "b")
    assert first.turn()
    assert second.turn()
    assert server.writes == ["b", "c", "a"]
    assert second.it.why_not("a") == second.it.waits_for == ""
    assert "home/one" in second.it.why_not("b")
    assert "kubectl delete lease k8sbench-operator --namespace b" in second.it.why_not("b")
    # However long the first is silent, a person decides.
    clock.now += 100 * limits.now.lease
    assert second.turn()
    assert server.places() == {"a": "home/two", "b": "home/one", "c": "home/one"}
    third = Replica(clock, server, "two", "c")
    assert not third.turn()
    assert (third.it.stands_by, "home/one" in third.it.waits_for) == (False, True)


@pytest.mark.parametrize("other", ["one", "two"])
def test_of_two_that_begin_at_once_each_lease_has_one_holder(clock: Clock, other: str) -> None:
    server = Server()
    loser = Replica(clock, server, "two", "a", "b")
    winner = Replica(clock, server, other, "b", holder="9")
    # The winner takes b after the loser has read all Leases, before the loser writes b.
    take = loser.leases[0].attempt
    loser.leases[0].attempt = lambda: take() and winner.turn()  # type: ignore[method-assign]
    is_replica = other == "two"
    assert loser.turn() is not is_replica
    assert server.places() == {"a": None if is_replica else "home/two", "b": f"home/{other}"}
    assert loser.it.stands_by is is_replica
    assert loser.it.why_not("b")


def test_a_replica_takes_nothing_while_another_holds_one_of_the_leases(clock: Clock) -> None:
    server = Server()
    first, second = (Replica(clock, server, "one", "a", "b", holder=holder) for holder in "12")
    server.refuses["b"] = ApiFault(403, "Forbidden", "You may not.")
    assert first.turn()
    server.refuses.clear()
    assert not second.turn()
    assert second.it.stands_by
    assert server.writes == ["a"]


def test_a_lease_that_somebody_changes_ends_the_service_of_its_namespace_alone(
    clock: Clock,
) -> None:
    server = Server()
    it = Replica(clock, server, "one", "a", "b")
    assert it.turn()
    (path,) = [path for path in server.found if "/b/" in path]
    for change in ({"annotations": {PLACE_ANNOTATION: "home/no"}}, {"resourceVersion": "9"}):
        server.found[path]["metadata"] |= change
        server.found[path]["spec"]["holderIdentity"] = "somebody"
        clock.now += 4
        assert it.turn()
        assert it.it.waits_for == it.it.why_not("a") == ""
        assert it.it.why_not("b")
        server.found[path]["metadata"]["annotations"] = {PLACE_ANNOTATION: "home/one"}
    clock.now += limits.now.lease_renew
    for _ in range(4):
        assert it.turn()
        clock.now += limits.now.lease_renew
    assert it.it.why_not("b") == "", "nobody has renewed it"


@pytest.mark.parametrize(
    "fault",
    [ApiFault(403, "Forbidden", "You may not."), ApiFault(404, "", 'namespaces "a" not found')],
    ids=["no RoleBinding", "no namespace"],
)
def test_a_namespace_whose_lease_is_refused_at_the_start_is_named_alone(
    clock: Clock, fault: ApiFault
) -> None:
    server = Server()
    it = Replica(clock, server, "one", "a", "b")
    server.refuses["a"] = fault
    assert it.turn()
    assert (it.it.waits_for, it.it.why_not("b")) == ("", "")
    assert fault.status != 404 or "no namespace a " in it.it.why_not("a"), "not that of the API"
    assert it.it.why_not("a")
    server.refuses.clear()
    assert it.turn()
    assert it.it.why_not("a") == "", "it is taken as soon as it may be"


def test_a_replica_stands_by_until_the_lease_expires_or_is_released(clock: Clock) -> None:
    server = Server()
    first, second, third = (Replica(clock, server, "one", "a", "b", holder=h) for h in "123")
    assert first.turn()
    assert not second.turn()
    assert (second.it.stands_by, "one_1" in second.it.waits_for) == (True, True)
    clock.now += limits.now.lease - 1
    assert not second.turn()
    assert first.turn(), "it was late, and nobody took it"
    clock.now += limits.now.lease - 1
    assert not second.turn(), "it was renewed"
    clock.now += limits.now.lease
    assert second.turn()
    assert not first.turn()
    assert server.places() == {"a": "home/one", "b": "home/one"}
    assert not third.turn()
    for lease in second.leases:
        lease.release()
    assert server.places() == {"a": "home/one", "b": "home/one"}, "silent, and still known"
    assert third.turn(), "it is free at once"


def test_a_namespace_that_fails_does_not_end_the_others_and_is_named(clock: Clock) -> None:
    server = Server()
    it = Replica(clock, server, "one", "a", "b")
    assert it.turn()
    server.refuses["b"] = ApiFault(503, "", "overloaded")
    clock.now += 4
    assert it.turn()
    assert it.it.why_not("b") == "", "it may pass"
    for _ in range(3):
        clock.now += 4
        assert it.turn()
    assert "503" in it.it.why_not("b")
    assert it.it.waits_for == it.it.why_not("a") == ""
    server.refuses["a"] = server.refuses["b"]
    clock.now += limits.now.lease_held
    assert not it.it.is_held, "nothing keeps other replicas away"
    assert not it.turn()
    assert "503" in it.it.waits_for
    server.refuses.clear()
    assert it.turn()
    assert it.it.waits_for == ""


class ScriptedLease:
    """A Lease that answers as it is told: True if it is held, or an error."""

    namespace = "a"
    reason = ""
    stands_by = False
    renewed_at = -math.inf

    @property
    def is_held(self) -> bool:
        return self.renewed_at > -math.inf

    def __init__(self, *answers: bool | StoreError) -> None:
        self.answers = list(answers)

    def is_free(self) -> bool:
        return True

    def attempt(self) -> bool:
        if isinstance(answer := self.answers.pop(0), StoreError):
            raise answer
        self.renewed_at = time.monotonic() if answer else -math.inf
        return answer

    def release(self, *, forget: bool = False) -> None:
        assert forget


def test_a_token_that_is_replaced_is_read_again_and_its_failure_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shorten(monkeypatch, operator_token=0.0)
    monkeypatch.setattr(benchmark_objects, "check", lambda _: None)
    notes: list[str] = []
    it = Leadership(unused, "one", (), notes.append)
    tokens = ["one", "two"]

    def token(*_: object) -> str:
        if not tokens:
            raise StoreError("It is gone.")
        return tokens.pop(0)

    monkeypatch.setattr(operator_proxy, "token", token)
    api: Any = None
    lease: Any = ScriptedLease(False, StoreError("No."), True, True)
    seen = []
    while lease.answers:
        it.take_turn(api, [lease])
        seen.append((it.token, it.is_held, it.waits_for))
    assert seen == [
        ("one", False, ""),
        ("two", False, "No."),
        ("two", True, ""),
        ("two", True, ""),
    ]
    (note,) = notes
    assert "It is gone." in note, "the controller logs the other error"


def with_crd(description: str | None, *, starts: bool = False) -> Callable[[str], Any]:
    def get(path: str) -> Any:
        if path == "/apis/k8sbench.io/v1alpha1" and starts:
            return {"kind": "APIResourceList"}
        if description is None:
            raise ApiFault(404, "", "page not found")
        assert path == "/openapi/v3/apis/k8sbench.io/v1alpha1"
        return {"components": {"schemas": {"a": {}, "b": {"description": description}}}}

    return get


@pytest.mark.parametrize(
    ("description", "is_enough"),
    [
        (None, False),
        ("One submit.", False),
        (f"One submit (schema {SCHEMA - 1}).", False),
        (f"One submit (schema {SCHEMA}).", True),
        (f"One submit (schema {SCHEMA + 1}).", True),
    ],
)
def test_without_a_crd_that_it_knows_no_lease_is_taken(
    monkeypatch: pytest.MonkeyPatch, description: str | None, is_enough: bool
) -> None:
    it = Leadership(unused, "one", (), lambda _: None)
    api: Any = SimpleNamespace(get=with_crd(description), explaining=contextlib.nullcontext)
    monkeypatch.setattr(operator_proxy, "token", lambda *_: "one")
    lease: Any = ScriptedLease(True)
    it.take_turn(api, [lease])
    assert it.is_held is is_enough
    assert bool(lease.answers) is not is_enough
    assert ("k8sbench operator crd | kubectl apply" in it.waits_for) is not is_enough


def test_a_server_that_serves_the_objects_before_it_describes_them_has_just_started() -> None:
    api: Any = SimpleNamespace(get=with_crd(None, starts=True))
    with pytest.raises(ApiFault) as raised:
        benchmark_objects.schema(api)
    assert raised.value.passes
    api.get = with_crd(None)
    assert benchmark_objects.schema(api) is None

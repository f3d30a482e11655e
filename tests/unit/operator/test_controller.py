"""Main loop of the operator: it follows the Lease and retries."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from k8sbench.app import serve
from k8sbench.lifecycle.serving import Serving
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import StoreError
from k8sbench.operator import controller, http
from k8sbench.operator.controller import (
    SUCCESS_SECONDS,
    Controller,
    OperatorSettings,
    OperatorState,
    look_at,
)
from k8sbench.store import database, disk, indexing
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.harness.cluster.limits import shorten
from tests.results.report.factory import repeats
from tests.unit.lifecycle.played import FakeCluster, FakeObjects, Silent, context
from tests.unit.store.filled import put
from tests.waiting import wait_until

SECONDS = 30.0
SERVING: dict[str, Any] = {
    "now": 9.0,
    "listed_at": 1.0,
    "listed_time": 5.0,
    "open_runs": list,
    "problem": "",
    "refusal": "",
    "objects_problem": "",
}
"""Attributes of the service of a namespace without runs."""


def place(name: str = "a", unserved: str = "", **changes: Any) -> Any:
    """Return a namespace, served unless there is a reason why not."""
    served = None if unserved else SimpleNamespace(**SERVING | changes)
    return SimpleNamespace(name=name, serving=served, problem=unserved, errors=Counter())


PLACE = place()


class Lease:
    is_held, stands_by, waits_for = True, False, ""

    def why_not(self, _: str) -> str:
        return ""


class Served:
    """Replacement for serving; each start runs the next function.

    The last function repeats.
    """

    def __init__(self, *times: Callable[[Stop], None]) -> None:
        self.times, self.began = list(times), 0
        self.changed = threading.Condition()

    def __call__(self, *args: Any, look: Callable[..., None], **_: object) -> None:
        with self.changed:
            self.began += 1
            self.changed.notify_all()
        look([PLACE])
        (self.times.pop(0) if len(self.times) > 1 else self.times[0])(args[-1])

    def until(self, times: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.began >= times, SECONDS)


def to_the_stop(stop: Stop) -> None:
    """Serve until it is asked to stop."""
    wait_until(lambda: stop.cause is not None, "the request to stop")


def fails(_: Stop) -> None:
    raise StoreError("The disk is full.")


def breaks(_: Stop) -> None:
    raise KeyError("a fault of ours")


class Life:
    """An operator that runs in a thread."""

    def __init__(self, place: str) -> None:
        self.lease, self.stop, self.reporter = Lease(), Stop(), Silent()
        self.controller = Controller(
            OperatorSettings(store=place),
            self.lease,
            self.reporter,
            lambda _: None,
        )
        self.thread = threading.Thread(target=self.controller.run, args=(self.stop,))

    def begin(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(serve, "serve", served)
        self.thread.start()

    def noted(self, text: str) -> bool:
        return any(text in note for note in self.reporter.reported)

    def until(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, lambda: self.reporter.reported, SECONDS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with open_store(str(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    shorten(monkeypatch, retry_serving=0.01, operator_look=0.01)
    life = Life(str(tmp_path / "store"))
    yield life
    life.stop("Enough.")
    life.thread.join(SECONDS)
    assert not life.thread.is_alive()
    assert not life.controller.state.is_leader


def test_it_begins_again_whatever_fails(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(fails, breaks, fails, to_the_stop)
    life.begin(served, monkeypatch)
    served.until(4)
    assert life.noted("warning: not ready: The disk is full.")
    assert life.noted("warning: not ready: an internal error: KeyError: 'a fault of ours'")
    assert life.noted("Traceback (most recent call last):")
    life.until(lambda: life.controller.state.failure == "")
    assert life.controller.state.is_leader
    life.until(lambda: life.controller.state.succeeded_at == 5.0)


def test_it_stops_when_the_lease_is_lost_and_goes_on_when_it_has_it(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(to_the_stop)
    life.lease.is_held, life.lease.waits_for = False, "vm_2 holds it"
    life.begin(served, monkeypatch)
    life.lease.stands_by = True
    life.until(lambda: life.controller.state.waits_for == "vm_2 holds it")
    life.until(lambda: life.controller.state.unready == "")
    life.until(lambda: life.noted("waiting: vm_2 holds it"))
    assert served.began == 0
    life.lease.is_held = True
    served.until(1)
    life.lease.is_held = False
    life.until(lambda: life.noted("The Lease was lost: collecting ends."))
    life.lease.is_held = True
    served.until(2)


def test_a_store_without_room_is_no_success(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: SqlStore) -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(SqlStore, "check_writable", full)
    served, life.controller.state.succeeded_at = Served(to_the_stop), 4.0
    life.begin(served, monkeypatch)
    served.until(3)
    assert life.controller.state.unready == "The disk is full."
    assert life.controller.state.succeeded_at == 4.0, "however often it begins again"
    assert life.reporter.reported == ["warning: not ready: The disk is full."], "once"


class Held(Silent):
    """Holds the first message until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def note(self, text: str) -> None:
        super().note(text)
        self.told.release()
        assert self.go_on.acquire(timeout=SECONDS)


def test_one_that_builds_its_index_is_healthy_and_not_ready(
    life: Life, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(indexing, "SHOWN_SECONDS", 0.0)
    put(tmp_path / "store", repeats([100.0, 101.0, 99.0]))
    (tmp_path / "store" / database.DATABASE).unlink()
    held = Held()
    life.controller = Controller(life.controller.state.settings, life.lease, held)
    life.thread = threading.Thread(target=life.controller.run, args=(life.stop,))
    state = life.controller.state
    served = Served(to_the_stop)
    assert state.is_starting
    life.begin(served, monkeypatch)
    with (
        http.Server("127.0.0.1:0", http.probes(state)) as server,
        urllib3.HTTPConnectionPool("127.0.0.1", server.port, retries=False) as pool,
    ):
        for number in range(3):
            assert held.told.acquire(timeout=SECONDS)
            assert pool.request("GET", "/startupz").status == 200
            assert pool.request("GET", "/healthz").status == 200
            ready = pool.request("GET", "/readyz")
            assert ready.status == 503
            assert f"{number} of 3 runs" in ready.data.decode()
            state.looked_at -= http.HEALTHY_SECONDS + 1  # so long took the next runs
            assert pool.request("GET", "/healthz").status == 503
            held.go_on.release()
        held.go_on.release(100)
        served.until(1)
        wait_until(lambda: pool.request("GET", "/healthz").status == 200, "a sign of life")
        wait_until(lambda: "3 runs" not in state.unready, "the first look")


@pytest.mark.parametrize("tells", [False, True])
def test_one_has_started_when_its_store_is_open_or_it_tells_what_it_waits_for(
    life: Life, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tells: bool
) -> None:
    monkeypatch.setattr(disk, "LOCK_SHOWN_SECONDS", 0.0 if tells else 2 * SECONDS)
    open_store(str(tmp_path / "store")).close()
    state = life.controller.state
    served = Served(to_the_stop)
    with (
        http.Server("127.0.0.1:0", http.probes(state)) as server,
        urllib3.HTTPConnectionPool("127.0.0.1", server.port, retries=False) as pool,
    ):

        def started() -> bool:
            return pool.request("GET", "/startupz").status == 200

        with disk.lock_folder(tmp_path / "store"):
            state.looked_at -= http.HEALTHY_SECONDS + 1
            life.begin(served, monkeypatch)
            life.until(lambda: state.is_leader)
            if tells:
                life.until(started)
                assert "waiting for another process" in state.unready
                assert pool.request("GET", "/healthz").status == 200
            else:
                assert not started()
        served.until(1)
        life.until(started)


@pytest.mark.parametrize("reason", ["the Lease", "no store"])
def test_one_that_says_why_it_does_not_open_its_store_has_started(
    life: Life, tmp_path: Path, reason: str
) -> None:
    state = life.controller.state
    assert state.is_starting
    if reason == "the Lease":
        life.lease.is_held, life.lease.waits_for = False, "vm_2 holds it"
    else:
        (tmp_path / "store").write_text("a file")
    life.thread.start()
    life.until(lambda: not state.is_starting)
    assert state.unready


@pytest.mark.parametrize("comes_back", [True, False])
def test_one_whose_store_is_deleted_is_not_ready_and_makes_no_other(
    life: Life, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, comes_back: bool
) -> None:
    store, away = tmp_path / "store", tmp_path / "away"

    def looks(*args: Any, look: Callable[..., None], **_: object) -> None:
        def is_over() -> bool:
            look([PLACE])
            return args[-1].cause is not None

        wait_until(is_over, "the request to stop")

    monkeypatch.setattr(serve, "serve", looks)
    monkeypatch.setattr(controller, "WRITE_SECONDS", 0.0)
    life.thread.start()
    life.until(lambda: life.controller.state.failure == "" and store.exists())
    store.rename(away)
    life.until(lambda: life.noted(f"{store} was deleted or replaced"))
    life.until(lambda: life.noted("There is no store"))
    assert not store.exists()
    if comes_back:
        away.rename(store)
        life.until(lambda: life.controller.state.failure == "")
    else:
        open_store(str(store)).close()
        life.until(lambda: "is another one" in life.controller.state.failure)


def test_one_that_may_not_use_its_lease_says_so_once_and_is_not_ready(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.lease.is_held, life.lease.waits_for = False, "User x may not get leases."
    life.begin(Served(to_the_stop), monkeypatch)
    life.until(lambda: life.noted("warning: not ready: User x may not get leases."))
    at = life.controller.state.looked_at
    life.until(lambda: life.controller.state.looked_at > at)
    life.lease.is_held, life.lease.waits_for = True, ""
    life.until(lambda: life.noted("not listed for 90 s"))
    assert len(life.reporter.reported) == 2, "nothing of what passes at once"


@pytest.mark.parametrize("ahead", [-3600.0, -90.0, 90.0, 3600.0])
def test_readiness_holds_whatever_the_clocks_of_node_and_cluster_say(
    monkeypatch: pytest.MonkeyPatch, store: SqlStore, ahead: float
) -> None:
    cluster = FakeCluster(outlives=True)
    cluster.now = time.time() + ahead
    moment = 1000.0
    here = context(store, cluster, monotonic=lambda: moment)
    served = Serving(here, Silent(), FakeObjects(), lambda _: ())
    served.step(0.0)
    one = place()
    one.serving = served
    seen = look_at([one])
    state = OperatorState(settings=OperatorSettings(), is_leader=True, failure="", look=seen)
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    assert state.unready == ""
    moment += SUCCESS_SECONDS + 1
    assert "not listed for 90 s" in state.unready
    assert seen.listed_time == cluster.now


@pytest.mark.parametrize(
    ("times", "expected"), [([3.0, 1.0], 1.0), ([3.0, None], None), ([3.0, "gone"], 3.0)]
)
def test_the_jobs_are_listed_once_those_of_every_served_namespace_are(
    times: Sequence[Any], expected: float | None
) -> None:
    places = [
        place(str(number), unserved="It is gone.")
        if at == "gone"
        else place(str(number), listed_time=at)
        for number, at in enumerate(times)
    ]
    assert look_at(places).listed_time == expected


UNREADY: dict[str, dict[str, Any]] = {
    "its Lease is not held": {"unserved": "another operator serves it."},
    "its jobs cannot be listed": {"listed_at": None, "problem": "You may not."},
    "its Benchmarks cannot be listed": {"objects_problem": "You may not."},
    "it refuses all jobs": {"refusal": "The webhook does not answer."},
}


@pytest.mark.parametrize("name", UNREADY)
def test_a_namespace_that_is_not_ready_is_named_and_the_operator_is_ready_for_the_others(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 2.0)
    bad = place("bad", **UNREADY[name])
    state = OperatorState(settings=OperatorSettings(), is_leader=True, failure="")
    state.look = look_at([place("good"), bad])
    assert state.unready == ""
    (reason,) = state.unready_places.values()
    assert state.doing == f"collecting; not ready: namespace bad: {reason}"
    state.look = look_at([bad])
    assert state.unready == reason
    state.look = look_at([bad, place("worse", **UNREADY[name])])
    assert state.unready == f"namespace bad: {reason}; namespace worse: {reason}"

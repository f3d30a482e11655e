"""One kind of objects is followed through everything that the API server may answer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watching import reflector
from k8sbench.adapters.kubernetes.watching.reflector import (
    Changed,
    Deleted,
    Failed,
    Listed,
    Reflector,
    Source,
    WatchEvent,
    Works,
)

SOURCE = Source(kind="Pod", path="/pods", labels="a=b")
GONE = ApiFault(410, "Expired", "too old resource version")
AWAY = ApiFault(None, "", "connection refused")


def pod(name: str, version: int, uid: str = "") -> dict[str, Any]:
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata}


class Watched:
    """A watch that tells some events and then ends, breaks, or waits until it is closed."""

    def __init__(self, events: list[Any], then: ApiFault | str) -> None:
        self._events, self._then = events, then
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[Any]:
        yield from self._events
        if isinstance(self._then, ApiFault):
            raise self._then
        if self._then == "wait":
            self._closed.wait()

    def close(self) -> None:
        self._closed.set()


class Server:
    """Answers lists and watches as it is set up, in order; the last watch waits."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def list(self, path: str, *, labels: str, fields: str, keep: Any, retry_s: float) -> Any:
        self.asked.append(f"list {labels}")
        answer = self._next()
        items, version = answer
        return [kept for kept in map(keep, items) if kept is not None], version

    def watch(self, path: str, *, resource_version: str, **_: Any) -> Any:
        self.asked.append(f"watch {resource_version}")
        return self._next()

    def _next(self) -> Any:
        answer = self._answers.pop(0) if self._answers else Watched([], "wait")
        if isinstance(answer, ApiFault):
            raise answer
        return answer


class Reported:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[WatchEvent] = queue.SimpleQueue()
        self.put = self._queue.put

    def next(self, kind: type[WatchEvent] | None = None) -> Any:
        while True:
            news = self._queue.get(timeout=100)
            if kind is None or isinstance(news, kind):
                return news


Follow = Callable[..., Reported]


@pytest.fixture
def follow() -> Iterator[Follow]:
    started: list[Reflector] = []

    def begin(server: Server, keep: Callable[[Any], Any] = lambda found: found) -> Reported:
        reported = Reported()
        one = Reflector(cast(Api, server), SOURCE, keep, reported.put, longest_pause=0.001)
        started.append(one)
        reported.reflector = one  # type: ignore[attr-defined]
        return reported

    yield begin
    for one in started:
        one.close()
        one.thread.join(20)


def event(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": found}


def test_all_that_is_there_is_reported_and_then_every_change(follow: Follow) -> None:
    server = Server(
        ([pod("a", 1)], "5"),
        Watched([event("ADDED", pod("b", 6)), event("MODIFIED", pod("a", 7))], "wait"),
    )
    reported = follow(server)
    assert reported.next() == Changed("Pod", pod("a", 1))
    assert isinstance(reported.next(), Listed)
    assert reported.next() == Changed("Pod", pod("b", 6))
    assert reported.next() == Changed("Pod", pod("a", 7))
    assert server.asked == ["list a=b", "watch 5"]


def test_a_watch_goes_on_from_where_the_last_one_ended(follow: Follow) -> None:
    bookmark = {"metadata": {"resourceVersion": "9"}}
    server = Server(
        ([], "5"),
        Watched([event("ADDED", pod("a", 6))], "end"),
        Watched([event("BOOKMARK", bookmark)], AWAY),
        Watched([event("DELETED", pod("a", 10))], "wait"),
    )
    reported = follow(server)
    assert reported.next(Deleted).uid == "uid-a"
    assert server.asked == ["list a=b", "watch 5", "watch 6", "watch 9"]


def test_what_was_deleted_unseen_is_reported_by_the_next_listing(follow: Follow) -> None:
    server = Server(
        ([pod("a", 1), pod("b", 2), pod("c", 3)], "5"),
        Watched([], GONE),
        ([pod("a", 1), pod("b", 8, uid="another")], "9"),
    )
    reported = follow(server)
    reported.next(Listed)
    gone = {(reported.next(Deleted).name), (reported.next(Deleted).name)}
    assert gone == {"b", "c"}
    # What has not changed is not reported again.
    assert reported.next() == Changed("Pod", pod("b", 8, uid="another"))
    assert reported.next(Listed).names == {"a", "b"}


def test_history_that_was_forgotten_is_no_fault_to_tell(follow: Follow) -> None:
    server = Server(([], "5"), Watched([], GONE), ([], "9"))
    reported = follow(server)
    reported.next(Listed)
    assert isinstance(reported.next(), Listed)


def test_a_server_that_came_back_without_its_history_is_asked_for_all_at_once(
    follow: Follow,
) -> None:
    server = Server(([], "5"), *[AWAY] * 5, Watched([], GONE), ([pod("a", 8)], "9"))
    reported = follow(server)
    reported.next(Listed)
    assert [reported.next() for _ in range(5)] == [Failed("Pod", AWAY)] * 5
    assert reported.next() == Works("Pod")
    assert reported.next() == Changed("Pod", pod("a", 8))


def test_history_that_is_forgotten_at_once_again_is_a_fault(follow: Follow) -> None:
    reported = follow(Server(([], "5"), Watched([], GONE), ([], "9"), Watched([], GONE)))
    assert reported.next(Failed) == Failed("Pod", GONE)


def test_a_server_that_is_away_for_long_is_asked_until_it_answers(follow: Follow) -> None:
    server = Server(*[AWAY] * 200, ([pod("a", 1)], "5"))
    reported = follow(server)
    for _ in range(200):
        assert reported.next() == Failed("Pod", AWAY)
    assert reported.next() == Changed("Pod", pod("a", 1))
    reported.next(Works)


def test_a_refusal_is_reported_and_tried_again(follow: Follow) -> None:
    refused = ApiFault(403, "Forbidden", "may not watch")
    reported = follow(Server(([], "5"), refused, refused))
    assert reported.next(Failed).fault is refused
    assert reported.next(Failed).fault is refused
    reported.next(Works)


def test_objects_that_are_not_wanted_are_not_reported(follow: Follow) -> None:
    server = Server(
        ([pod("a", 1), pod("b", 2)], "5"),
        Watched([event("DELETED", pod("b", 6)), event("DELETED", pod("a", 7))], "wait"),
    )
    reported = follow(server, lambda found: found if found["metadata"]["name"] == "a" else None)
    assert reported.next(Listed).names == {"a"}
    assert reported.next(Deleted).name == "a"


def test_a_refresh_lists_again_under_the_new_labels(follow: Follow) -> None:
    server = Server(([], "5"), Watched([], "wait"), ([pod("a", 6)], "7"))
    reported = follow(server)
    reported.next(Listed)
    reported.reflector.refresh("a=c")  # type: ignore[attr-defined]
    assert reported.next() == Changed("Pod", pod("a", 6))
    assert server.asked[-2:] in (["watch 5", "list a=c"], ["list a=c", "watch 7"])


def test_a_refresh_reports_what_has_not_changed_and_a_later_list_does_not(follow: Follow) -> None:
    unchanged = ([pod("a", 1)], "5")
    expired = Watched([], GONE)
    server = Server(unchanged, Watched([], "wait"), unchanged, expired, unchanged)
    reported = follow(server)
    reported.next(Listed)
    reported.reflector.refresh("a=b")  # type: ignore[attr-defined]
    assert reported.next() == Changed("Pod", pod("a", 1))
    assert [type(reported.next()) for _ in range(2)] == [Listed, Listed]


@pytest.mark.parametrize("failures", [1, 2, 5, 10, 1000])
def test_pauses_grow_to_a_bound(failures: int) -> None:
    pauses = [reflector.pause(failures, reflector.LONGEST_PAUSE, None) for _ in range(100)]
    top = min(reflector.FIRST_PAUSE * 2.0 ** (failures - 1), 15.0) if failures < 100 else 15.0
    assert all(top / 2 <= one <= top for one in pauses)
    assert len(set(pauses)) > 1


def test_a_pause_is_as_long_as_the_server_asks_within_the_bound() -> None:
    assert reflector.pause(1, 15.0, 7.0) == 7.0
    assert reflector.pause(1, 15.0, 3600.0) == 15.0

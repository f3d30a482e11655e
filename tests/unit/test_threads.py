"""Calls on threads: which thread makes them, and how many at a time."""

from __future__ import annotations

import threading

from k8sbench.threads import Threads


def test_calls_one_after_another_share_a_thread() -> None:
    threads = Threads()
    idents = set[int]()
    for _ in range(20):
        idents.add(threads.start(threading.get_ident, "ident").result())
        threads.wait(60.0)
    assert threading.get_ident() not in idents
    assert len(idents) < 20


def test_no_call_waits_for_another() -> None:
    threads, together = Threads(), threading.Barrier(8)
    calls = [threads.start(together.wait, "together") for _ in range(8)]
    assert sorted(call.result(60.0) for call in calls) == list(range(8))


def test_at_most_so_many_calls_are_made_at_a_time() -> None:
    threads, running, seen = Threads(2), threading.Semaphore(2), list[bool]()

    def call() -> None:
        seen.append(running.acquire(blocking=False))
        running.release()

    threads.join([threads.start(call, "call") for _ in range(50)])
    assert seen == [True] * 50

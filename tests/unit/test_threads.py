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


def test_so_many_threads_make_all_calls() -> None:
    threads, together = Threads(2), threading.Barrier(2)

    def call() -> int:
        together.wait(60.0)
        return threading.get_ident()

    calls = [threads.start(call, "call") for _ in range(50)]
    assert len({one.result(60.0) for one in calls}) == 2

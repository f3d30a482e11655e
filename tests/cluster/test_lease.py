"""A Lease on a real API server: one holder, and takeover on expiry."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.collectors import LEASE_SECONDS, Lease
from tests.harness.cluster.namespace import Namespace

HOLDERS = ("one", "two", "three")


class Clock:
    """The holders' own clock, which a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(namespace: Namespace, clock: Clock) -> Iterator[dict[str, Lease]]:
    """Three who want one Lease, each over a connection of its own."""
    kubeconfig = str(namespace.cluster.kubeconfig)
    with contextlib.ExitStack() as stack:

        def lease(holder: str) -> Lease:
            api = connect(kubeconfig=kubeconfig, namespace=namespace.name)
            return Lease(
                stack.enter_context(contextlib.closing(api)), "collector", holder, clock=clock
            )

        yield {holder: lease(holder) for holder in HOLDERS}


def test_of_several_that_take_it_at_once_one_gets_it(leases: dict[str, Lease]) -> None:
    start = threading.Barrier(len(leases))

    def attempt(lease: Lease) -> bool:
        start.wait()
        return lease.attempt()

    with ThreadPoolExecutor() as pool:
        assert sorted(pool.map(attempt, leases.values())) == [False, False, True]


def test_one_that_is_not_renewed_is_taken_over_once(leases: dict[str, Lease], clock: Clock) -> None:
    one, two, three = (leases[holder] for holder in HOLDERS)
    assert one.attempt()
    assert [two.attempt(), three.attempt()] == [False, False], "it is new to them"
    clock.now += LEASE_SECONDS - 1
    assert [one.attempt(), two.attempt()] == [True, False], "it was renewed"
    assert two.other == "one"
    clock.now += LEASE_SECONDS
    assert [two.attempt(), three.attempt(), one.attempt()] == [True, False, False]
    two.release()
    assert three.attempt(), "it is free at once"

"""The operator's Leases on a real API server."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from k8sbench import __version__, limits
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.operator_lease import Lease, seen
from tests.harness.cluster.namespace import Namespace

HOLDERS = ("one", "two", "three")
PLACE = "home/it"


class Clock:
    """The holders' own clock, which a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def connected(namespace: Namespace) -> Iterator[Callable[[], Api]]:
    """Make connections to the namespace."""
    with contextlib.ExitStack() as stack:

        def api() -> Api:
            kubeconfig = str(namespace.cluster.kubeconfig)
            made = connect(kubeconfig=kubeconfig, namespace=namespace.name)
            return stack.enter_context(contextlib.closing(made))

        yield api


@pytest.fixture
def leases(namespace: Namespace, connected: Callable[[], Api], clock: Clock) -> dict[str, Lease]:
    """Three replicas that want one Lease, each over a connection of its own."""
    return {
        holder: Lease(connected(), namespace.name, place=PLACE, holder=holder, clock=clock)
        for holder in HOLDERS
    }


def test_of_several_that_take_it_at_once_one_gets_it(leases: dict[str, Lease]) -> None:
    start = threading.Barrier(len(leases))

    def attempt(lease: Lease) -> bool:
        start.wait()
        return lease.attempt()

    with ThreadPoolExecutor() as pool:
        assert sorted(pool.map(attempt, leases.values())) == [False, False, True]


def test_users_read_who_serves_the_namespace_and_that_it_has_ended(
    namespace: Namespace, connected: Callable[[], Api], leases: dict[str, Lease], clock: Clock
) -> None:
    api, one = connected(), leases["one"]
    assert seen(api) is None
    assert one.attempt()
    found = seen(api)
    assert found is not None
    assert (found.namespace, found.name, found.version) == ("home", "it", __version__)
    assert found.is_alive
    one.release()
    assert seen(api) is not None, "an operator that has ended stays known"
    other = Lease(connected(), namespace.name, place="other/it", holder="x", clock=clock)
    clock.now += 10 * limits.now.lease
    assert not other.attempt()
    assert (other.stands_by, PLACE in other.reason) == (False, True)
    namespace.kubectl("delete", "lease", "k8sbench-operator")
    assert other.attempt()
    other.release(forget=True)
    assert seen(api) is None, "one that did not get all of its Leases serves none"

"""Where a cluster listens, and that nothing asks a proxy for it."""

from __future__ import annotations

import socket

import pytest

from tests.harness.cluster import network


def test_ports_of_the_loopback_address_are_free_and_stay_so() -> None:
    with network.on_loopback() as one, network.on_loopback() as other:
        ports = [*one.ports.values(), *other.ports.values()]
        assert len({*ports}) == 2 * len(network.PORTS)
        for port in ports:
            socket.create_server((network.LOOPBACK, port)).close()


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "198.18.0.2"), ("a.test", "a.test,198.18.0.2"), ("198.18.0.2", "198.18.0.2")],
)
def test_an_address_is_added_to_those_that_bypass_proxies(before: str, after: str) -> None:
    found = network.bypass_proxies({"NO_PROXY": before, "no_proxy": before}, "198.18.0.2")
    assert found == {"NO_PROXY": after, "no_proxy": after}

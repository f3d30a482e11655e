"""Fixtures: a Prometheus of each test's own."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness import collection
from tests.harness.prometheus import Exporter, Server

HERE = pathlib.Path(__file__).parent
Start = Callable[..., Server]
Expose = Callable[..., Exporter]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    collection.set_timeouts(items, HERE)


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    """Start servers; they end with the test."""
    servers: list[Server] = []

    def begin(*samples: Any, **more: Any) -> Server:
        folder = tmp_path / f"prometheus-{len(servers)}"
        folder.mkdir()
        servers.append(Server(folder, samples=samples, **more))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()


@pytest.fixture
def expose() -> Iterator[Expose]:
    """Start exporters; they end with the test."""
    exporters: list[Exporter] = []

    def begin(text: str = "", port: int = 0) -> Exporter:
        exporters.append(Exporter(text, port))
        return exporters[-1]

    yield begin
    for exporter in exporters:
        exporter.stop()

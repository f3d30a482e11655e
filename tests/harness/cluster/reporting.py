"""Report of a failed cluster test: its namespaces and component logs."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.harness.cluster.cluster import Cluster, KubectlFailed
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import tail

_LINES = 12
# As Kubernetes' own programs, the operator's two loggers, kwok and etcd mark what went well.
_QUIET = re.compile(r"^I\d{4} |\t(INFO|DEBUG)\t|level=(info|debug)|\"level\":\"(INFO|info)\"")
_before = pytest.StashKey[dict[Path, int]]()


def remember(item: pytest.Item) -> None:
    """Note how long the logs are before a test."""
    cluster = _cluster(item)
    logs = cluster.logs_of_components().values() if cluster else ()
    item.stash[_before] = {log: log.stat().st_size for log in logs if log.exists()}


def add_sections(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add to the report of a failed test what may explain it."""
    if not report.failed:
        return
    for value in getattr(item, "funcargs", {}).values():
        if isinstance(value, Namespace):
            report.sections.append((f"namespace {value.name}", _described(value)))
    cluster = _cluster(item)
    for name, log in (cluster.logs_of_components() if cluster else {}).items():
        text = tail(log, item.stash.get(_before, {}).get(log, 0), _LINES, is_notable)
        if text:
            report.sections.append((f"{name} wrote at the end of {log}", text))


def is_notable(line: str) -> bool:
    """Tell whether a line of a component is about trouble."""
    return _QUIET.search(line) is None


def _described(namespace: Namespace) -> str:
    try:
        return namespace.describe()
    except KubectlFailed as wrong:
        return str(wrong)


def _cluster(item: pytest.Item) -> Cluster | None:
    found = getattr(item, "funcargs", {}).values()
    return next((value for value in found if isinstance(value, Cluster)), None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Note how long the logs are, after the fixtures and before the test."""
    __tracebackhide__ = True
    remember(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the sections."""
    report = yield
    add_sections(item, report)
    return report

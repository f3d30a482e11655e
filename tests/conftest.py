"""Fixtures of all tests: tiers, a private home, a clean environment."""

import pathlib
import signal
import types
from collections.abc import Iterator

import pytest

from tests import tiers
from tests.harness import postgres

STRAY = (
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "K8SBENCH_STORE",
    "K8SBENCH_POOLS",
    "K8SBENCH_NO_CONFIG",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "COLUMNS",
)
TIER = "tier"
NO_PARAMETERS = types.SimpleNamespace(params={})


# Started in the background, these may be ignored, and all children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


def _tier(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("tier")
    if marker is not None:
        return str(marker.args[0])
    folders = item.path.relative_to(tiers.ROOT / "tests").parents
    return next((tiers.FOLDERS[str(each)] for each in folders if str(each) in tiers.FOLDERS), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let ``make soak`` ask for its tests."""
    parser.addoption("--soak", action="store_true", help="run the tests marked soak alone")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect soak tests; mark tests whose fixtures need a tier.

    So ``-m "not tier"`` leaves these out as well. Of a fixture with a parameter per kind of store,
    only ``postgres`` needs its tier.
    """
    asked: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        is_soak = item.get_closest_marker("soak") is not None
        (asked if is_soak == config.getoption("--soak") else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = asked
    for item in items:
        if item.get_closest_marker("tier") is not None:
            continue
        needed = {tiers.FIXTURES.get(name) for name in getattr(item, "fixturenames", ())}
        parameters = getattr(item, "callspec", NO_PARAMETERS).params.values()
        if any(isinstance(each, str) and each == "postgres" for each in parameters):
            needed.add("postgres")
        for tier in needed - {None}:
            item.add_marker(pytest.mark.tier(tier))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail where it is required, a test whose tier lacks something here."""
    tier = _tier(item)
    if tier is not None:
        # The report carries it to the process that writes the summary.
        item.user_properties.append((TIER, tier))
        tiers.demand(tier)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name every tier of this run, and why one could not run."""
    reports = (each for reports in terminalreporter.stats.values() for each in reports)
    met = {
        tier
        for report in reports
        for name, tier in getattr(report, "user_properties", ())
        if name == TIER
    }
    for tier in tiers.NEEDS:
        if tier in met:
            reason = tiers.missing(tier)
            ran = "ran" if reason is None else f"SKIPPED, {reason}"
            terminalreporter.write_line(f"tier {tier}: {ran}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run with one line on the corpus of real logs."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        logs = tiers.corpus_logs()
        reporter.write_line(f"corpus: {len(logs)} logs" if logs else "corpus: absent")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """Yield a PostgreSQL server; each test gets its own database."""
    tiers.demand("postgres")
    server = postgres.Server()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def private_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    """Give each test its own home, isolated from the user's settings."""
    home = tmp_path_factory.mktemp("home")
    for name in STRAY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home

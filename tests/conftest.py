"""Fixtures of all tests: tiers, a private home, a clean environment."""

import itertools
import pathlib
import re
import signal
from collections.abc import Iterator

import pytest

from tests import tiers

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
SKIP = re.compile(r"Skipped: tier (?P<tier>\S+): (?P<reason>.*)", re.DOTALL)


# Started in the background, these may be ignored, and all children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


def _tiers(item: pytest.Item) -> set[str]:
    """Return the tiers of a test by its file and fixtures."""
    found = {*tiers.of_file(item.path)}
    information = getattr(item, "_fixtureinfo", None)
    for definitions in information.name2fixturedefs.values() if information else ():
        found.update(*(tiers.of_fixture(each.func) for each in definitions))
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let ``make soak`` ask for its tests."""
    parser.addoption("--soak", action="store_true", help="run the tests marked soak alone")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect soak tests; mark each test with all its tiers.

    So ``-m "not tier"`` leaves these out as well.
    """
    asked: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        is_soak = item.get_closest_marker("soak") is not None
        (asked if is_soak == config.getoption("--soak") else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = asked
    for item in items:
        for tier in _tiers(item) - {*_marked(item)}:
            item.add_marker(pytest.mark.tier(tier))


def _marked(item: pytest.Item) -> Iterator[str]:
    return (str(marker.args[0]) for marker in item.iter_markers("tier"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail where it is required, a test whose tier lacks something here."""
    # The report carries them to the process that writes the summary.
    item.user_properties += [(TIER, tier) for tier in _marked(item)]
    for tier in sorted(_marked(item)):
        tiers.demand(tier)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> None:
    """Demand a fixture's tiers, also as a running test asks for it."""
    for tier in tiers.of_fixture(fixturedef.func):
        tiers.demand(tier)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name every tier of this run, and why one could not run."""
    met, ran = set(), set()
    everything = itertools.chain.from_iterable(terminalreporter.stats.values())
    for report in (each for each in everything if isinstance(each, pytest.TestReport)):
        of_report = {tier for name, tier in report.user_properties if name == TIER}
        met |= of_report
        ran |= of_report if report.failed or report.when == "call" else set()
    # Some needs show only as a test runs, such as a network from which go fetches a module.
    skips = [
        SKIP.fullmatch(each.longrepr[-1]) for each in terminalreporter.stats.get("skipped", ())
    ]
    in_part = {skip["tier"]: skip["reason"] for skip in skips if skip}
    for tier in tiers.NEEDS:
        if tier in met and (reason := tiers.missing(tier)) is not None:
            terminalreporter.write_line(f"tier {tier}: SKIPPED, {reason}")
        elif tier in in_part:
            terminalreporter.write_line(f"tier {tier}: SKIPPED in part, {in_part[tier]}")
        elif tier in ran:
            terminalreporter.write_line(f"tier {tier}: ran")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run with one line on the corpus of real logs."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        logs = tiers.corpus_logs()
        found = f"{len(logs)} logs" if logs else f"absent; {tiers.CORPUS_SHOWS}"
        reporter.write_line(f"corpus: {found}")


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

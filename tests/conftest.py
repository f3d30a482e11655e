"""What all tests share: their tiers, a private home, and no stray environment."""

from __future__ import annotations

import pathlib
import signal

import pytest

from tests import tiers

STRAY = (
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "K8SBENCH_STORE",
    "K8SBENCH_POOLS",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "COLUMNS",
)


# Started in the background, these may be ignored, and all children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


def _tier(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("tier")
    if marker is not None:
        return str(marker.args[0])
    folder = item.path.relative_to(tiers.ROOT / "tests").parts[0]
    return tiers.FOLDERS.get(folder)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail where it is required, a test whose tier lacks something here."""
    tier = _tier(item)
    if tier is not None:
        tiers.demand(tier)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name every tier that could not run, with its reason."""
    for tier in tiers.NEEDS:
        reason = tiers.missing(tier)
        terminalreporter.write_line(
            f"tier {tier}: {'ran' if reason is None else 'SKIPPED, ' + reason}"
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run with one line on the corpus of real logs."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        logs = tiers.corpus_logs()
        reporter.write_line(f"corpus: {len(logs)} logs" if logs else "corpus: absent")


@pytest.fixture(autouse=True)
def private_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    """Give each test a home of its own: no test reads or writes the user's store or settings."""
    home = tmp_path_factory.mktemp("home")
    for name in STRAY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home

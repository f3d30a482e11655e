"""Collection hooks of the folders of tests on a cluster."""

import contextlib
from pathlib import Path

import pytest

from tests import tiers
from tests.harness.cluster import tools
from tests.harness.cluster.limits import TEST_SECONDS


def set_timeouts(items: list[pytest.Item], folder: Path) -> None:
    """Set the timeout of a folder's tests that have none."""
    for item in items:
        if item.path.is_relative_to(folder) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


def leave_out_unserved(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of what came with a newer Kubernetes than that of the clusters."""
    unserved = [item for item in items if not _is_served(item)]
    if unserved:
        config.hook.pytest_deselected(items=unserved)
        items[:] = [item for item in items if _is_served(item)]


def _is_served(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("kubernetes")
    return marker is None or tools.serves(marker.args[0])


def will_run(session: pytest.Session, folder: Path) -> bool:
    """Return True if a test of this folder is about to run."""
    return not session.config.option.collectonly and any(
        item.path.is_relative_to(folder) for item in session.items
    )


def build(session: pytest.Session, folder: Path, tier: str, *modules: tools.Module) -> None:
    """Build programs before the folder's tests start; without them these fail."""
    if will_run(session, folder) and tiers.missing(tier) is None:
        plugin = session.config.pluginmanager.get_plugin("terminalreporter")
        say = plugin.write_line if plugin else print
        with contextlib.suppress(tools.BuildFailed):
            for module in modules:
                tools.built(module, say=say)

"""What a machine looks like, for tests that a cluster leaves it as it was."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.harness.cluster.network import LINK
from tests.harness.cluster.subreaper import MARK

_LINK = LINK.format("")
_COUNTERS = {"nf_conntrack_count"}
"""Among the kernel's settings: what any connection of the machine changes."""


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the processes that carry the mark of a cluster."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == str(folder):
                found.append(process)
    return found


def network() -> dict[str, object]:
    """Describe the host's network: links, addresses, routes, packet filters, kernel settings.

    Without the links of clusters: another run of these tests may have one at the same time. For
    the same reason nothing is compared here that every program of the machine may change.
    """
    seen: dict[str, object] = {
        "settings": {
            str(path): _text(path)
            for path in Path("/proc/sys/net").rglob("*")
            if path.is_file() and _LINK not in str(path) and path.name not in _COUNTERS
        },
        "namespaces": sorted(Path("/run/netns").glob("*")),
    }
    for command in (
        ("ip", "-oneline", "link"),
        ("ip", "-oneline", "address"),
        ("ip", "route", "show", "table", "all"),
        ("iptables-save",),
        ("nft", "list", "ruleset"),
    ):
        if shutil.which(command[0]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            # Without the lifetimes of addresses and the counters of rules.
            lines = [line.split("valid_lft")[0] for line in done.stdout.splitlines()]
            seen[" ".join(command)] = sorted(
                line for line in lines if not line.startswith("#") and _LINK not in line
            )
    return seen


def differences(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    """Return what differs, before and after."""
    return {key: (before[key], after[key]) for key in before if before[key] != after[key]}


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for something that tells nobody when it happens; whether it did."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True

"""Cgroups of a node: one root per hierarchy, removed afterwards."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tests.harness.cluster.limits import SECONDS

NEEDED = ("cpu", "cpuset", "memory", "pids")
_USED = (*NEEDED, "hugetlb", "io")
"""Controllers for a kubelet, if the machine has them.

Only version 2 must enable them.
"""


def mounted(kind: str) -> list[Path]:
    """Return where hierarchies of a kind, ``cgroup`` (version 1) or ``cgroup2``, are mounted."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words, _, tail = line.partition(" - ")
        if tail.split()[0] == kind:
            found.append(Path(words.split()[4]))
    return found


def missing() -> str | None:
    """Return why a kubelet cannot account for pods here, or None."""
    hierarchies = mounted("cgroup")
    if not hierarchies and not mounted("cgroup2"):
        return "no cgroups are mounted"
    for hierarchy in hierarchies or mounted("cgroup2"):
        if not os.access(hierarchy, os.W_OK) or os.statvfs(hierarchy).f_flag & os.ST_RDONLY:
            return f"cgroups cannot be made in {hierarchy}"
    if hierarchies:
        have = {name for hierarchy in hierarchies for name in hierarchy.name.split(",")}
    else:
        have = set(mounted("cgroup2")[0].joinpath("cgroup.controllers").read_text().split())
    lacking = [name for name in NEEDED if name not in have]
    return f"there is no cgroup controller {' and '.join(lacking)}" if lacking else None


@contextlib.contextmanager
def made(name: str) -> Iterator[None]:
    """Have the root ``/NAME`` in every hierarchy until the end of the block."""
    remove(name)
    try:
        _make(name)
        yield
    finally:
        remove(name)


def _make(name: str) -> None:
    hierarchies = mounted("cgroup")
    for hierarchy in hierarchies:
        made = hierarchy / name
        made.mkdir()
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # Empty in a new one, and no process may enter it so.
            if (parent := hierarchy / setting).exists():
                made.joinpath(setting).write_text(parent.read_text())
    if not hierarchies:
        root = mounted("cgroup2")[0]
        have = root.joinpath("cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{name}" for name in _USED if name in have)
        root.joinpath("cgroup.subtree_control").write_text(wanted)
        root.joinpath(name).mkdir()


def roots(name: str) -> list[Path]:
    """Return the roots of that name that exist."""
    both = (*mounted("cgroup"), *mounted("cgroup2"))
    return [found for hierarchy in both if (found := hierarchy / name).is_dir()]


def remove(name: str) -> None:
    """Remove the roots and all below, once their dead processes are gone; raises OSError."""
    until = time.monotonic() + SECONDS
    for root in roots(name):
        for folder, _, _ in os.walk(root, topdown=False):
            while True:
                try:
                    Path(folder).rmdir()
                except FileNotFoundError:
                    pass
                except OSError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.02)
                    continue
                break

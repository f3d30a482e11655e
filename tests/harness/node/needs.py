"""Requirements of tests on real nodes; used by ``tests/tiers.py``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.harness.cluster import needs, tools
from tests.harness.node import cgroups
from tests.harness.node.configs import PLUGINS

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS = {
    "containerd": ("containerd", "containerd-shim-runc-v2", "ctr"),
    "runc": ("runc",),
    "iproute2": ("ip",),
    "util-linux": ("mount", "nsenter", "unshare"),
    "libc-bin": ("getent", "ldconfig", "ldd"),
}
"""Programs by Debian's package."""


def missing() -> str | None:
    """Say what is missing; None if the tests can run."""
    lacking = "; ".join(dict.fromkeys(_lacks()))
    if not lacking and "\toverlay\n" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    return lacking or cgroups.missing() or _no_namespaces()


def _lacks() -> Iterator[str]:
    yield from needs.lacks()
    if (reason := tools.missing(tools.NODE)) is not None:
        yield reason
    for package, programs in _PROGRAMS.items():
        if not all(shutil.which(program, path=PATH) for program in programs):
            yield f"no {' or '.join(programs)} (Debian: {package})"
    for plugin in ("bridge", "host-local", "loopback"):
        if not PLUGINS.joinpath(plugin).exists():
            yield f"no {PLUGINS} (Debian: containernetworking-plugins)"


def _no_namespaces() -> str | None:
    words = ("unshare", "--mount", "--net", "--pid", "--fork", "true")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no namespaces: {done.stderr.strip()}"

"""Requirements of tests on real nodes; used by ``tests/tiers.py``."""

from __future__ import annotations

import shutil
import subprocess
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
    for reason in (needs.missing(), tools.missing(tools.NODE)):
        if reason is not None:
            return reason
    for package, programs in _PROGRAMS.items():
        for program in programs:
            if shutil.which(program, path=PATH) is None:
                return f"there is no {program} (Debian's package {package})"
    for plugin in ("bridge", "host-local", "loopback"):
        if not PLUGINS.joinpath(plugin).exists():
            return f"there is no {PLUGINS / plugin} (Debian's package containernetworking-plugins)"
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    return cgroups.missing() or _no_namespaces()


def _no_namespaces() -> str | None:
    words = ("unshare", "--mount", "--net", "--pid", "--fork", "true")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no namespaces: {done.stderr.strip()}"

"""Requirements of the cluster tests on this machine; read by ``tests/tiers.py``."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from tests.harness.cluster import tools


def missing() -> str | None:
    """Say what is missing; None if the tests can run."""
    return "; ".join(dict.fromkeys(lacks())) or None


def lacks() -> Iterator[str]:
    """Yield everything that is missing."""
    if not sys.platform.startswith("linux"):
        yield "the test cluster needs Linux"
    if os.geteuid() != 0:
        yield "a network of its own needs root"
    if shutil.which("ip") is None:
        yield "no ip on PATH (Debian: iproute2)"
    if shutil.which("openssl") is None:
        yield "no openssl on PATH (Debian: openssl)"
    else:
        said = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=False)
        version = re.match(r"OpenSSL (\d+)", said.stdout)
        if version is None or int(version[1]) < 3:
            yield f"openssl is {said.stdout.strip()!r}; the certificates need OpenSSL 3"
    modules = (tools.CLUSTER, tools.OPERATORS, tools.MONITORING)
    yield from filter(None, map(tools.missing, modules))

"""Requirements of the cluster tests on this machine; read by ``tests/tiers.py``."""

import os
import re
import shutil
import subprocess
import sys

from tests.harness.cluster import tools


def missing() -> str | None:
    """Say what is missing; None if the tests can run."""
    if not sys.platform.startswith("linux"):
        return "the test cluster needs Linux"
    if os.geteuid() != 0:
        return "a network of its own needs root"
    if shutil.which("ip") is None:
        return "ip is not on PATH (Debian's package iproute2)"
    if shutil.which("openssl") is None:
        return "openssl is not on PATH"
    said = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=False)
    version = re.match(r"OpenSSL (\d+)", said.stdout)
    if version is None or int(version[1]) < 3:
        return f"openssl is {said.stdout.strip()!r}; the certificates need OpenSSL 3"
    modules = (tools.CLUSTER, tools.OPERATORS, tools.MONITORING)
    return next(filter(None, map(tools.missing, modules)), None)

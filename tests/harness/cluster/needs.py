"""What the tests on a cluster need on this machine; used by ``tests/tiers.py``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.harness.cluster import tools

KUBECONFIG = "K8SBENCH_TEST_KUBECONFIG"
"""Names the cluster to test on, where it shall not be one of our own."""


def given_kubeconfig() -> Path | None:
    """Return the kubeconfig of the cluster that was given, if one was."""
    given = os.environ.get(KUBECONFIG)
    return Path(given) if given else None


def missing() -> str | None:
    """Say what is missing; None if the tests can run."""
    given = given_kubeconfig()
    if given is not None:
        if not given.is_file():
            return f"{KUBECONFIG} names {given}, which is no file"
        return None if kubectl() else "kubectl is not on PATH"
    if not sys.platform.startswith("linux"):
        return "the test cluster needs Linux"
    if shutil.which("openssl") is None:
        return "openssl is not on PATH"
    said = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=False)
    version = re.match(r"OpenSSL (\d+)", said.stdout)
    if version is None or int(version[1]) < 3:
        return f"openssl is {said.stdout.strip()!r}; the certificates need OpenSSL 3"
    return tools.missing()


def kubectl() -> Path | None:
    """Return a kubectl: the pinned one where it is built, else the user's."""
    programs = tools.found()
    if programs is not None:
        return programs.program("kubectl")
    users = shutil.which("kubectl")
    return Path(users) if users else None

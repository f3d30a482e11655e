"""Other hosts that share this one's folders: each has its name, and no locks in common with it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ENTER = """
import os, socket, subprocess, sys
name, claims, own, *command = sys.argv[1:]
socket.sethostname(name)
subprocess.run(["mount", "--bind", own, claims], check=True)
os.execv(command[0], command)
"""
NAMESPACES = ("unshare", "--mount", "--uts")


def entering(name: str, store: Path, command: Sequence[str]) -> list[str]:
    """Return a command that runs another on a host of this name; skip where that is not permitted.

    It sees the same store, with a file of claims of its own: as on a network file system whose
    locks are each host's. The store has its file of claims already.
    """
    if os.geteuid() != 0:
        pytest.skip("only root may make another host's namespaces")
    tried = subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"namespaces are not permitted here: {tried.stderr.strip()}")
    own = store.parent / f"{name}.claims"
    own.touch()
    claims = str(store / "claims.lock")
    return [*NAMESPACES, sys.executable, "-c", ENTER, name, claims, str(own), *command]

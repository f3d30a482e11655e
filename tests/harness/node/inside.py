"""First process of a node's machine: sets it up, then supervises.

A kubelet and a container runtime have paths that no option changes. Here those are covered: /run by
an empty folder, /var/lib and /var/log by overlays that take writes. Kernel settings that a kubelet
insists on are replaced by files with the expected content, because the real ones apply to the whole
host.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.cluster.subreaper import Subreaper
from tests.harness.node.machine import Machine

LAYERED = ("/var/lib", "/var/log")
# pkg/kubelet/cm: setupKernelTunables.
SETTINGS = {
    "kernel/keys/root_maxbytes": 25000000,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
}


def main() -> int:
    """Set up what the file describes; see the module's docstring."""
    machine = Machine.read(sys.argv[1])
    print("there", flush=True)
    if not os.read(0, 1):  # linked, if somebody is left to say so
        return 1
    _cover(Path(machine.data))
    _connect(machine)
    # The end of its input is what ends it.
    Subreaper(Path(machine.socket_folder)).watch()
    return 0


def _cover(data: Path) -> None:
    for path in LAYERED:
        upper, work = (data / "layers" / path[1:] / name for name in ("upper", "work"))
        for folder in (upper, work):
            folder.mkdir(parents=True)
        layers = f"lowerdir={path},upperdir={upper},workdir={work}"
        _run("mount", "-n", "-t", "overlay", "overlay", "-o", layers, path)
    _run("mount", "-n", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name, value in SETTINGS.items():
        file = data / "settings" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        _run("mount", "-n", "--bind", str(file), f"/proc/sys/{name}")


def _connect(machine: Machine) -> None:
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", machine.address, "dev", "eth0")
    _run("ip", "link", "set", "eth0", "up")
    _run("ip", "route", "add", "default", "via", machine.gateway)


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


if __name__ == "__main__":
    sys.exit(main())

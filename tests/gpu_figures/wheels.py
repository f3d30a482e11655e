"""Wheels of the packages that k8sbench needs for a local run, for a machine without internet.

    python3 -m tests.gpu_figures.wheels --python 3.12 [--machine x86_64] [--to FOLDER]

prints what has to be carried for that Python to a machine that has PyTorch, numpy, psutil, PyYAML
and pytest, and the command that downloads it; with ``--to`` it runs the command.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024**2
COMPILED = {"msgspec": "msgspec", "sqlalchemy": "sqlalchemy"}
PURE = {"click": "click", "nvidia-ml-py": "pynvml"}
THERE = {
    "jinja2": "jinja2",
    "markupsafe": "markupsafe",
    "psutil": "psutil",
    "pyyaml": "yaml",
    "typing-extensions": "typing_extensions",
}
"""Packages that PyTorch brings, or that the tests on a GPU need anyway."""
NEEDED: Mapping[str, str] = COMPILED | PURE | THERE
"""Package → the module by which it is imported."""
GLIBC = ("2_17", "2_28")
"""Of the wheels of these packages, as pip has to be asked for them: each by its name."""


def main() -> int:
    """Print, and download where that is asked for; returns pip's exit code."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--python", required=True, metavar="3.X", help="version on that machine")
    parser.add_argument("--machine", default=platform.machine(), help="its processor (as here)")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="download into it")
    given = parser.parse_args()
    constraints = (ROOT / "constraints.txt").read_text()
    pins = {
        name: f"{name}=={version}"
        for pinned, version in re.findall(r"^(\S+)==(\S+)$", constraints, re.MULTILINE)
        if (name := canonical(pinned)) in COMPILED | PURE
    }
    print(f"For Python {given.python} on {given.machine}, compiled for it:")
    print(f"  {' '.join(pins[name] for name in COMPILED)}")
    print("and, where that machine has none, of any version (pure Python):")
    print(f"  {' '.join(pins[name] for name in PURE)}")
    platforms = [
        word for glibc in GLIBC for word in ("--platform", f"manylinux_{glibc}_{given.machine}")
    ]
    command = [
        *("-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
        *("--implementation", "cp", "--python-version", given.python, *platforms),
        *("--dest", str(given.to or "wheels"), *pins.values()),
    ]
    if given.to is None:
        print(f"Where there is a package index: {shlex.join(['python3', *command])}")
        return 0
    code = subprocess.run([sys.executable, *command], check=False).returncode
    for wheel in sorted(given.to.glob("*.whl")):
        print(f"{wheel.stat().st_size / MIB:6.2f} MiB  {wheel.name}")
    return code


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def unpack(wheels: Path, packages: Collection[str], to: Path) -> None:
    """Unpack the wheels of these packages, into a folder that can be imported from."""
    for wheel in wheels.glob("*.whl"):
        if canonical(wheel.name.partition("-")[0]) in packages:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(to)


TRIAL = """
import importlib, json, sys
failed = {}
for package, module in json.loads(sys.argv[1]).items():
    try:
        importlib.import_module(module)
    except ImportError as error:
        failed[package] = f"{type(error).__name__}: {error}"
print(json.dumps(failed))
"""


def missing(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Packages that cannot be imported with these variables, each with what Python says of it."""
    command = [sys.executable, "-c", TRIAL, json.dumps(NEEDED)]
    tried = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, check=True)
    failed: dict[str, str] = json.loads(tried.stdout)
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""Published programs from the package index, as folders for ``PYTHONPATH``.

One folder for each file of ``tests/upstream/requirements``, in the user's cache, named by the
checksum of what decides its contents. torch and Paddle stay those of this Python; of packages that
both have, the folder's are imported.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable

from tests import tiers
from tests.harness.cluster import tools

FOLDER = tiers.ROOT / "tests" / "upstream" / "requirements"
CACHE = tiers.CACHE / "k8sbench" / "upstream"
KEPT = 3
"""Installations per file kept in the cache, so that branches share them."""
# The user's own downloads; and an index that is slow for a moment is asked again.
PIP = {"PIP_CACHE_DIR": str(tiers.CACHE / "pip"), "PIP_RETRIES": "10", "MMCV_WITH_OPS": "0"}


class InstallFailed(Exception):
    """pip failed; the message ends with what it said."""


def installed(*names: str, say: Callable[[str], None] = print) -> str:
    """Return a ``PYTHONPATH`` of these files, installed if missing."""
    return os.pathsep.join(_installed(name, say) for name in names)


def _installed(name: str, say: Callable[[str], None]) -> str:
    requirements = FOLDER / f"{name}.txt"
    decides = (requirements.read_text(), platform.python_version(), platform.machine())
    target = CACHE / f"{name}-{hashlib.sha256(repr(decides).encode()).hexdigest()[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with tools.locked(CACHE / "lock", say):
        if not target.is_dir():
            say(f"installing {requirements.name} into {target}")
            partial = target.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)  # of an installation that was killed
            words = ("install", "--no-compile", "--no-deps", "--no-build-isolation")
            _pip(*words, f"--target={partial}", f"--requirement={requirements}")
            partial.rename(target)
        target.touch()
        newest = sorted(CACHE.glob(f"{name}-{'?' * 16}"), key=lambda one: -one.stat().st_mtime)
        for old in newest[KEPT:]:
            shutil.rmtree(old)
    return str(target)


def _pip(*words: str) -> None:
    # `make` sets constraints.txt, of which a program may need another version.
    inherited = {name: text for name, text in os.environ.items() if name != "PIP_CONSTRAINT"}
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words],
        env=inherited | PIP,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise InstallFailed(f"pip {words[0]} failed: {(done.stdout + done.stderr).strip()[-3000:]}")


def main() -> int:
    """Install all programs now, where tests would install them when they first need them."""
    try:
        installed(*(path.stem for path in sorted(FOLDER.glob("*.txt"))))
    except InstallFailed as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

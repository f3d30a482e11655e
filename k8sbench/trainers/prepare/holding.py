"""One at a time: a lock file with a heartbeat, in a folder that several machines may share.

No clock is compared with another machine's: a lock whose count of beats stands still for
:data:`STALE_SECONDS` has lost its owner.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from k8sbench.trainers.prepare.said import Failed, say

BEAT_SECONDS = 3.0
STALE_SECONDS = 20.0
_LOOK_SECONDS = 0.2


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; raises :class:`Failed` where another process is at work."""
    mine = {"token": uuid.uuid4().hex, "host": socket.gethostname(), "pid": os.getpid()}
    while not _made(path, mine):
        before = _read(path)
        if before is None:
            continue  # gone just now
        _wait_for_end(path, before)
        if _read(path) != before:
            continue
        _write(path, {**mine, "beat": 0})
        time.sleep(_LOOK_SECONDS)  # of several that take over the last one stays
        if (_read(path) or {}).get("token") == mine["token"]:
            break
    over = threading.Event()
    thread = threading.Thread(target=_beat, args=(path, mine, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if (_read(path) or {}).get("token") == mine["token"]:
            path.unlink()


def _made(path: Path, mine: dict[str, Any]) -> bool:
    try:
        with path.open("x") as file:
            json.dump({**mine, "beat": 0}, file)
    except FileExistsError:
        return False
    return True


def _wait_for_end(path: Path, before: dict[str, Any]) -> None:
    """Return when the owner is gone; raises :class:`Failed` where it is at work."""
    owner = _owner(before)
    if before.get("host") == socket.gethostname() and not _runs(before.get("pid")):
        say("note", text=f"The preparation that {owner} began was cut off; going on with it.")
        return
    say("note", text=f"There is a lock of {owner}; looking whether it is at work.")
    until = time.monotonic() + STALE_SECONDS
    while time.monotonic() < until:
        now = _read(path)
        if now is None:
            return
        if now != before:
            raise Failed(
                f"The folder is being prepared by {_owner(now)}.",
                "Wait for its end; then the same command says that all is there.",
            )
        time.sleep(_LOOK_SECONDS)
    say("note", text=f"Nothing is heard of {owner}; going on with what it began.")


def _owner(lock: dict[str, Any]) -> str:
    return f"process {lock.get('pid', '?')} on {lock.get('host', 'an unknown machine')}"


def _runs(pid: object) -> bool:
    # A container's first process has number 1, like the one that it replaced.
    return isinstance(pid, int) and pid != os.getpid() and Path(f"/proc/{pid}").exists()


def _beat(path: Path, mine: dict[str, Any], over: threading.Event) -> None:
    count = 0
    while not over.wait(BEAT_SECONDS):
        count += 1
        with contextlib.suppress(OSError):  # a full disk; the next beat may find room
            if (_read(path) or mine).get("token") != mine["token"]:
                say("failed", text="Another process took the folder over.", action="See its log.")
                os._exit(3)
            _write(path, {**mine, "beat": count})


def _write(path: Path, content: dict[str, Any]) -> None:
    new = path.with_name(f"{path.name}.{content['token']}")
    new.write_text(json.dumps(content))
    new.replace(path)


def _read(path: Path) -> dict[str, Any] | None:
    """What the lock says; empty where it is not written yet, None where there is none."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return found

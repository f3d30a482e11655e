"""The processes of one cluster."""

import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from tests.harness.cluster.subreaper import ALONE, GRACE, SOCKET
from tests.tiers import ROOT

# Every process may take its grace, one after the other.
_END_SECONDS = 20 * GRACE


class NoCluster(Exception):
    """There is no cluster's subreaper in that folder."""


class ProcessTrouble(Exception):
    """The subreaper rejected or failed a request."""


@dataclass(frozen=True)
class State:
    """One process: running as long as it has no status."""

    name: str
    status: int | None

    @property
    def is_running(self) -> bool:
        """Return True if it has not ended."""
        return self.status is None


class Processes:
    """Sends requests to the subreaper of a cluster's folder."""

    def __init__(self, folder: Path, pid: int = 0) -> None:
        self.folder = folder
        self.pid = pid
        """First process in their namespaces."""
        self._subreaper: subprocess.Popen[bytes] | None = None

    @classmethod
    def begin(cls, folder: Path) -> Self:
        """Start a subreaper with a folder; it ends with this process."""
        log = cls(folder).log("subreaper")
        log.parent.mkdir(parents=True)
        with log.open("wb") as errors:
            subreaper = subprocess.Popen(
                [*ALONE, "tests.harness.cluster.subreaper", str(folder)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # a Ctrl-C is for us; the subreaper hears of our end
            )
        assert subreaper.stdout is not None
        with subreaper.stdout as lines:
            is_there = bool(lines.readline())
        if not is_there:
            subreaper.wait()
            raise ProcessTrouble(f"the subreaper ended at once: {log.read_text()}")
        (first_inside,) = psutil.Process(subreaper.pid).children()
        made = cls(folder, first_inside.pid)
        made._subreaper = subreaper
        return made

    def start(self, name: str, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start a program."""
        log = str(self.log(name))
        self._ask("start", name=name, argv=[*argv], environ={**environ}, log=log)

    def stop(self, name: str, *, grace: float = GRACE) -> None:
        """End a process, without a grace at once, and wait for that."""
        self._ask("stop", name=name, grace=grace)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal."""
        self._ask("signal", name=name, signal=int(number))

    def list(self) -> list[State]:
        """Return all processes, in the order of their start."""
        return [State(**one) for one in self._ask("list")["processes"]]

    def end(self) -> None:
        """End everything and wait for that; kills the subreaper if it does not answer."""
        try:
            self._ask("end", seconds=_END_SECONDS)
        except (NoCluster, ProcessTrouble):
            if self._subreaper is not None:
                self._subreaper.kill()
        if self._subreaper is not None:
            if self._subreaper.stdin is not None:
                self._subreaper.stdin.close()
            self._subreaper.wait(GRACE)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, name: str) -> Path:
        """Return the file that a process writes to."""
        return self.folder / "log" / f"{name}.log"

    def _ask(self, operation: str, *, seconds: float = 4 * GRACE, **words: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            try:
                connection.connect(str(self.folder / SOCKET))
                connection.sendall(json.dumps({"op": operation, **words}).encode() + b"\n")
                with connection.makefile("rb") as file:
                    line = file.readline()
            except (FileNotFoundError, ConnectionRefusedError) as wrong:
                raise NoCluster(f"no cluster runs in {self.folder}") from wrong
            except OSError as wrong:
                raise ProcessTrouble(
                    f"the subreaper does not answer {operation}: {wrong}"
                ) from wrong
        if not line:
            raise ProcessTrouble(f"the subreaper ended on {operation}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ProcessTrouble(f"{operation}: {answer['error']}")
        return answer

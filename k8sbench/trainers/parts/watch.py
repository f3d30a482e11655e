"""End of a job that hangs, by a process beside each rank.

A rank that waits for another one inside a collective cannot tell which one hangs, runs no Python
there, and may wait as long as a healthy evaluation takes. So each rank notes in shared memory how
far it is and that it lives, and its watch, a process of its own, reads that. The watch of rank 0
hears from all others. When no rank has given a sign of life for `LIMIT`, it writes one line that
names the rank which is stopped or furthest behind (`k8sbench.diagnose.job.exits` reads it), and the
watches kill their ranks, the named one first.

The watch outlives its rank for a moment: it removes the batches that Paddle's loader processes have
left in /dev/shm. It is forked before a framework is imported, so it has one thread and is small.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from k8sbench.trainers import paddle_launch

LIMIT = paddle_launch.LIMIT  # seconds
TICK = 1.0  # seconds between two reports of a watch
MUTE = 15.0  # seconds without a report, after which a rank's whole pod is silent
AFTER = 10.0  # seconds that the other ranks have after the silent one was killed
_HEAD = struct.Struct("qq")  # position and signs of life
_WORDS = slice(_HEAD.size, _HEAD.size + 80)


@dataclass
class Sign:
    """Last report of the watch of a rank."""

    position: int  # what the rank has done, counted; every rank does the same in the same order
    words: str  # where that is: "in step 17"
    still: float  # seconds since its last sign of life, at the report
    stopped: bool  # by SIGSTOP or a debugger
    at: float  # monotonic time of the report


class _Rank:
    """The end that the rank holds."""

    page: mmap.mmap | None = None  # before `start`
    pipe = -1
    port = 0
    position = signs = 0


_rank = _Rank()


def start() -> None:
    """Fork this process's watch. Without it, the functions below have no effect."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    reader, writer = os.pipe()
    server = socket.create_server(("", 0))
    rank = os.getpid()
    if os.fork() == 0:
        try:
            os.close(writer)
            _Watch(rank, page, reader, server).run()
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(reader)
    _rank.page, _rank.pipe, _rank.port = page, writer, server.getsockname()[1]
    server.close()


def at(words: str | None = None) -> None:
    """Note this rank's progress, which each rank makes in the same order."""
    if _rank.page is not None:
        _rank.position += 1
        if words is not None:
            _rank.page[_WORDS] = words.encode()[:80].ljust(80)
        alive()


def alive() -> None:
    """Note a sign of life between two calls of `at`."""
    if _rank.page is not None:
        _rank.signs += 1
        _HEAD.pack_into(_rank.page, 0, _rank.position, _rank.signs)


def join(rank: int, ranks: int, leader: tuple[str, int], times: int = 1) -> None:
    """Watch this rank as one of a job, with `times` the limit.

    Rank 0 has its watch at host and port `leader`.
    """
    _rank.position = 0
    at("at its start")
    _tell(rank=rank, ranks=ranks, leader=leader, times=times)


def port() -> int:
    """The port of this process's watch; 0 without one."""
    return _rank.port


def note_loader() -> None:
    """Have the batches of this loader process of Paddle removed."""
    _tell(loader=os.getpid())


def _tell(**facts: object) -> None:
    if _rank.page is not None:
        os.write(_rank.pipe, json.dumps(facts).encode() + b"\n")


def silent(
    signs: Mapping[int, Sign],
    ranks: int,
    ended: Collection[int],
    now: float,
    limit: float,
    unwatched: Collection[int] = (),
) -> tuple[list[int], str] | None:
    """Return a job's silent ranks, named; None while one is alive.

    The watches of `unwatched` ranks are gone without saying that the rank has ended.
    """
    if min(sign.still + now - sign.at for sign in signs.values()) < limit:
        return None
    known = {*signs, *ended, *unwatched}
    absent = [rank for rank in range(ranks) if rank not in known]
    last = min(sign.position for sign in signs.values())
    # One that is behind the others is what they wait for.
    all_wait = all(sign.position == last for sign in signs.values())
    kinds = {
        "has not come": absent,
        "has fallen silent with its pod": [r for r, sign in signs.items() if now - sign.at > MUTE],
        "is stopped (SIGSTOP)": [r for r, sign in signs.items() if sign.stopped],
        "has lost its watch, and hangs or is gone": [*unwatched] if all_wait else [],
        "hangs": [r for r, sign in signs.items() if sign.position == last],
    }
    how, found = next((how, sorted(found)) for how, found in kinds.items() if found)
    where = signs[found[0]].words if found[0] in signs else ""
    return found, _sentence(found, ranks, f"{how} {where}".rstrip(), limit)


def _sentence(found: Sequence[int], ranks: int, how: str, limit: float) -> str:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"rank {found[0]} of {ranks}{more} {how}: no rank has done anything for {limit:g} s"


class _Watch:
    """The process of that name."""

    def __init__(self, pid: int, page: mmap.mmap, pipe: int, server: socket.socket) -> None:
        self.pid, self.page, self.pipe, self.server = pid, page, pipe, server
        self.rank = self.ranks = 0  # of no job yet
        self.leader = ("", 0)
        self.limit = LIMIT
        self.signs: dict[int, Sign] = {}
        self.ended: set[int] = set()
        self.unwatched: set[int] = set()
        self.rests: dict[socket.socket, bytes] = {}  # by connection: of a line, without its end
        self.whose: dict[socket.socket, int] = {}
        self.heard = 0.0  # of rank 0's watch
        self.loaders: list[int] = []
        self.head = b""
        self.since = time.monotonic()
        self.looked = time.monotonic()
        self.kill_at: float | None = None

    def run(self) -> None:
        """Watch until the rank and its loader processes have ended."""
        os.setsid()  # signals to the rank's group are not for it
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        told, due = b"", 0.0
        while True:
            left = max(due - time.monotonic(), 0.0)
            sources: list[Any] = [self.pipe, self.server, *self.rests]
            ready, _, _ = select.select(sources, [], [], left)
            if self.pipe in ready:
                data = os.read(self.pipe, 1 << 16)
                if not data:
                    break
                *lines, told = (told + data).split(b"\n")
                for line in lines:
                    self._told(**json.loads(line))
            if self.server in ready:
                self.rests[self.server.accept()[0]] = b""
            for peer in [each for each in ready if each in self.rests]:
                self._hear(peer)
            if time.monotonic() >= due:
                due = time.monotonic() + TICK
                if os.getppid() != self.pid:
                    break  # another process still holds the pipe
                with contextlib.suppress(FileNotFoundError):  # the rank has just ended
                    self._look()
        for peer in list(self.rests):
            self._send(peer, {"rank": self.rank, "ended": True})
        for loader in self.loaders:
            for batch in Path("/dev/shm").glob(f"paddle_{loader}_*"):  # noqa: S108
                batch.unlink(missing_ok=True)

    def _told(self, loader: int | None = None, **job: Any) -> None:
        """Handle a line of the rank or of a loader process."""
        if loader is not None:
            self.loaders.append(loader)
            return
        self.rank = job["rank"]
        self.ranks = job["ranks"]
        self.limit = LIMIT * job["times"]
        self.leader = job["leader"][0], job["leader"][1]
        for peer in list(self.rests):
            self._drop(peer)
        self.signs.clear()
        self.ended.clear()
        self.unwatched.clear()

    def _drop(self, peer: socket.socket) -> None:
        del self.rests[peer]
        peer.close()
        rank = self.whose.pop(peer, None)
        if rank is not None and self.signs.pop(rank, None) is not None:
            self.unwatched.add(rank)

    def _hear(self, peer: socket.socket) -> None:
        """Read what another watch has sent."""
        data = b""
        with contextlib.suppress(OSError):
            data = peer.recv(1 << 16)
        if not data:
            return self._drop(peer)
        *lines, self.rests[peer] = (self.rests[peer] + data).split(b"\n")
        try:
            for facts in map(json.loads, lines):
                self._take(peer, facts)
        except (KeyError, TypeError, ValueError):
            self._drop(peer)  # no watch of ours
        return None

    def _take(self, peer: socket.socket, facts: dict[str, Any]) -> None:
        now = time.monotonic()
        if self.rank == 0:
            rank = self.whose[peer] = facts.pop("rank")
            self.unwatched.discard(rank)
            if facts.pop("ended", False):
                # Its launcher names it where that was too early.
                self.ended.add(rank)
                self.signs.pop(rank, None)
            else:
                self.signs[rank] = Sign(**facts, at=now)
        elif "ended" not in facts:
            self.heard = now
            if facts["silent"]:
                self._end(facts["silent"])

    def _look(self) -> None:
        """Report the rank's sign; at rank 0 judge all."""
        now = time.monotonic()
        if self.kill_at is not None and now > self.kill_at:
            self._kill()
        head = self.page[: _HEAD.size]
        pause = now - self.looked
        self.looked = now
        if head != self.head or pause > MUTE:  # the watch itself was stopped, or starved
            self.head, self.since = head, now
        if self.ranks == 0 or self.kill_at is not None:
            return
        state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        words = self.page[_WORDS].decode(errors="replace").strip("\0 ")
        position = _HEAD.unpack(head)[0]
        own = Sign(position, words, now - self.since, state in "tT", now)
        if self.rank:
            self._report(own)
        else:
            self.signs[0] = own
            found = silent(
                self.signs, self.ranks, self.ended, now, self.limit, sorted(self.unwatched)
            )
            for peer in list(self.rests):
                self._send(peer, {"silent": found and found[0]})
            if found:
                self._say(found[1])
                self._end(found[0])

    def _report(self, own: Sign) -> None:
        """Send a sign to rank 0's watch, and judge rank 0."""
        facts = {"rank": self.rank, **vars(own)}
        del facts["at"]
        if not self.rests:
            with contextlib.suppress(OSError):
                self.rests[socket.create_connection(self.leader, TICK)] = b""
                self.heard = own.at
        for peer in list(self.rests):
            self._send(peer, facts)
        if self.heard and min(own.still, own.at - self.heard) > self.limit + MUTE:
            self._say(_sentence([0], self.ranks, "has fallen silent with its pod", self.limit))
            self._end([0])

    def _send(self, peer: socket.socket, facts: Mapping[str, object]) -> None:
        try:
            peer.sendall(json.dumps(facts).encode() + b"\n")
        except OSError:
            self._drop(peer)

    def _say(self, sentence: str) -> None:
        with contextlib.suppress(OSError):
            os.write(2, f"k8sbench: failed: {sentence}\n".encode())

    def _end(self, silent: list[int]) -> None:
        """Kill the rank: at once if it is silent, else later."""
        self.kill_at = time.monotonic() + AFTER
        if self.rank in silent:
            self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def end_without(rank: int, ranks: int) -> NoReturn:
    """End this rank, which has waited for `rank` in vain."""
    sys.stdout.flush()
    sys.stderr.write(f"k8sbench: failed: {_sentence([rank], ranks, 'has not come', LIMIT)}\n")
    os._exit(1)

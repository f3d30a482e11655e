"""Launcher of a Paddle trainer's ranks on one node of a job.

``python3 .../paddle_launch.py SCRIPT ARGS...`` takes the job's shape from the training operator's
environment and starts each rank with the variables that ``paddle.distributed.launch`` would give
it. It stands in place of that launcher, which hides every rank but its first in files, names the
lowest of several ranks that failed instead of the first, prints a failed rank's whole environment
(which would put credentials into logs), leaves its ranks running when it is killed, and numbers
nodes in an order of chance. Here:

- Each whole line of each rank comes out once, as it is written.
- The rank that ended first is named, by its rank in the job, in the last line of all, with the last
  error that it wrote; its code is the job's. The others are ended.
- The ranks end with this process, however it ends.
- Node N of the operator's ``JOB-worker-N`` is node N: POD_NAME says it, else the host's name, which
  is the node's own on a node's network. Of several nodes, all ranks meet at PADDLE_MASTER; of one,
  at a free port. They start when the name in PADDLE_MASTER resolves: it does only once that pod is
  ready, and a rank of Paddle ends at once when it does not.

Standard library only, and no import of the package: it runs as a file. Exit code: 0; that of the
rank that failed (128 + N where signal N ended it); 128 + N where signal N ended this process; 2
for wrong usage.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

USAGE = "usage: paddle_launch.py SCRIPT [ARGS...]; the variables PADDLE_* give the job's shape"

STDOUT, STDERR = 1, 2
# How long ranks may take to end after a signal, as torchrun lets them: they save (`parts/ending`).
GRACE = 30.0
# Seconds that the ranks of a job wait for one of them that does not come or hangs, with both
# frameworks (`parts/watch`). Also how long a name may take to resolve: after it the ranks start
# nevertheless, and say that they cannot meet.
LIMIT = 300.0
PIPE = 1 << 16  # bytes that a pipe holds at most: one read takes all that has been written

# How the last line of an error begins: Python's and Paddle's own exceptions, and the errors of
# command lines.
ERROR = re.compile(
    rb"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b|\S+: (?:error|failed): "
    rb"|Out of memory error on GPU \d"
)
REMEMBERED = 100  # lines of a rank that are searched for it; Paddle adds its C++ stack
LONGEST_ERROR = 1000  # bytes of it that are repeated
# As our trainers exit when SIGTERM comes (`parts/ending.py`). No other exit code is taken for a
# signal.
TERMINATED = 128 + signal.SIGTERM
PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None)


class NodePlace(NamedTuple):
    """Ranks of the job on this node."""

    first: int  # in the job
    here: int  # how many
    of: int  # how many the job has
    master: str | None  # where they meet, HOST:PORT; None: at a port of this node


class RankLines:
    """Bytes in, whole lines out; remembers the last ones."""

    def __init__(self) -> None:
        self._rest = b""
        self._last: deque[bytes] = deque(maxlen=REMEMBERED)

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, each with its newline."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        whole = [line + b"\n" for line in lines]
        self._last.extend(whole)
        return whole

    def end(self) -> list[bytes]:
        """Return the rest without newline, as a line."""
        return self.feed(b"\n") if self._rest else []

    @property
    def last_error(self) -> str:
        """The last line that tells an error; empty if there is none."""
        errors = (line for line in reversed(self._last) if ERROR.match(line))
        return next(errors, b"")[:LONGEST_ERROR].decode(errors="replace").strip()


class Rank:
    """One rank that runs on this node, and what it writes."""

    def __init__(self, number: int, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.number = number
        self.lines = RankLines()
        self.process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # signals reach it through this process, and once
            preexec_fn=_end_with_the_launcher,  # noqa: PLW1509 - there are no threads here
        )
        assert self.process.stdout is not None
        self.pipe = self.process.stdout
        os.set_blocking(self.pipe.fileno(), False)

    def read(self) -> list[bytes]:
        """The whole lines that it has written since the last call."""
        if self.pipe.closed:
            return []
        try:
            data = os.read(self.pipe.fileno(), PIPE)
        except BlockingIOError:
            return []
        if data:
            return self.lines.feed(data)
        self.pipe.close()
        return self.lines.end()

    def send(self, number: int) -> None:
        """Send a signal to it and to the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    @property
    def code(self) -> int:
        """Exit code, negative for a signal; 0 for success or while running."""
        code = self.process.poll() or 0
        return -signal.SIGTERM if code == TERMINATED else code

    def line(self, error: str = "") -> bytes:
        """The line that names it and how it ended; `k8sbench.diagnose.job.exits` reads it."""
        how = f"exit code {self.code}"
        if self.code < 0:
            name = {each.value: each.name for each in signal.Signals}.get(-self.code, "SIGRT")
            how = f"Signal {-self.code} ({name}) received by PID {self.process.pid}"
        why = f": {error}" if error else ""
        return f"paddle_launch.py: rank {self.number}: {how}{why}\n".encode()


def _end_with_the_launcher() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def place(given: Mapping[str, str], hostname: str) -> NodePlace:
    """Return the node's ranks by the operator's variables; exits without them."""
    nodes = _count(given, "PADDLE_NNODES")
    here = _count(given, "PADDLE_NPROC_PER_NODE")
    if nodes == 1:
        return NodePlace(0, here, here, None)
    job = re.escape(given.get("PADDLE_JOB_ID", ""))
    named = re.fullmatch(rf"{job}-worker-(\d+)", given.get("POD_NAME", hostname))
    node = given.get("PADDLE_RANK") or (named[1] if named else "")
    if not node.isdecimal() or int(node) >= nodes:
        refuse(f"node {node or 'without a number'} of {nodes}; set PADDLE_RANK to 0, 1, …")
    if "PADDLE_MASTER" not in given:
        refuse("several nodes meet at PADDLE_MASTER, which is not set to HOST:PORT")
    return NodePlace(int(node) * here, here, nodes * here, given["PADDLE_MASTER"])


def refuse(message: str) -> NoReturn:
    """End with one line that says what is wrong, and exit code 2."""
    print(f"paddle_launch.py: error: {message}", file=sys.stderr)
    sys.exit(2)


def _count(given: Mapping[str, str], name: str) -> int:
    text = given.get(name, "1")
    if not text.isdecimal() or int(text) < 1:
        refuse(f"{name} is {text!r}, which is no count")
    return int(text)


def environment(
    given: Mapping[str, str], at: NodePlace, local: int, master: str, *, gpus: bool
) -> dict[str, str]:
    """The environment of the rank of that number on this node."""
    rank = at.first + local
    device = {"FLAGS_selected_gpus": str(local)} if gpus else {"PADDLE_DISTRI_BACKEND": "gloo"}
    return {
        **given,
        **device,
        "PYTHONUNBUFFERED": "1",
        "PADDLE_MASTER": master,
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINERS_NUM": str(at.of),
        "PADDLE_RANK_IN_NODE": str(local),
        "PADDLE_LOCAL_SIZE": str(at.here),
        # Paddle demands it; as all meet at one place nobody goes there.
        "PADDLE_CURRENT_ENDPOINT": f"{socket.gethostname()}:{rank}",
    }


def has_gpus(given: Mapping[str, str]) -> bool:
    """True if this node has visible GPUs."""
    hidden = given.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    return not hidden and any(Path("/dev").glob("nvidia[0-9]*"))


def wait_for_name(host: str, wake: int, signals: Sequence[int]) -> None:
    """Wait until a name resolves, a signal has come or `LIMIT` is over."""
    deadline = time.monotonic() + LIMIT
    told = False
    while not signals and time.monotonic() < deadline:
        with contextlib.suppress(socket.gaierror):
            socket.getaddrinfo(host, None)
            return
        if not told:
            put(STDERR, [f"paddle_launch.py: waiting for {host} to resolve\n".encode()])
            told = True
        select.select([wake], [], [], 1.0)


def put(stream: int, lines: Sequence[bytes]) -> None:
    """Write lines out; without a reader the job ends by the OSError."""
    data = memoryview(b"".join(lines))
    while data:
        data = data[os.write(stream, data) :]


def listen(ranks: Sequence[Rank], wake: int, seconds: float | None) -> None:
    """Pass on the ranks' output within `seconds`, or until `wake` is readable.

    The first rank is read before the others and comes out after them: what it writes after a
    message of the others, as its summary, must not come out before what they had written.
    """
    pipes = [rank.pipe.fileno() for rank in ranks if not rank.pipe.closed]
    select.select([wake, *pipes], [], [], seconds)
    with contextlib.suppress(BlockingIOError):
        os.read(wake, PIPE)
    first, *others = ranks
    spoken = first.read()
    put(STDOUT, [line for rank in others for line in rank.read()] + spoken)


def follow(ranks: Sequence[Rank], wake: int, signals: Sequence[int]) -> int:
    """Pass on all output until every rank has ended; return the exit code.

    `wake` can be read when a signal has come, also SIGCHLD. `signals` grows when one asks this
    process to stop.
    """
    first: Rank | None = None
    deadline: float | None = None
    running = True
    while running:
        left = None if deadline is None else max(deadline - time.monotonic(), 0.1)
        listen(ranks, wake, left)
        running = any(rank.process.poll() is None for rank in ranks)
        if first is None and not signals:
            # Of several that have ended by now the one that was ended from outside: its peers have
            # lost it. SIGABRT is one that libraries send to their own process, often after that.
            first = min(
                (rank for rank in ranks if rank.code),
                key=lambda rank: rank.code > 0 or rank.code == -signal.SIGABRT,
                default=None,
            )
            if first is not None:
                put(STDERR, [first.line()])
        if deadline is None and (signals or first is not None):
            deadline = time.monotonic() + GRACE
            for rank in ranks:
                rank.send(signal.SIGTERM)
        if deadline is not None and time.monotonic() > deadline:
            for rank in ranks:
                rank.send(signal.SIGKILL)
    for rank in ranks:
        rank.send(signal.SIGKILL)  # its loader processes, which would hold its pipe open
    until = time.monotonic() + 1.0
    while not all(rank.pipe.closed for rank in ranks) and time.monotonic() < until:
        listen(ranks, wake, 0.1)
    if first is None:
        return 0
    # Once more, after all lines of the others, and on stdout as those: a reader of both streams
    # may see them in another order.
    put(STDOUT, [first.line(first.lines.last_error)])
    return first.code if first.code >= 0 else 128 - first.code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one node of a job; see the top of this file."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or not Path(arguments[0]).is_file():
        refuse(f"no such script: {arguments[:1]}; {USAGE}")
    at = place(os.environ, socket.gethostname())

    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: received.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    wake, writer = os.pipe()
    for end in (wake, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # Bound and not listening: rank 0 can listen there, since it sets the same option, and nobody
    # else is given the port meanwhile.
    meeting = socket.socket()
    meeting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    meeting.bind(("127.0.0.1", 0))
    master = at.master or f"127.0.0.1:{meeting.getsockname()[1]}"
    wait_for_name(master.rpartition(":")[0].strip("[]"), wake, received)
    if received:
        return 128 + received[0]
    gpus = has_gpus(os.environ)
    command = [sys.executable, *arguments]
    ranks: list[Rank] = []
    try:
        for local in range(at.here):
            env = environment(os.environ, at, local, master, gpus=gpus)
            ranks.append(Rank(at.first + local, command, env))
        code = follow(ranks, wake, received)
    finally:
        for rank in ranks:
            rank.send(signal.SIGKILL)
    return 128 + received[0] if received else code


if __name__ == "__main__":
    sys.exit(main())

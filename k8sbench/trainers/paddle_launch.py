"""Starts a Paddle trainer on one node of a job: what a PaddleJob's container runs.

``python3 .../paddle_launch.py SCRIPT ARGS...`` starts ``python3 -m paddle.distributed.launch``,
which takes the job's shape from the training operator's environment, and does for it what it
does not do itself:

- The launcher hides every rank but its first in ``workerlog.N`` files, shows the first one late
  and its last lines twice. Here each rank's file is followed and each whole line comes out once.
- Of several ranks that failed it names the lowest, by its number on this node, though that may
  have failed because another one was gone. Here the one that ended first is named, by its rank in
  the job, in the last line of all, and its code is the job's. For that the launcher runs with a
  `Reporter` in its process (``paddle_launch.py --launcher FD ARGS...``).
- Its own lines come out as they are, without the whole environment that it prints of a failed
  rank (which would put credentials into logs).
- It puts each rank into a session of its own, so that killing the launcher leaves them running.
  Here nothing of the job outlives this process, however it ends: a guard process waits for that.
- It numbers nodes in an order of chance. Here node N of the operator's ``JOB-worker-N`` is node N.

Standard library only, and no import of the package: it runs as a file. Exit code: 0; that of the
rank that failed (128 + N where signal N ended it); 128 + N where signal N ended this process; 2
for wrong usage.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

USAGE = "usage: paddle_launch.py SCRIPT [ARGS...]; the variables PADDLE_* give the job's shape"

# In the environment of every process of one job, and of no other: how they are found again.
MARK = "K8SBENCH_PADDLE_LAUNCH"
STDOUT, STDERR = 1, 2
REPORTS = 0  # what a `Reporter` writes, beside those two streams
AS_LAUNCHER = "--launcher"
TICK = 0.1  # seconds between two reads of the ranks' files
# How long the launcher may take to end its ranks after a signal; Kubernetes kills after 30 s.
GRACE = 15.0
CHUNK = 1 << 16
MOST_PER_TICK = 256 * CHUNK  # a rank that writes without pause must not starve the others

# The launcher's line on the rank that failed. It ends itself with the code of the lowest rank
# that did not end with 0, which may be one that it has just terminated because of the other.
FAILED = re.compile(rb"Container rank (\d+) status failed .* code (-?\d+) log ")

# How the last line of an error begins: Python's and Paddle's own exceptions, and the errors of
# command lines.
ERROR = re.compile(rb"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b|\S+: (?:error|failed): ")
REMEMBERED = 100  # lines of a rank that are searched for it; Paddle adds its C++ stack
LONGEST_ERROR = 1000  # bytes of it that are repeated
# As our trainers exit when SIGTERM comes (`parts/ending.py`). No other exit code is taken for a
# signal.
TERMINATED = 128 + signal.SIGTERM


class Ending(NamedTuple):
    """How one rank ended."""

    name: str  # "rank 9", as the job counts
    local: int  # as this node counts
    code: int  # negative: a signal's number
    process: int | None = None

    @property
    def from_outside(self) -> bool:
        """Whether a signal ended it that comes from outside.

        SIGABRT is one that libraries send to their own process, often because a peer is gone.
        """
        return self.code < 0 and self.code != -signal.SIGABRT

    def line(self, error: str = "") -> bytes:
        """The line that names the rank; `k8sbench.diagnose.job.exits` reads it."""
        by = "" if self.process is None else f" received by PID {self.process}"
        how = f"exit code {self.code}" if self.code >= 0 else f"{_signal(-self.code)}{by}"
        why = f": {error}" if error else ""
        return f"paddle_launch.py: {self.name}: {how}{why}\n".encode()


def _by_signal(code: int) -> int:
    """An exit code, with our trainers' own end by SIGTERM read as that."""
    return -signal.SIGTERM if code == TERMINATED else code


def _signal(number: int) -> str:
    with contextlib.suppress(ValueError):
        return f"Signal {number} ({signal.Signals(number).name})"
    return f"Signal {number}"  # one of the real-time signals, which have no names


class Lines:
    """Bytes in, whole lines out; remembers the last ones."""

    def __init__(self) -> None:
        self._rest = b""
        self.last: deque[bytes] = deque(maxlen=REMEMBERED)

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, each with its newline."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        whole = [line + b"\n" for line in lines]
        self.last.extend(whole)
        return whole

    def end(self) -> list[bytes]:
        """What is left without a newline, as a line."""
        return self.feed(b"\n") if self._rest else []


class WorkerLogs:
    """Follows every ``workerlog.N`` of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, tuple[int, Lines]] = {}

    @property
    def found(self) -> bool:
        """Whether the launcher has started its ranks."""
        return bool(self._files)

    def look(self) -> None:
        """Open the files that are new."""
        for path in sorted(self._folder.glob("workerlog.*")):
            if path not in self._files:
                self._files[path] = (os.open(path, os.O_RDONLY | os.O_CLOEXEC), Lines())

    def read(self, most: int = MOST_PER_TICK) -> list[bytes]:
        """The whole lines that were written since the last call, from `most` bytes of each file.

        The first rank's come last and only as far as they went when this began: what it wrote
        after a message of the others must not come out before what they had written.
        """
        first = self._folder / "workerlog.0"
        until = os.fstat(self._files[first][0]).st_size if first in self._files else 0
        found: list[bytes] = []
        for path, (file, lines) in sorted(self._files.items(), key=lambda item: item[0] == first):
            left = most
            if path == first:
                left = min(most, until - os.lseek(file, 0, os.SEEK_CUR))
            while left > 0 and (data := os.read(file, min(left, CHUNK))):
                left -= len(data)
                found += lines.feed(data)
        return found

    def rest(self) -> list[bytes]:
        """All that is left, once every rank has ended."""
        self.look()
        found = self.read(most=sys.maxsize)
        for _, lines in self._files.values():
            found += lines.end()
        return found

    def written_at(self, local: int) -> int:
        """When the rank of that number on this node last wrote: nanoseconds, 0 if never."""
        file, _ = self._files.get(self._folder / f"workerlog.{local}", (None, None))
        return 0 if file is None else os.fstat(file).st_mtime_ns

    def last_error(self, local: int) -> str:
        """The last error line of the rank of that number on this node; empty if it has none."""
        _, lines = self._files.get(self._folder / f"workerlog.{local}", (None, Lines()))
        errors = (line for line in reversed(lines.last) if ERROR.match(line))
        return next(errors, b"")[:LONGEST_ERROR].decode(errors="replace").strip()


class Reporter:
    """Runs in the launcher's process and reports which ranks it starts and how they end.

    The launcher looks at its ranks once per second, and names one of those that have failed by
    then. Here they are looked at when the first of them ends, and before the launcher itself can
    take their exit codes away. Once the launcher signals a rank, all that follows is its doing, and
    nothing more is reported.

    A report is a line of JSON: a list of ranks, each [rank in the job, rank on this node, process,
    exit code], with None for a rank that was started and -N for signal N.
    """

    def __init__(self, report: int) -> None:
        self._report = report
        self._ranks: dict[int, tuple[int, int]] = {}  # by process: in the job, on this node

    def install(self) -> None:
        """Watch all processes of ranks that `subprocess.Popen` starts from now on."""
        reporter = self

        class Popen(subprocess.Popen):  # type: ignore[type-arg]
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                reporter._start(self.pid, options.get("env") or {})

            def poll(self) -> int | None:
                code = super().poll()
                if code is not None:  # which SIGCHLD was too late for
                    reporter._end({self.pid: code})
                return code

        subprocess.Popen = Popen  # type: ignore[misc]
        signal.signal(signal.SIGCHLD, lambda *_: self._look())
        signal.siginterrupt(signal.SIGCHLD, False)
        sys.addaudithook(self._heed)

    def _start(self, process: int, env: Mapping[str, str]) -> None:
        if "PADDLE_TRAINER_ID" in env:
            rank = int(env["PADDLE_TRAINER_ID"])
            local = int(env.get("PADDLE_RANK_IN_NODE", rank))
            self._write([[rank, local, process, None]])
            self._ranks[process] = rank, local
            self._look()

    def _look(self) -> None:
        ended = {}
        for process in list(self._ranks):
            with contextlib.suppress(ChildProcessError):  # `poll` has just taken its code
                found = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if found is not None:
                    exited = found.si_code == os.CLD_EXITED
                    ended[process] = found.si_status if exited else -found.si_status
        self._end(ended)

    def _end(self, codes: Mapping[int, int]) -> None:
        # The handler of SIGCHLD may interrupt a look: who removes a rank reports it.
        known = {process: self._ranks.pop(process, None) for process in codes}
        self._write(
            [[*rank, one, codes[one]] for one, rank in known.items() if rank and codes[one] != 0]
        )

    def _heed(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.kill", "os.killpg") and arguments[0] in self._ranks and arguments[1]:
            self._look()
            self._ranks.clear()

    def _write(self, ranks: list[list[int | None]]) -> None:
        if ranks:
            with contextlib.suppress(OSError):  # nobody reads it any more
                os.write(self._report, json.dumps(ranks).encode() + b"\n")


class OwnLines:
    """Passes on what the launcher itself prints, and reads which ranks have failed."""

    def __init__(self, launcher: subprocess.Popen[bytes], logs: WorkerLogs, reports: int) -> None:
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        # The ranks that were found first to have ended badly; of several it is not known which
        # was the first.
        self.ended: list[Ending] = []
        # The rank that the launcher reports as failed: its number on this node, its exit code.
        self.failed: tuple[int, int] | None = None
        self._logs = logs
        self._before: int | None = None  # how many ranks of the job are on the nodes before this
        self._sources = selectors.DefaultSelector()
        pipes = ((launcher.stdout, STDOUT), (launcher.stderr, STDERR), (reports, REPORTS))
        for pipe, stream in pipes:
            self._sources.register(pipe, selectors.EVENT_READ, (stream, Lines()))

    def name(self, local: int) -> str:
        """What the job calls the rank of that number on this node: a node's ranks are in a row."""
        return f"local rank {local}" if self._before is None else f"rank {self._before + local}"

    def wait(self, seconds: float) -> bool:
        """Pass on what comes within `seconds`; False once nothing can come any more."""
        if not self._sources.get_map():
            time.sleep(seconds)
            return False
        for key, _ in self._sources.select(seconds):
            stream, lines = key.data
            data = os.read(key.fd, CHUNK)
            whole = lines.feed(data) if data else lines.end()
            if not data:
                self._sources.unregister(key.fileobj)
            if stream == REPORTS:
                for line in whole:
                    self._read(json.loads(line))
            elif stream == STDERR:
                put(stream, [line for line in whole if self._belongs_in_a_log(line)])
            elif not self._logs.found:
                # Later on its stdout only repeats the first rank's file.
                put(stream, whole)
        return True

    def _read(self, report: list[tuple[int, int, int, int | None]]) -> None:
        for rank, local, _, _ in report:
            self._before = rank - local
        self.ended = self.ended or [
            Ending(f"rank {rank}", local, _by_signal(code), process)
            for rank, local, process, code in report
            if code is not None
        ]

    def _belongs_in_a_log(self, line: bytes) -> bool:
        if found := FAILED.match(line):
            self.failed = self.failed or (int(found[1]), int(found[2]))
        # Left out: the failed rank with its command, its environment, and the title of the part of
        # stdout that is left out too.
        return not found and not line.startswith(b"env {") and b"ERROR LOG DETAIL" not in line


def first_of(ended: Sequence[Ending], logs: WorkerLogs) -> Ending | None:
    """Of ranks that were found dead together the one that has most likely died first.

    The ranks that have lost another one write more, and later.
    """
    return min(
        ended, key=lambda one: (not one.from_outside, logs.written_at(one.local)), default=None
    )


def environment(
    given: Mapping[str, str], folder: Path, hostname: str | None = None
) -> dict[str, str]:
    """The launcher's environment: the given one, with what it would get wrong set right."""
    env = dict(given)
    env[MARK] = str(folder)
    env["PYTHONUNBUFFERED"] = "1"
    if "POD_NAME" in env:  # which the launcher replaces by six random letters
        env["K8SBENCH_POD_NAME"] = env["POD_NAME"]
    # The launchers send HTTP to each other, by a client that uses every proxy variable.
    env["NO_PROXY"] = env["no_proxy"] = "*"
    if env.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        # "No GPU" would be read as one GPU without a name.
        del env["CUDA_VISIBLE_DEVICES"]
        env["PADDLE_DISTRI_BACKEND"] = "gloo"
    if "POD_IP" not in env and env.get("POD_IP_DUMMY"):
        # The operator's name for the address of node 0, which serves the meeting point: the
        # launcher must know it as its own, which with the host's network it otherwise does not.
        env["POD_IP"] = env["POD_IP_DUMMY"]
    job = re.escape(env.get("PADDLE_JOB_ID", ""))
    node = re.fullmatch(rf"{job}-worker-(\d+)", hostname or socket.gethostname())
    if job and node and "PADDLE_RANK" not in env and env.get("PADDLE_NNODES", "1") != "1":
        env["PADDLE_RANK"] = node[1]
    return env


def members(mark: str) -> list[int]:
    """The processes of this job, wherever they have moved; none where there is no /proc."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for path in Path("/proc").glob("[1-9]*/environ"):
        with contextlib.suppress(OSError):  # another user's, or just gone
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def kill_members(mark: str) -> None:
    """Kill what is left of the job; again, as long as a fork can escape between two scans."""
    until = time.monotonic() + 5.0
    while (left := members(mark)) and time.monotonic() < until:
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def guard(alive: int, writer: int, folder: Path) -> NoReturn:
    """Wait, as a process of its own, for the end of the entry point; then clean up after it."""
    os.setsid()  # a signal to the entry point's process group must not reach this process
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.close(writer)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # a reader of the other's output waits until no process holds it
        os.dup2(null, stream)
    try:
        while os.read(alive, 1):
            pass
        kill_members(str(folder))
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)


def put(stream: int, lines: Sequence[bytes]) -> None:
    """Write lines out; without a reader the job ends by the OSError."""
    data = memoryview(b"".join(lines))
    while data:
        data = data[os.write(stream, data) :]


def follow(
    launcher: subprocess.Popen[bytes], reports: int, folder: Path, signals: Sequence[int]
) -> int:
    """Pass all output on until the launcher has ended; the job's exit code on this node.

    `reports` is the file descriptor on which a `Reporter` is read. `signals` grows when a signal
    asks this process to stop.
    """
    logs = WorkerLogs(folder)
    own = OwnLines(launcher, logs, reports)
    first: Ending | None = None
    deadline = float("inf")
    while launcher.poll() is None:
        if signals and deadline == float("inf"):
            deadline = time.monotonic() + GRACE
            launcher.terminate()  # once: after a second signal it no longer ends its ranks
        if time.monotonic() > deadline:
            launcher.kill()
        logs.look()
        if first is None and not signals and (first := first_of(own.ended, logs)):
            put(STDERR, [first.line()])
        own.wait(TICK)
        put(STDOUT, logs.read())
    kill_members(str(folder))  # what the launcher did not end itself, such as loader processes
    until = time.monotonic() + 1.0  # the end of its pipes, which a survivor might hold open
    while time.monotonic() < until and own.wait(TICK):
        pass
    put(STDOUT, logs.rest())
    if first is None and not signals:
        first = first_of(own.ended, logs)
        if first is None and own.failed is not None:  # a launcher that starts its ranks otherwise
            local, code = own.failed
            first = Ending(own.name(local), local, _by_signal(code))
    if first is None:
        return launcher.returncode
    # Once more, after all lines of the others, and on stdout as those: a reader of both streams
    # may see them in another order.
    put(STDOUT, [first.line(logs.last_error(first.local))])
    return first.code


def run_launcher(report: int, arguments: Sequence[str]) -> None:
    """Be the launcher's process, as ``python3 -m paddle.distributed.launch`` is."""
    os.set_inheritable(report, False)
    Reporter(report).install()
    sys.path[0] = str(Path.cwd())  # not this file's folder
    sys.argv[1:] = arguments
    runpy.run_module("paddle.distributed.launch", run_name="__main__", alter_sys=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one node of a job; see the top of this file."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == [AS_LAUNCHER]:
        run_launcher(int(arguments[1]), arguments[2:])
        return 0
    if not arguments or not Path(arguments[0]).is_file():
        print(f"paddle_launch.py: error: no such script: {arguments[:1]}; {USAGE}", file=sys.stderr)
        return 2

    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: received.append(number))
    folder = Path(tempfile.mkdtemp(prefix="k8sbench-paddle-"))
    alive, writer = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        guard(alive, writer, folder)
    os.close(alive)
    reports, report = os.pipe()
    try:
        command = [sys.executable, str(Path(__file__).absolute()), AS_LAUNCHER, str(report)]
        # Its GPU log would run nvidia-smi every 5 s beside the measurement.
        command += [f"--log_dir={folder}", "--enable_gpu_log=False", *arguments]
        launcher = subprocess.Popen(
            command,
            env=environment(os.environ, folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(report,),
            start_new_session=True,  # signals reach it through this process, and once
        )
        os.close(report)
        code = follow(launcher, reports, folder, received)
    finally:
        os.close(writer)
        os.waitpid(watcher, 0)
    if received:
        return 128 + received[0]
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

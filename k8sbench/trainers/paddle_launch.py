"""Starts a Paddle trainer on one node of a job: what a PaddleJob's container runs.

``python3 .../paddle_launch.py SCRIPT ARGS...`` starts ``python3 -m paddle.distributed.launch``,
which takes the job's shape from the training operator's environment, and does for it what it
does not do itself:

- The launcher hides every rank but its first in ``workerlog.N`` files, shows the first one late
  and its last lines twice. Here each rank's file is followed and each whole line comes out once.
- Of several ranks that failed it names the lowest, which may have failed because another one was
  killed. Here the killed one is named, and its code is the job's.
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
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

USAGE = "usage: paddle_launch.py SCRIPT [ARGS...]   (the job's shape comes from PADDLE_*)"

# In the environment of every process of one job, and of no other: how they are found again.
MARK = "K8SBENCH_PADDLE_LAUNCH"
STDOUT, STDERR = 1, 2
TICK = 0.1  # seconds between two looks at the ranks' files
# How long the launcher may take to end its ranks after a signal; Kubernetes kills after 30 s.
GRACE = 15.0
CHUNK = 1 << 16
MOST_PER_TICK = 256 * CHUNK  # a rank that writes without pause must not starve the others

# The launcher's line on the rank that failed. It ends itself with the code of the lowest rank
# that did not end with 0, which may be one that it has just terminated because of the other.
FAILED = re.compile(rb"Container rank \d+ status failed .* code (-?\d+) log ")


class Lines:
    """Bytes in, whole lines out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, each with its newline."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line + b"\n" for line in lines]

    def end(self) -> list[bytes]:
        """What is left without a newline, as a line."""
        rest, self._rest = self._rest, b""
        return [rest + b"\n"] if rest else []


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
        """Take up files that are new."""
        with contextlib.suppress(OSError):
            for path in sorted(self._folder.glob("workerlog.*")):
                if path not in self._files:
                    self._files[path] = (os.open(path, os.O_RDONLY | os.O_CLOEXEC), Lines())

    def read(self, most: int = MOST_PER_TICK) -> list[bytes]:
        """The whole lines that were written since the last look, from `most` bytes of each file.

        The first rank's come last and only as far as they went when this began: what it wrote
        after hearing from the others must not come out before what they had written.
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
        """All that is left, once nobody writes any more."""
        self.look()
        found = self.read(most=sys.maxsize)
        for _, lines in self._files.values():
            found += lines.end()
        return found


class OwnLines:
    """Passes on what the launcher itself prints, and learns from it which code a rank left."""

    def __init__(self, launcher: subprocess.Popen[bytes], logs: WorkerLogs) -> None:
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        self.failed: int | None = None  # exit code of the first rank that failed
        self._logs = logs
        self._sources = selectors.DefaultSelector()
        for pipe, stream in ((launcher.stdout, STDOUT), (launcher.stderr, STDERR)):
            self._sources.register(pipe, selectors.EVENT_READ, (stream, Lines()))

    def wake_at_the_end_of(self, process: int) -> None:
        """Let `wait` return as soon as a process ends."""
        with contextlib.suppress(OSError, AttributeError):  # kernels before 5.3; other systems
            self._sources.register(os.pidfd_open(process), selectors.EVENT_READ)

    def wait(self, seconds: float) -> bool:
        """Pass on what comes within `seconds`; False once nothing can come any more."""
        if not self._sources.get_map():
            time.sleep(seconds)
            return False
        for key, _ in self._sources.select(seconds):
            if key.data is None:
                self._sources.unregister(key.fd)
                os.close(key.fd)
                continue
            stream, lines = key.data
            data = os.read(key.fd, CHUNK)
            whole = lines.feed(data) if data else lines.end()
            if not data:
                self._sources.unregister(key.fileobj)
            if stream == STDERR:
                put(stream, [line for line in whole if self._belongs_in_a_log(line)])
            elif not self._logs.found:
                # Later on its stdout only repeats the first rank's file.
                put(stream, whole)
        return True

    def _belongs_in_a_log(self, line: bytes) -> bool:
        if self.failed is None and (found := FAILED.match(line)):
            self.failed = int(found[1])
        # The environment of the rank that failed, and the title of what is left out of stdout.
        return not line.startswith(b"env {") and b"ERROR LOG DETAIL" not in line


class Ranks:
    """Watches the launcher's ranks for one that a signal kills.

    The launcher looks each second. By then others have failed that had lost this one.
    """

    def __init__(self, launcher: int, found: Callable[[int], None]) -> None:
        self.killed: int | None = None  # the signal that ended the first of them
        self._found = found  # is told of each
        self._launcher = Path(f"/proc/{launcher}/task")
        self._ranks: dict[str, str] = {}

    def look(self) -> None:
        """Note who is new, and say so of the first that a signal has ended."""
        children: list[str] = []
        with contextlib.suppress(OSError):  # no /proc, or no such file in it
            for threads in self._launcher.glob("*/children"):
                children += threads.read_text().split()
        for process in children:
            with contextlib.suppress(OSError):  # just gone
                self._look_at(process)

    def _look_at(self, process: str) -> None:
        folder = Path("/proc", process)
        # What stands behind the name: the state first, the exit status last.
        state = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        number = int(state[-1]) & 0x7F
        rank = self._ranks.get(process)
        if rank is None:  # or the launcher's fork that is about to become one
            variables = (folder / "environ").read_bytes()
            if found := re.search(rb"(?:^|\0)PADDLE_TRAINER_ID=(\d+)", variables):
                self._ranks[process] = found[1].decode()
                self._found(int(process))
        elif self.killed is None and state[0] == b"Z" and number not in (0, signal.SIGTERM):
            self.killed = number
            name = signal.Signals(number).name
            line = f"rank {rank}: Signal {number} ({name}) received by PID {process}"
            put(STDERR, [f"paddle_launch.py: {line}\n".encode()])


def environment(
    given: Mapping[str, str], folder: Path, hostname: str | None = None
) -> dict[str, str]:
    """The launcher's environment: the given one, with what it would get wrong set right."""
    env = dict(given)
    env[MARK] = str(folder)
    env["PYTHONUNBUFFERED"] = "1"
    env.pop("PADDLE_LOG_DIR", None)  # it would overrule --log_dir
    if "POD_NAME" in env:  # which it replaces for the ranks by six letters of chance
        env["K8SBENCH_POD_NAME"] = env["POD_NAME"]
    # The launchers talk HTTP to each other, by a client that heeds every proxy variable.
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
    """Kill what is left of the job; again, as long as a fork can slip through between two looks."""
    until = time.monotonic() + 5.0
    while (left := members(mark)) and time.monotonic() < until:
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def guard(alive: int, writer: int, folder: Path) -> NoReturn:
    """Wait, as a process of its own, for the end of the other one; then tidy up after it."""
    os.setsid()  # whoever kills the other's process group shall not kill this one
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.close(writer)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # a reader of the other's output waits until nobody holds it
        os.dup2(null, stream)
    try:
        while os.read(alive, 1):
            pass
        kill_members(str(folder))
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)


def put(stream: int, lines: Sequence[bytes]) -> None:
    """Write lines out; a reader that has gone is no reason to let the job go on blindly."""
    data = memoryview(b"".join(lines))
    while data:
        data = data[os.write(stream, data) :]


def follow(launcher: subprocess.Popen[bytes], folder: Path, signals: Sequence[int]) -> int:
    """Pass all output on until the launcher has ended; the job's exit code on this node.

    `signals` grows when this process is told to stop.
    """
    logs = WorkerLogs(folder)
    own = OwnLines(launcher, logs)
    ranks = Ranks(launcher.pid, own.wake_at_the_end_of)
    deadline = float("inf")
    while launcher.poll() is None:
        if signals and deadline == float("inf"):
            deadline = time.monotonic() + GRACE
            launcher.terminate()  # once: to a second signal it answers by giving up its tidying
        if time.monotonic() > deadline:
            launcher.kill()
        logs.look()
        if own.failed is None and not signals:  # from then on the launcher itself ends them
            ranks.look()
        own.wait(TICK)
        put(STDOUT, logs.read())
    kill_members(str(folder))  # what it did not end itself, such as loader processes
    until = time.monotonic() + 1.0  # the end of its pipes, which a survivor might hold open
    while time.monotonic() < until and own.wait(TICK):
        pass
    put(STDOUT, logs.rest())
    if ranks.killed is not None:
        return -ranks.killed
    return launcher.returncode if own.failed is None else own.failed


def main(argv: Sequence[str] | None = None) -> int:
    """Run one node of a job; see the top of this file."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if not arguments or arguments[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    if not Path(arguments[0]).is_file():
        print(f"paddle_launch.py: error: no such script: {arguments[0]}", file=sys.stderr)
        return 2

    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: told.append(number))
    try:
        folder = Path(tempfile.mkdtemp(prefix="k8sbench-paddle-"))
    except OSError as error:
        print(f"paddle_launch.py: error: no folder for the ranks' logs: {error}", file=sys.stderr)
        return 2
    alive, writer = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        guard(alive, writer, folder)
    os.close(alive)
    try:
        command = [sys.executable, "-m", "paddle.distributed.launch", f"--log_dir={folder}"]
        # Its GPU log would run nvidia-smi every 5 s beside the measurement.
        command += ["--enable_gpu_log=False", *arguments]
        launcher = subprocess.Popen(
            command,
            env=environment(os.environ, folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # signals reach it through this process, and once
        )
        code = follow(launcher, folder, told)
    finally:
        os.close(writer)
        os.waitpid(watcher, 0)
    if told:
        return 128 + told[0]
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

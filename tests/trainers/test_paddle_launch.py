"""The container's entry point for Paddle: what comes out, what is left behind, how it ends."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from k8sbench.trainers import paddle_launch

LAUNCH = pathlib.Path(paddle_launch.__file__)
PATIENCE = 60.0
NOTED = b"NOTED_BY_TEST"


@dataclass
class Launched:
    """One running entry point, its private folder for temporary files, and its two streams."""

    process: subprocess.Popen[bytes]
    folder: pathlib.Path
    mark: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.mark = b"=".join((NOTED, os.fsencode(self.folder)))

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    @property
    def temporary(self) -> list[pathlib.Path]:
        return list((self.folder / "tmp").iterdir())

    def others(self) -> list[int]:
        """Every process of this job that is not the entry point itself."""
        found = []
        for path in pathlib.Path("/proc").glob("[1-9]*/environ"):
            try:
                if self.mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return [process for process in found if process != self.process.pid]

    def end(self) -> int:
        return self.process.wait(PATIENCE)


def until(true: Callable[[], bool]) -> None:
    """Wait for a condition; a test that waits in vain says so instead of hanging."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def launch(tmp_path: pathlib.Path) -> Iterator[Callable[..., Launched]]:
    """Start the entry point on a program text with two ranks; nothing of it outlives the test."""
    started: list[Launched] = []

    def start(program: str, *arguments: str, **environment: str) -> Launched:
        (tmp_path / "tmp").mkdir()
        script = tmp_path / "program.py"
        script.write_text("import os, sys\nrank = os.environ['PADDLE_TRAINER_ID']\n" + program)
        env = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(tmp_path / "tmp"),
            "PADDLE_NNODES": "1",
            "PADDLE_NPROC_PER_NODE": "2",
            "PADDLE_JOB_ID": "job",
            NOTED.decode(): str(tmp_path),
            **environment,
        }
        with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, str(LAUNCH), str(script), *arguments],
                env=env,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        started.append(Launched(process, tmp_path))
        return started[-1]

    yield start
    for job in started:
        job.process.kill()
        job.process.wait()
        for process in job.others():
            os.kill(process, signal.SIGKILL)


FOREVER = "print('up', rank, flush=True)\nimport time\ntime.sleep(3600)\n"


@pytest.mark.tier("frameworks")
def test_every_rank_shows_every_line_once(launch: Callable[..., Launched]) -> None:
    job = launch(
        "for number in range(3000): print('line', rank, number)\n"
        "sys.stdout.write(f'{rank} ends without a newline')\n"
    )
    assert job.end() == 0
    lines = job.out.splitlines()
    for rank in "01":
        assert [line for line in lines if line.startswith(f"line {rank} ")] == [
            f"line {rank} {number}" for number in range(3000)
        ]
        assert lines.count(f"{rank} ends without a newline") == 1
    assert "Pod completed" in job.err
    assert not job.temporary


@pytest.mark.tier("frameworks")
def test_a_failing_rank_shows_its_traceback_and_gives_its_code(
    launch: Callable[..., Launched],
) -> None:
    job = launch(
        "if rank == '1':\n    print('before')\n    sys.stderr.write('Traceback of 1\\n')\n"
        "    sys.exit(7)\n" + FOREVER,
        SECRET_TOKEN="hush",
    )
    assert job.end() == 7
    assert job.out.splitlines().count("Traceback of 1") == 1
    assert job.out.splitlines().count("up 0") == 1
    assert job.out.splitlines()[-1] == "paddle_launch.py: rank 1: exit code 7"
    assert "hush" not in job.out + job.err
    assert not job.others()
    assert not job.temporary


# The first rank fails because it has lost the second, and has more to say.
OUTLIVED = """
import pathlib, time
known = pathlib.Path(sys.argv[1], "known")
def is_up():
    try:
        return pathlib.Path("/proc", known.read_text(), "stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return not known.exists()
if rank == "1":
    print("up 1", flush=True)
    known.with_name("new").write_text(str(os.getpid()))
    known.with_name("new").rename(known)
    {end}
while is_up():
    time.sleep(0.01)
print("context\\n" * 200)
raise RuntimeError("connection reset by peer")
"""


@pytest.mark.tier("frameworks")
@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("raise ValueError('batch of 0')", 1, "exit code 1: ValueError: batch of 0"),
        ("sys.exit(5)", 5, "exit code 5"),
        ("os.kill(os.getpid(), 11)", 139, r"Signal 11 \(SIGSEGV\) received by PID \d+"),
        # Nobody told the entry point, nor did the launcher do it: it came from outside.
        ("os.kill(os.getpid(), 15)", 143, r"Signal 15 \(SIGTERM\) received by PID \d+"),
    ],
)
def test_the_rank_that_ended_first_has_the_last_error(
    launch: Callable[..., Launched], tmp_path: pathlib.Path, end: str, code: int, told: str
) -> None:
    job = launch(OUTLIVED.format(end=end), str(tmp_path))
    assert job.end() == code
    assert job.out.count("RuntimeError: connection reset by peer\n") == 1
    last = job.out.splitlines()[-1]
    assert re.fullmatch(rf"paddle_launch\.py: rank 1: {told}", last)
    assert "Container rank" not in job.err  # which would name the other one


# The test decides when the first of the ranks ends.
ENDED_UNSEEN = """
import pathlib, time
folder = pathlib.Path(sys.argv[1])
(folder / ("new" + rank)).write_text(str(os.getpid()))
(folder / ("new" + rank)).rename(folder / rank)
while not (folder / "now").exists():
    time.sleep(0.01)
if rank == "0":
    other = pathlib.Path("/proc", (folder / "1").read_text(), "stat")
    while {number} and other.read_text().split()[2] != "Z":
        time.sleep(0.01)
    raise RuntimeError("connection reset by peer")
if {number}:
    os.kill(os.getpid(), {number})
time.sleep(3600)
"""


@pytest.mark.tier("frameworks")
@pytest.mark.parametrize(
    ("number", "code", "told"),
    [
        (15, 143, "rank 1: Signal 15"),
        (9, 137, "rank 1: Signal 9"),
        (0, 1, "rank 0: exit code 1"),
    ],
    ids=["terminated from outside", "killed", "ended by the launcher"],
)
def test_the_rank_that_ended_first_is_named_where_all_was_over_before_it_was_seen(
    launch: Callable[..., Launched], tmp_path: pathlib.Path, number: int, code: int, told: str
) -> None:
    job = launch(ENDED_UNSEEN.format(number=number), str(tmp_path))
    until(lambda: all((tmp_path / rank).exists() for rank in "01"))
    job.process.send_signal(signal.SIGSTOP)  # as on a machine that is too busy to run it
    (tmp_path / "now").touch()
    until(lambda: len(job.others()) == 1)  # the guard
    job.process.send_signal(signal.SIGCONT)
    assert job.end() == code
    assert job.out.splitlines()[-1].startswith(f"paddle_launch.py: {told}")


@pytest.mark.tier("frameworks")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_whole_job_with_its_code(
    launch: Callable[..., Launched], number: signal.Signals
) -> None:
    job = launch(FOREVER)
    until(lambda: job.out.count("up") == 2)
    job.process.send_signal(number)
    assert job.end() == 128 + number
    assert "paddle_launch.py: rank" not in job.out + job.err  # no rank is to blame
    assert not job.others()
    assert not job.temporary


@pytest.mark.tier("frameworks")
def test_nothing_outlives_a_killed_entry_point(launch: Callable[..., Launched]) -> None:
    # A rank that ignores signals, with a child that left its session: the hardest to find.
    job = launch(
        "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen(['sleep', '3600'], start_new_session=True)\n" + FOREVER
    )
    until(lambda: job.out.count("up") == 2)
    assert len(job.others()) >= 6  # guard, launcher, two ranks, their two children
    os.killpg(job.process.pid, signal.SIGKILL)
    job.process.wait()
    until(lambda: not job.others())
    until(lambda: not job.temporary)


@pytest.mark.tier("frameworks")
def test_nothing_outlives_a_killed_launcher(launch: Callable[..., Launched]) -> None:
    job = launch("print('launcher', os.getppid(), flush=True)\n" + FOREVER)
    until(lambda: job.out.count("up") == 2)
    launcher = next(line for line in job.out.splitlines() if line.startswith("launcher"))
    os.kill(int(launcher.split()[1]), signal.SIGKILL)
    assert job.end() == 128 + signal.SIGKILL
    assert not job.others()
    assert not job.temporary


def test_wrong_usage_is_one_line_and_code_2(tmp_path: pathlib.Path) -> None:
    for arguments, said in (
        ([], "usage:"),
        (["--devices"], "usage:"),
        (["missing.py"], "no such script: ['missing.py']"),
    ):
        ended = subprocess.run(
            [sys.executable, "-I", str(LAUNCH), *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 2
        assert said in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


# Starts ranks 8 and 9 of a job, as Paddle's launcher does. The second ends as the second argument
# says, and the launcher goes on as the third one says.
LAUNCHER = """
import os, signal, subprocess, sys, time
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import paddle_launch
paddle_launch.Reporter(int(sys.argv[2])).install()
ranks = []
for local, end in enumerate(("signal.pause()", sys.argv[3])):
    env = os.environ | {"PADDLE_TRAINER_ID": str(8 + local), "PADDLE_RANK_IN_NODE": str(local)}
    command = [sys.executable, "-c", "import os, signal; " + end]
    ranks.append(subprocess.Popen(command, env=env, process_group=0))
exec(sys.argv[4])
ranks[0].kill()
for rank in ranks:
    rank.wait()
"""
# How the launcher itself learns of an end: woken by it, or by its own look once per second.
SEES = "while ranks[1].poll() is None: time.sleep(0.01)"
SLEEPS = "os.waitid(os.P_PID, ranks[1].pid, os.WEXITED | os.WNOWAIT)"
BLIND = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD]); " + SLEEPS


def reported(end: str, then: str) -> list[list[list[int | None]]]:
    """What a `Reporter` writes until its launcher has ended."""
    reports, report = os.pipe()
    with os.fdopen(reports, "rb") as reader:
        command = [sys.executable, "-c", LAUNCHER, str(LAUNCH), str(report), end, then]
        subprocess.run(command, pass_fds=(report,), check=True, timeout=PATIENCE)
        os.close(report)
        return [json.loads(line) for line in reader]


@pytest.mark.tier("linux")
@pytest.mark.parametrize(
    "then",
    [SEES, SLEEPS, f"{BLIND}; ranks[1].poll()"],
)
@pytest.mark.parametrize(
    ("end", "code"),
    [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", -9), ("os.kill(os.getpid(), 15)", -15)],
)
def test_a_rank_that_ends_badly_is_reported_once_however_the_launcher_sees_it(
    end: str, code: int, then: str
) -> None:
    first, second, ended = reported(end, then)
    (process,) = (one[2] for one in second)
    assert [one[:2] for one in first] == [[8, 0]]
    assert second == [[9, 1, process, None]]
    assert ended == [[9, 1, process, code]]


@pytest.mark.tier("linux")
def test_ends_are_reported_in_their_order() -> None:
    kill = "subprocess.run(['kill', '-9', str(ranks[0].pid)]); "
    *_, first, second = reported("os._exit(7)", SLEEPS + "; " + kill + SLEEPS.replace("1", "0"))
    assert [[one[0], one[3]] for one in first + second] == [[9, 7], [8, -9]]


@pytest.mark.tier("linux")
@pytest.mark.parametrize(
    ("end", "then"),
    [
        ("os._exit(0)", SEES),
        ("signal.pause()", "ranks[1].terminate(); ranks[1].wait()"),
        ("signal.pause()", "os.killpg(ranks[1].pid, 15); ranks[1].wait()"),
        # The other one has ended it, and it fails in its turn.
        ("signal.pause()", "ranks[0].terminate(); os.kill(ranks[1].pid, 11)"),
    ],
)
def test_an_end_without_an_error_or_by_the_launcher_is_not_reported(end: str, then: str) -> None:
    assert [one[3] for line in reported(end, then) for one in line] == [None, None]


@pytest.mark.tier("linux")
@pytest.mark.parametrize(
    ("reported", "last"),
    [
        (
            [[[8, 0, 70, None]], [[9, 1, 71, None]], [[9, 1, 71, 143]], [[8, 0, 70, -9]]],
            "rank 9: Signal 15 (SIGTERM) received by PID 71",
        ),
        ([[[8, 0, 70, None]]], "rank 8: exit code 3"),
        ([], "local rank 0: exit code 3"),
    ],
    ids=["the report counts", "the launcher's own line without one", "and without any report"],
)
def test_the_first_report_names_the_rank_and_else_the_launchers_line(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    reported: list[list[list[int | None]]],
    last: str,
) -> None:
    shown: list[bytes] = []
    monkeypatch.setattr(paddle_launch, "put", lambda _, lines: shown.extend(lines))
    reports, report = os.pipe()
    os.write(report, b"".join(json.dumps(one).encode() + b"\n" for one in reported))
    os.close(report)
    line = "Container rank 0 status failed cmd [] code 3 log x"
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", f"echo '{line}' >&2"], stdout=pipe, stderr=pipe) as launcher:
        paddle_launch.follow(launcher, reports, tmp_path, [])
    os.close(reports)
    assert shown[-1].decode() == f"paddle_launch.py: {last}\n"


@pytest.mark.parametrize(
    ("codes", "first"),
    [((1, -15, -9), 1), ((1, 1, -15), 2), ((1, 5, 1), 1), ((1, -6, -15), 2), ((1, 1, 1), 1)],
)
def test_of_ranks_that_are_found_dead_together_one_is_to_blame(
    tmp_path: pathlib.Path, codes: tuple[int, ...], first: int
) -> None:
    """The killed one; else the one that fell silent first: the others had to tell of its loss."""
    for local, at in enumerate((30, 10, 20)):
        log = tmp_path / f"workerlog.{local}"
        log.touch()
        os.utime(log, (at, at))
    logs = paddle_launch.WorkerLogs(tmp_path)
    logs.look()
    ended = [paddle_launch.Ending(f"rank {n}", n, code) for n, code in enumerate(codes)]
    assert paddle_launch.first_of(ended, logs) == ended[first]
    assert paddle_launch.first_of([], logs) is None


def test_lines_are_whole_however_they_arrive() -> None:
    lines = paddle_launch.Lines()
    assert lines.feed(b"on") == []
    assert lines.feed(b"e\ntwo\nthr") == [b"one\n", b"two\n"]
    assert lines.end() == [b"thr\n"]
    assert lines.end() == []


def test_the_first_rank_does_not_speak_before_those_it_has_heard(tmp_path: pathlib.Path) -> None:
    """Its summary is the job's last line, also where other ranks' lines lie in other files."""
    (tmp_path / "workerlog.0").write_bytes(b"0 begins\n")
    (tmp_path / "workerlog.1").write_bytes(b"1 begins\n")
    logs = paddle_launch.WorkerLogs(tmp_path)
    assert not logs.found
    logs.look()
    assert logs.found
    assert logs.read() == [b"1 begins\n", b"0 begins\n"]
    for name in ("workerlog.1", "workerlog.0"):
        with (tmp_path / name).open("ab") as log:
            log.write(b"end of " + name.encode())
    assert logs.read() == []
    assert sorted(logs.rest()) == [b"end of workerlog.0\n", b"end of workerlog.1\n"]
    assert logs.rest() == []


@pytest.mark.parametrize(
    ("said", "word"),
    [
        (b"Traceback:\n  x\nValueError: batch of 0\n", "ValueError: batch of 0"),
        (b"ValueError: 1\n\nDuring handling\nmine.Exception: 2\n", "mine.Exception: 2"),
        (b"usage: x\nx.py: error: no such option: -y\n", "x.py: error: no such option: -y"),
        (b"ValueError: 1" + b"\nC++ stack" * 90, "ValueError: 1"),
        (b"RuntimeError: " + b"x" * 5000, "RuntimeError: " + "x" * (1000 - 14)),
        (b'K8SBENCH {"event": "step"}\n', ""),  # a record must not come out twice
        (b"", ""),
    ],
)
def test_the_last_error_of_a_rank_is_found(tmp_path: pathlib.Path, said: bytes, word: str) -> None:
    (tmp_path / "workerlog.0").write_bytes(b"OSError: of another rank\n")
    (tmp_path / "workerlog.1").write_bytes(said)
    logs = paddle_launch.WorkerLogs(tmp_path)
    logs.rest()
    assert logs.last_error(1) == word
    assert logs.last_error(2) == ""


def test_a_rank_that_writes_without_pause_does_not_starve_the_others(
    tmp_path: pathlib.Path,
) -> None:
    for rank in range(2):
        (tmp_path / f"workerlog.{rank}").write_bytes(b"%d\n" % rank * 1000)
    logs = paddle_launch.WorkerLogs(tmp_path)
    logs.look()
    assert logs.read(most=4) == [b"1\n", b"1\n", b"0\n", b"0\n"]
    assert len(logs.rest()) == 2 * 1000 - 4


OPERATOR = {"PADDLE_JOB_ID": "dlv3.a", "PADDLE_NNODES": "4"}


@pytest.mark.parametrize(
    ("given", "hostname", "expected"),
    [
        (OPERATOR, "dlv3.a-worker-3", {"PADDLE_RANK": "3"}),
        (OPERATOR | {"PADDLE_RANK": "1"}, "dlv3.a-worker-3", {"PADDLE_RANK": "1"}),
        (OPERATOR | {"PADDLE_NNODES": "1"}, "dlv3.a-worker-0", {"PADDLE_RANK": None}),
        (OPERATOR, "dlv3xa-worker-3", {"PADDLE_RANK": None}),
        ({}, "-worker-3", {"PADDLE_RANK": None}),
        ({"POD_IP_DUMMY": "10.1.2.3"}, "h", {"POD_IP": "10.1.2.3"}),
        ({"POD_IP_DUMMY": "10.1.2.3", "POD_IP": "10.9.9.9"}, "h", {"POD_IP": "10.9.9.9"}),
        (
            {"CUDA_VISIBLE_DEVICES": ""},
            "h",
            {"CUDA_VISIBLE_DEVICES": None, "PADDLE_DISTRI_BACKEND": "gloo"},
        ),
        (
            {"CUDA_VISIBLE_DEVICES": "0,1"},
            "h",
            {"CUDA_VISIBLE_DEVICES": "0,1", "PADDLE_DISTRI_BACKEND": None},
        ),
        ({}, "h", {"NO_PROXY": "*"}),
        ({"POD_NAME": "p"}, "h", {"K8SBENCH_POD_NAME": "p"}),
    ],
)
def test_the_launcher_gets_an_environment_that_it_reads_rightly(
    given: dict[str, str], hostname: str, expected: dict[str, str | None]
) -> None:
    made = paddle_launch.environment(given, pathlib.Path("/folder"), hostname)
    assert {name: made.get(name) for name in expected} == expected
    assert made[paddle_launch.MARK] == "/folder"

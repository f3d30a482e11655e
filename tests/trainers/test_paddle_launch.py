"""Paddle's entry point in containers: output, remains and exit."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from k8sbench.trainers import paddle_launch
from tests.trainers.runs import marked

LAUNCH = pathlib.Path(paddle_launch.__file__)
PATIENCE = 60.0
NOTED = "NOTED_BY_TEST"
linux = pytest.mark.tier("linux")


@dataclass(frozen=True)
class Launched:
    """One running entry point and its two streams."""

    process: subprocess.Popen[bytes]
    folder: pathlib.Path

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def others(self) -> list[int]:
        """Every process of this job that is not the entry point itself."""
        found = marked(NOTED, str(self.folder))
        return [process for process, _ in found if process != self.process.pid]

    def end(self) -> int:
        return self.process.wait(PATIENCE)


Launch = Callable[..., Launched]


def until(true: Callable[[], bool]) -> None:
    """Wait for a condition, or fail after a time limit."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


# Of every program: each rank tells its number by a file.
BEGIN = f"""
import os, pathlib, signal, sys, time
rank, here = os.environ["PADDLE_TRAINER_ID"], pathlib.Path(os.environ["{NOTED}"])

def wait(true):
    while not true():
        time.sleep(0.01)

def has_ended(other):
    try:
        stat = pathlib.Path("/proc", (here / other).read_text(), "stat").read_text()
    except FileNotFoundError:
        return True
    return stat.split()[2] == "Z"

def begin():
    (here / ("new" + rank)).write_text(str(os.getpid()))
    (here / ("new" + rank)).rename(here / rank)
    wait((here / "1").exists)
"""
FOREVER = "print('up', rank, flush=True)\ntime.sleep(3600)\n"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


@pytest.fixture
def launch(tmp_path: pathlib.Path) -> Iterator[Launch]:
    """Start the entry point on a program with two ranks; clean up afterwards."""
    started: list[Launched] = []

    def start(
        program: str, *, entry: Sequence[str] = (str(LAUNCH),), **environment: str
    ) -> Launched:
        script = tmp_path / "program.py"
        script.write_text(BEGIN + program)
        env = {
            "PATH": os.environ["PATH"],
            "PADDLE_NNODES": "1",
            "PADDLE_NPROC_PER_NODE": "2",
            "PYTHONPATH": str(LAUNCH.parent),
            NOTED: str(tmp_path),
            **environment,
        }
        command = [sys.executable, *entry, str(script)]
        with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
            process = subprocess.Popen(
                command, env=env, stdout=out, stderr=err, start_new_session=True
            )
        started.append(Launched(process, tmp_path))
        return started[-1]

    yield start
    for job in started:
        job.process.kill()
        job.process.wait()
        for process in job.others():
            os.kill(process, signal.SIGKILL)


@linux
def test_every_rank_shows_every_line_once(launch: Launch) -> None:
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
    assert job.err == ""


# The first rank fails because it has lost the second, and has more to say before it is ended.
OUTLIVED = """
if rank == "0":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
begin()
if rank == "1":
    wait((here / "0").exists)
    print("up 1", flush=True)
    {end}
wait(lambda: has_ended("1"))
print("context\\n" * 200)
raise RuntimeError("connection reset by peer")
"""


@linux
@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("raise ValueError('batch of 0')", 1, "exit code 1: ValueError: batch of 0"),
        ("sys.exit(5)", 5, "exit code 5"),
        ("os.kill(os.getpid(), 11)", 139, r"Signal 11 \(SIGSEGV\) received by PID \d+"),
        # Nobody told the entry point: it came from outside.
        ("os.kill(os.getpid(), 15)", 143, r"Signal 15 \(SIGTERM\) received by PID \d+"),
    ],
)
def test_the_first_end_has_the_last_error(launch: Launch, end: str, code: int, told: str) -> None:
    job = launch(OUTLIVED.format(end=end), SECRET_TOKEN="hush")
    assert job.end() == code
    for text in ("up 1\n", "RuntimeError: connection reset by peer\n"):
        assert job.out.count(text) == 1
    last = job.out.splitlines()[-1]
    assert re.fullmatch(rf"paddle_launch\.py: rank 1: {told}", last)
    assert re.fullmatch(r"paddle_launch\.py: rank 1: .*\n", job.err)
    assert "hush" not in job.out + job.err
    assert not job.others()


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_whole_job_with_its_code(launch: Launch, number: signal.Signals) -> None:
    job = launch(FOREVER)
    until(lambda: job.out.count("up") == 2)
    job.process.send_signal(number)
    assert job.end() == 128 + number
    assert "paddle_launch.py: rank" not in job.out + job.err  # no rank is to blame
    assert not job.others()


@linux
def test_a_job_ends_although_a_rank_ignores_signals_and_has_children(launch: Launch) -> None:
    job = launch(
        DEAF + "import subprocess\nsubprocess.Popen(['sleep', '3600'])\n" + FOREVER,
        entry=("-c", "import paddle_launch as p; p.GRACE = 0.2; raise SystemExit(p.main())"),
    )
    until(lambda: job.out.count("up") == 2)
    assert len(job.others()) == 4  # two ranks, and a child of each
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 128 + signal.SIGTERM
    until(lambda: not job.others())


ELSEWHERE = {"PADDLE_NNODES": "2", "PADDLE_RANK": "1", "PADDLE_MASTER": "j-worker-0:1"}
# The name server knows a pod's name once the pod is ready.
NAMED = """
import pathlib, socket, paddle_launch
def known(host, port):
    if host != "j-worker-0" or not pathlib.Path({ready!r}).exists():
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
socket.getaddrinfo = known
raise SystemExit(paddle_launch.main())
"""


@linux
@pytest.mark.parametrize("becomes_ready", [True, False])
def test_ranks_wait_for_a_name(launch: Launch, tmp_path: pathlib.Path, becomes_ready: bool) -> None:
    ready = tmp_path / "ready"
    job = launch("print('up', rank)", entry=("-c", NAMED.format(ready=str(ready))), **ELSEWHERE)
    until(lambda: "waiting for j-worker-0 to resolve" in job.err)
    assert not job.others()
    if becomes_ready:
        ready.touch()
        assert job.end() == 0
        assert sorted(job.out.splitlines()) == ["up 2", "up 3"]
    else:
        job.process.send_signal(signal.SIGTERM)
        assert (job.end(), job.out) == (128 + signal.SIGTERM, "")
    assert job.err.count("\n") == 1


@linux
def test_no_rank_outlives_a_killed_entry_point(launch: Launch) -> None:
    job = launch(DEAF + FOREVER)
    until(lambda: job.out.count("up") == 2)
    assert len(job.others()) == 2
    os.killpg(job.process.pid, signal.SIGKILL)
    job.process.wait()
    until(lambda: not job.others())


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
def test_the_last_error_of_a_rank_is_found(said: bytes, word: str) -> None:
    lines = paddle_launch.RankLines()
    lines.feed(said)
    lines.end()
    assert lines.last_error == word


OPERATOR = {
    "PADDLE_JOB_ID": "dlv3.a",
    "PADDLE_NNODES": "4",
    "PADDLE_NPROC_PER_NODE": "8",
    "PADDLE_MASTER": "dlv3.a-worker-0:36543",
}


@pytest.mark.parametrize(
    ("given", "hostname", "expected"),
    [
        ({}, "dlv3.a-worker-3", (24, 8, 32, "dlv3.a-worker-0:36543")),
        # On its node's network a pod has its node's host name.
        ({"POD_NAME": "dlv3.a-worker-3"}, "gpu-7", (24, 8, 32, "dlv3.a-worker-0:36543")),
        ({"PADDLE_RANK": "1"}, "dlv3.a-worker-3", (8, 8, 32, "dlv3.a-worker-0:36543")),
        # The port may be another job's where the node's network is used.
        ({"PADDLE_NNODES": "1"}, "dlv3.a-worker-0", (0, 8, 8, None)),
        ({}, "dlv3xa-worker-3", "set PADDLE_RANK"),
        ({}, "dlv3.a-worker-4", "node 4 of 4"),
        ({"PADDLE_NPROC_PER_NODE": "0"}, "h", "PADDLE_NPROC_PER_NODE is '0'"),
    ],
)
def test_the_operators_variables_say_which_ranks_a_node_has(
    given: dict[str, str],
    hostname: str,
    expected: tuple[object, ...] | str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if isinstance(expected, tuple):
        assert paddle_launch.place(OPERATOR | given, hostname) == expected
        return
    with pytest.raises(SystemExit) as ended:
        paddle_launch.place(OPERATOR | given, hostname)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("gpus", [True, False])
def test_a_rank_finds_the_variables_of_paddles_launcher(gpus: bool) -> None:
    at = paddle_launch.NodePlace(first=8, here=8, of=16, master=None)
    made = paddle_launch.environment({"KEPT": "1"}, at, 3, "m:1", gpus=gpus)
    assert made.pop("FLAGS_selected_gpus", None) == ("3" if gpus else None)
    assert made.pop("PADDLE_DISTRI_BACKEND", None) == (None if gpus else "gloo")
    assert made.pop("PADDLE_CURRENT_ENDPOINT")
    assert made == {
        "KEPT": "1",
        "PYTHONUNBUFFERED": "1",
        "PADDLE_MASTER": "m:1",
        "PADDLE_TRAINER_ID": "11",
        "PADDLE_TRAINERS_NUM": "16",
        "PADDLE_RANK_IN_NODE": "3",
        "PADDLE_LOCAL_SIZE": "8",
    }

"""One sentence on why a job failed: the right replica, the telling line.

Each row is what the replicas wrote, and what is said of it.
"""

import pytest

from k8sbench.diagnose.job import exits
from k8sbench.diagnose.job.exits import Ended
from tests.unit.local.exits import torchrun

TRACEBACK = """
[rank1]: Traceback (most recent call last):
[rank1]:   File "/x/little.py", line 3, in <module>
[rank1]:     main()
[rank1]: ValueError: batch of 0
""".strip().split("\n")


LOST_PEER = ["[rank0]: RuntimeError: [../gloo/tcp/pair.cc:534] Connection closed by peer [::1]:7"]
LOST_PEER_PADDLE = [
    "RuntimeError: [/paddle/gloo/tcp/pair.cc:598] Connection closed by peer [::1]:7"
]
TIMED_OUT_PADDLE = [
    "RuntimeError: [/paddle/gloo/tcp/pair.cc:587] TIMEOUT self_rank = 0 pair_rank = 1"
]
STOPPED = [
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 14 got signal: 15"
]


REFUSAL = "k8sbench: error: --data /data: /data/train: No such file or directory"
FAILS = "k8sbench: failed: 3 samples cannot be read"
ARGUMENT = "argument --size: must be a whole number of at least 16"
CLOSING = [
    "W1120 api.py:9] Sending process 1000 closing signal SIGTERM",
    "W1120 api.py:9] Unable to shutdown process 1000 via Signals.SIGTERM, forcefully exiting",
]
BY_SEGV = "was killed by signal 11 (SIGSEGV)."
BY_TERM = "was ended by signal 15 (SIGTERM), not by its launcher."
MAYBE = "was killed by signal 9 (SIGKILL): it was possibly out of memory."


def paddle(rank: int, how: str) -> str:
    return f"paddle_launch.py: rank {rank}: {how}"


def signalled(rank: int, name: str) -> str:
    return paddle(rank, f"Signal {name} received by PID 77")


def ended(replica: str, code: int | None, *last: str) -> Ended:
    return Ended(replica=replica, code=code, last=last)


def torch_1(how: str) -> list[str]:
    """Return the last lines of torch 1.x's launcher."""
    words = "['/opt/conda/bin/python', '-u', 'tools/train.py', '--local_rank=0']"
    return [
        "Traceback (most recent call last):",
        '  File "/opt/conda/lib/python3.6/runpy.py", line 193, in _run_module_as_main',
        "    cmd=cmd)",
        f"subprocess.CalledProcessError: Command '{words}' {how}.",
    ]


NCCL_FILE = "E1120 15:00:01.1 ProcessGroupNCCL.cpp"
FRAMES = [
    "Exception raised from checkTimeout at ../ProcessGroupNCCL.cpp:629 (most recent call first):",
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in /x/libc10.so)",
    "[default0]:[rank0]:frame #1: clone + 0x43 (0x15 in /lib/libc.so.6)",
    "",
]


def watched(rank: int, error: str, name: str = "PG ID 0 PG GUID 0(default_pg) Rank") -> list[str]:
    """Return what a watchdog of torch writes when it aborts its rank."""
    dies = f"Process group watchdog thread terminated with exception: {error}"
    return [
        f"[rank{rank}]:[{NCCL_FILE}:1414] [{name} {rank}] {dies}",
        *FRAMES,
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        f"  what():  [{name} {rank}] {dies}",
        *FRAMES,
    ]


def timed_out(rank: int, work: str = "NumelIn=9, NumelOut=9, Timeout(ms)=600000") -> list[str]:
    """Return what it writes of a collective that did not end."""
    error = (
        f"[Rank {rank}] Watchdog caught collective operation timeout:"
        f" WorkNCCL(SeqNum=8, OpType=ALLREDUCE, {work})"
    )
    first = f"[rank{rank}]:[{NCCL_FILE}:616] {error} ran for 600020 milliseconds before timing out."
    return [first, *watched(rank, error)]


ECC = "CUDA error: uncorrectable ECC error encountered"
UNREACHABLE = "Call to ibv_modify_qp failed with error Network is unreachable"
VAGUE = "ncclSystemError: System call (e.g. socket, malloc) or external library call failed."
NCCL_WARN = f"w:56:120 [0] misc/ibvwrap.cc:187 NCCL WARN {UNREACHABLE}"


def nccl(*last: str, rank: int = 8) -> list[str]:
    """Return torch's error of NCCL with NCCL's own after it."""
    error = "torch.distributed.DistBackendError: NCCL error in: x.cpp:1970, unhandled system error"
    return [f"[rank{rank}]: {line}" for line in (error, VAGUE, *last)]


LOST_BY_NCCL = nccl("Last error:", "socketProgress: Connection closed by remote peer w<4>", rank=0)
BUS_ERROR = "RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. It is possible"
GONE = "RuntimeError: DataLoader worker (pid(s) 9) exited unexpectedly"
PADDLE_BUS_ERROR = [
    "SystemError: (Fatal) DataLoader process (pid   1. If run DataLoader, set",
    "  It may be caused by insufficient shared storage space. This problem usually occurs",
    "  Please use command `df -h` to check the storage space of `/dev/shm`.",
    "Bus error (at /paddle/paddle/fluid/imperative/data_loader.cc:183)",
]
FAULT = [
    "Fatal Python error: Segmentation fault",
    "",
    "Thread 0x00007f0c (most recent call first):",
    '  File "/x/train.py", line 7 in step',
    "",
    "Extension modules: numpy.core, torch._C (total: 20)",
]
READ_ONLY = "OSError: [Errno 30] Read-only file system: './work_dirs/deeplabv3plus'"
COMPILER = (
    "subprocess.CalledProcessError: Command '['nvcc', '-V']' returned non-zero exit status 1."
)
STATUS_1, BY_SIGKILL = torch_1("returned non-zero exit status 1"), torch_1("died with <Signals.9>")
NO_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 16 GiB"
TORCH_NO_MEMORY = f"torch.OutOfMemoryError: {NO_MEMORY}"
PADDLE_SAYS = "Out of memory error on GPU 0. Cannot allocate 3.125000GB memory on GPU 0"
PADDLE_NO_MEMORY = [
    *("MemoryError: ", "", "----------------------", "Error Message Summary:"),
    *("----------------------", "ResourceExhaustedError: ", "", f"{PADDLE_SAYS}.", ""),
    "2. If no, please decrease the batch size of your model. ",
    *(" (at ../paddle/phi/core/memory/allocation/cuda_allocator.cc:84)", ""),
]
NO_GPU_MEMORY = "gpu-out-of-memory: w exited with code 1: "
FIRST = "replica-failed: w exited with code 1: [rank1]: ValueError: batch of 0"
BY_CODE = "replica-failed: rank 1 of w exited with code 5."
GLOG = "F0302 10:00:00 1 foo.cc:12] Check failed: x == y (1 vs 2)"
ABORTED = "replica-failed: w was killed by signal 6 (SIGABRT)"
SEGV = "replica-failed: w was killed by signal 11 (SIGSEGV)"
WORKER_KILLED = "RuntimeError: DataLoader worker (pid 9) is killed by signal: Killed."
KILLED = f"oom: w {MAYBE} Its last line: step 3"
LOST = ["step 7", *LOST_PEER_PADDLE]


@pytest.mark.parametrize(
    ("code", "lines", "told"),
    [
        # The last line says why, and silence is said as such.
        (1, ["step 1", "boom", ""], "replica-failed: w exited with code 1: boom"),
        (3, [], "replica-failed: w exited with code 3."),
        # A code above 128 is a signal's, as far as there are signals.
        (139, ["x"], "replica-failed: w was killed by signal 11 (SIGSEGV): x"),
        *(
            (code, ["x"], f"replica-failed: w exited with code {code}: x")
            for code in (1, 127, 128, 255)
        ),
        (2, ["no such option"], "usage-error: w exited with code 2: no such option"),
        (137, ["step 3"], KILLED),
        # A launcher's table does not hide the trainer's error.
        (1, [*TRACEBACK, *torchrun((1, 1))], FIRST),
        *(
            (1, [*TRACEBACK[:3], told, *STATUS_1], f"replica-failed: w exited with code 1: {told}")
            for told in (READ_ONLY, COMPILER)
        ),
        (1, [READ_ONLY, *BY_SIGKILL], f"replica-failed: w exited with code 1: {BY_SIGKILL[-1]}"),
        (1, STATUS_1, f"replica-failed: w exited with code 1: {STATUS_1[-1]}"),
        # Of several ranks the one that was killed is named, and not the survivors' line.
        *(
            (128 + number, ["x", signalled(3, said), *TIMED_OUT_PADDLE, signalled(3, said)], told)
            for number, said, told in (
                (9, "9 (SIGKILL)", f"oom: rank 3 of w {MAYBE}"),
                (11, "11 (SIGSEGV)", f"replica-failed: rank 3 of w {BY_SEGV}"),
                (15, "15 (SIGTERM)", f"replica-failed: rank 3 of w {BY_TERM}"),
                (35, "35", "replica-failed: rank 3 of w was killed by signal 35."),
            )
        ),
        (1, [*LOST, *torchrun((2, 143), (3, -9), ends=(2,))], f"oom: rank 3 of w {MAYBE}"),
        # A rank that answers SIGTERM by an exit code was ended by it all the same.
        *(
            (1, [*LOST, *report], f"replica-failed: rank 3 of w {BY_TERM}")
            for report in (
                torchrun((2, 143), (3, -15), ends=(2,)),
                ["k8sbench: ended by SIGTERM", *torchrun((2, 1), (3, 143))],
            )
        ),
        # Both were dead at the same look: torchrun's root cause is then the lower one.
        (1, [*LOST_PEER, *torchrun((1, -9), (0, 1))], f"oom: rank 1 of w {MAYBE}"),
        # A rank that torchrun killed itself is not to blame, nor those that a watchdog aborts.
        (1, [*CLOSING, *torchrun((0, -9), (1, 5))], BY_CODE),
        (
            1,
            torchrun((0, -6), (1, -6), (2, -11), (3, -6)),
            f"replica-failed: rank 2 of w {BY_SEGV}",
        ),
        # Of several ranks' errors the one that came first; of one without a word, its code.
        (1, [*TRACEBACK, *LOST_PEER, *torchrun((0, 143), (1, 1), ends=(0,))], FIRST),
        (1, [*TRACEBACK, *LOST_PEER, *torchrun((1, 1), (0, 1))], FIRST),
        # It had its error, and still ran when its peer, which had lost it, was dead.
        (1, [*TRACEBACK, *LOST_PEER, *torchrun((1, 143), (0, 1), ends=(1,))], FIRST),
        # Trainers of ours print their tracebacks themselves, without a rank.
        (1, [TRACEBACK[-1][9:], *LOST, *torchrun((0, 143), (1, 1), ends=(0,))], FIRST),
        (1, [*LOST, paddle(1, "exit code 1: ValueError: batch of 0")], FIRST),
        (5, [*LOST_PEER_PADDLE, paddle(1, "exit code 5")], BY_CODE),
        (1, [*LOST_PEER, *torchrun((0, 143), (1, 5), ends=(0,))], BY_CODE),
        (1, torchrun((0, 3), (1, 5)), BY_CODE),
        (1, [*torchrun((2, -9)), *torchrun((1, 5))], BY_CODE),
        # The report of an earlier try does not explain another end.
        (137, [paddle(1, "exit code 7"), "step 3"], KILLED),
        (137, [*torchrun((1, -11)), "step 3"], KILLED),
        # What a command line refuses, as argparse names a file and a module.
        *(
            (code, lines, f"usage-error: w exited with code {code}: [rank1]: {refused}")
            for program in ("arcface.py", "python -m k8sbench.trainers.arcface", "./train.py eval")
            for refused in (f"{program}: error: {ARGUMENT}",)
            for code, lines in (
                (1, [f"usage: {program} [-h]", refused, *torchrun((1, 2))]),
                (2, [refused, "LAUNCH INFO Exit code 2", paddle(1, f"exit code 2: {refused}")]),
            )
        ),
        (1, [REFUSAL], f"replica-failed: w exited with code 1: {REFUSAL}"),  # of others
        (1, torchrun((0, 2)), "usage-error: rank 0 of w exited with code 2."),
        (
            1,
            [FAILS, "bye", *torchrun((0, 1))],
            f"replica-failed: w exited with code 1: [rank0]: {FAILS}",
        ),
        # Lack of GPU memory has an id of its own, whatever its launcher's code is.
        (1, [TORCH_NO_MEMORY], f"{NO_GPU_MEMORY}{TORCH_NO_MEMORY}"),
        (1, [f"RuntimeError: {NO_MEMORY}", *STATUS_1], f"{NO_GPU_MEMORY}RuntimeError: {NO_MEMORY}"),
        (
            1,
            [f"[rank1]: {TORCH_NO_MEMORY}", *LOST_PEER, *torchrun((0, 143), (1, 1), ends=(0,))],
            f"{NO_GPU_MEMORY}[rank1]: {TORCH_NO_MEMORY}",
        ),
        (
            134,
            ["terminate called after throwing 'c10::Error'", f"  what():  {NO_MEMORY}", "Aborted"],
            f"gpu-out-of-memory: w was killed by signal 6 (SIGABRT): what():  {NO_MEMORY}",
        ),
        (1, PADDLE_NO_MEMORY, f"{NO_GPU_MEMORY}{PADDLE_SAYS}."),
        (
            1,
            [*PADDLE_NO_MEMORY, *LOST_PEER_PADDLE, paddle(1, f"exit code 1: {PADDLE_SAYS}.")],
            f"{NO_GPU_MEMORY}[rank1]: {PADDLE_SAYS}.",
        ),
        (134, FRAMES, f"{ABORTED}."),
        (134, [GLOG, "*** Check failure stack trace: ***", "  @  0x7f  x"], f"{ABORTED}: {GLOG}"),
        (139, FAULT, f"{SEGV}: {FAULT[0]}"),
        (134, watched(3, ECC), f"{ABORTED}: [rank3]: {ECC}"),
        (134, watched(3, ECC)[-5:], f"{ABORTED}: [rank3]: {ECC}"),
        # Both were aborted: the one with an error of its own is named.
        (
            1,
            [*timed_out(0), *watched(3, ECC), *torchrun((3, -6), (0, -6))],
            f"replica-failed: rank 3 of w was killed by signal 6 (SIGABRT): {ECC}",
        ),
        # NCCL's own error, of the rank that wrote it, else its warning.
        *(
            (1, lines, f"replica-failed: w exited with code 1: {told}")
            for lines, told in (
                (nccl("Last error:", UNREACHABLE), f"[rank8]: NCCL: {UNREACHABLE}"),
                ([NCCL_WARN, *nccl("Last error:")], f"[rank8]: NCCL: {UNREACHABLE}"),
                (
                    [f"[default0]:{line}" for line in nccl("Last error:", UNREACHABLE)],
                    f"[default0]:[rank8]: NCCL: {UNREACHABLE}",
                ),
                (nccl(f"Last error: {UNREACHABLE}"), f"[rank8]: NCCL: {UNREACHABLE}"),
                ([NCCL_WARN, *nccl()], f"[rank8]: NCCL: {UNREACHABLE}"),
                (
                    [*nccl("Last error:"), "[rank9]: bye", f"[rank8]: {UNREACHABLE}"],
                    f"[rank8]: NCCL: {UNREACHABLE}",
                ),
                ([NCCL_WARN, " .. w pid 5: Test failure common.cu:891"], f"NCCL: {UNREACHABLE}"),
            )
        ),
        (
            1,
            nccl("Last error:", "Cuda failure 2 'out of memory'"),
            f"{NO_GPU_MEMORY}[rank8]: NCCL: Cuda failure 2 'out of memory'",
        ),
        # Of another program "Last error:" is a line as any other.
        (1, ["Last error: none", "bye"], "replica-failed: w exited with code 1: bye"),
        # A loader's worker that was killed goes before what its end has led to.
        (1, [BUS_ERROR, GONE], f"replica-failed: w exited with code 1: {BUS_ERROR}"),
        (
            1,
            [f"[rank1]: {BUS_ERROR}", f"[rank1]: {GONE}", *torchrun((1, 1))],
            f"replica-failed: w exited with code 1: [rank1]: {BUS_ERROR}",
        ),
        (1, PADDLE_BUS_ERROR, f"replica-failed: w exited with code 1: {PADDLE_BUS_ERROR[1][2:]}"),
        (1, [WORKER_KILLED, GONE], f"oom: w exited with code 1: {WORKER_KILLED}"),
        # One that was met and got over is not the cause.
        (1, [NO_MEMORY, "ValueError: x"], "replica-failed: w exited with code 1: ValueError: x"),
    ],
)
def test_the_end_of_one_replica_has_its_cause(code: int, lines: list[str], told: str) -> None:
    failure = exits.cause(ended("w", code, *lines), [ended("w0", None, *TRACEBACK)])
    assert (failure.replica, f"{failure.id}: {failure.sentence}") == ("w", told)


@pytest.mark.parametrize(
    ("first", "others", "replica"),
    [
        # A replica that lost its peer is not the one that failed.
        *(
            ([*lost, *torchrun((0, 1))], [TRACEBACK], "w0")
            for lost in (LOST_PEER, LOST_PEER_PADDLE, TIMED_OUT_PADDLE)
        ),
        (LOST_PEER, [["api.py:882] failed (exitcode: -9) local_rank: 0 (pid: 1) of x"]], "w0"),
        # Where nobody else complains the first stays named; being stopped is no error.
        (LOST_PEER, [["step 7"], LOST_PEER], "master"),
        (LOST_PEER, [STOPPED], "master"),
        (["ValueError: mine"], [TRACEBACK], "master"),
        # A rank of another replica is found by its launcher's words.
        *(
            (
                [*LOST_PEER_PADDLE, paddle(0, f"exit code 1: {LOST_PEER_PADDLE[0]}")],
                [[*LOST_PEER_PADDLE, *reported]],
                "w0",
            )
            for reported in (
                [signalled(3, "15 (SIGTERM)")],
                [paddle(3, "exit code 1: ValueError: batch of 0")],
                torchrun((2, 143), (3, -11), ends=(2,)),
                torchrun((2, 1), (3, 143)),
            )
        ),
        ([*LOST_PEER, *torchrun((0, 1))], [[REFUSAL]], "w0"),
    ],
)
def test_one_of_several_is_named(first: list[str], others: list[list[str]], replica: str) -> None:
    rest = [ended(f"w{number}", None, *lines) for number, lines in enumerate(others)]
    failure = exits.cause(ended("master", 1, *first), rest)
    assert failure.replica == replica
    assert replica in failure.sentence


@pytest.mark.parametrize(
    ("code", "lines", "told"),
    [
        # A watchdog's timeout, whatever stands around it; frames of a stack are no message.
        *(
            (134, lines, f"{ABORTED}: [rank0]: the collective ALLREDUCE timed out on rank 0{after}")
            for lines, after in (
                (timed_out(0), " after 600 s"),
                (timed_out(0, "Timeout(ms)=1800000")[:1], " after 600 s"),
                (timed_out(0, "Timeout(ms)=1800000")[1:], " after 1800 s"),
                (timed_out(0, "")[1:], ""),
                (timed_out(0)[0].split("]:", 1)[1:], " after 600 s"),  # torch 1.13
            )
        ),
        (1, nccl(), f"replica-failed: w exited with code 1: [rank8]: {VAGUE}"),
    ],
)
def test_an_error_by_another_rank_is_told_where_no_other_replica_has_one(
    code: int, lines: list[str], told: str
) -> None:
    failure = exits.cause(ended("w", code, *lines), [ended("w0", None)])
    assert f"{failure.id}: {failure.sentence}" == told


@pytest.mark.parametrize(
    ("first", "others", "replica"),
    [
        # An error of a GPU or of NCCL in another replica, which ended later, is the cause.
        (timed_out(0), {"w0": watched(8, ECC)}, "w0"),
        (timed_out(0), {"w0": timed_out(8), "w1": [f"[rank16]: RuntimeError: {ECC}"]}, "w1"),
        ([*timed_out(0), *torchrun((0, -6))], {"w0": [*watched(8, ECC), *torchrun((8, -6))]}, "w0"),
        (timed_out(0), {"w0": nccl("Last error:", UNREACHABLE)}, "w0"),
        (LOST_BY_NCCL, {"w0": nccl("Last error:", UNREACHABLE)}, "w0"),
        (nccl("Last error:", UNREACHABLE), {"w0": LOST_BY_NCCL}, "master"),
        (timed_out(0), {"w0": timed_out(8)}, "master"),
        (watched(0, ECC), {"w0": timed_out(8)}, "master"),
    ],
)
def test_a_rank_that_waited_in_vain_is_not_to_blame(
    first: list[str], others: dict[str, list[str]], replica: str
) -> None:
    for code in (134, 1):
        rest = [ended(name, 134, *lines) for name, lines in others.items()]
        assert exits.cause(ended("master", code, *first), rest).replica == replica


@pytest.mark.parametrize("code", [139, 137])
@pytest.mark.parametrize("lost", [LOST_PEER, LOST_BY_NCCL, timed_out(0)])
def test_a_peer_that_a_signal_killed_soon_is_the_cause(lost: list[str], code: int) -> None:
    first, other = ended("master", 1, *lost), ended("w0", code, "step 7")
    assert exits.cause(first, [other]).replica == "w0"
    assert exits.cause(first, [ended("w1", 1, *TRACEBACK), other]).replica == "w1"
    later = Ended(replica="w0", code=code, last=["step 7"], is_soon=False)
    for stays in (later, ended("w0", 134, "step 7"), ended("w0", 143, "step 7")):
        assert exits.cause(first, [stays]).replica == "master"


@pytest.mark.parametrize(
    "follows",
    [
        nccl("Last error:", "NET/IB: Got completion from peer 10.0.0.2<4> with status=12", rank=0),
        ["ncclRemoteError: A call failed possibly due to a remote process exiting prematurely."],
        ["[rank0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0. "],
        ["[rank0]: RuntimeError: [Rank 0]: Ranks 8 failed to pass monitoredBarrier in 1800000 ms"],
        ["[rank0]: torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /0"],
        ["torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients. 1/2"],
        ["jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: x"],
        ["F0302 client.h:80] Terminating process. This indicates that another task died; see"],
    ],
)
def test_an_own_error_of_another_goes_before_one_that_follows(follows: list[str]) -> None:
    rest = [ended("w0", 1, "[rank8]: KeyError: 'x'")]
    for code in (134, 1):
        assert exits.cause(ended("master", code, *follows), rest).replica == "w0"


HANGS = "hangs in step 7: no rank has done anything for 300 s"
ABSENT = "has not come: no rank has done anything for 300 s"
CLIENTS = (
    "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 1/2 clients"
    " joined."
)


@pytest.mark.parametrize(
    ("first", "others", "told"),
    [
        # The watch of rank 0 names the rank for which the others wait; it is in another replica.
        (
            [f"k8sbench: failed: rank 9 of 16 {HANGS}", *LOST_PEER, *torchrun((0, 1))],
            {"worker-1": [], "worker-0": torchrun((9, -9))},
            ("worker-0", f"rank 9 of worker-0 {HANGS}."),
        ),
        # It was killed: that its replica ended first is no cause of its own.
        (
            [*LOST_PEER, *torchrun((0, -9))],
            {"worker-0": [f"k8sbench: failed: rank 0 of 2 {HANGS}"]},
            ("master-0", f"rank 0 of master-0 {HANGS}."),
        ),
        (
            [f"k8sbench: failed: rank 8 of 16 (and 7 more) {ABSENT}", paddle(0, "exit code 1")],
            {"worker-0": []},
            ("worker-0", f"rank 8 of worker-0 (and 7 more) {ABSENT}."),
        ),
        # torchrun waits for those of the other replicas before it starts any rank.
        (
            [CLIENTS],
            {"worker-0": []},
            ("worker-0", "worker-0 has not come: 1/2 clients joined."),
        ),
    ],
)
def test_the_silent_rank_is_named_and_not_the_one_that_waited(
    first: list[str], others: dict[str, list[str]], told: tuple[str, str]
) -> None:
    rest = [ended(name, None, *lines) for name, lines in others.items()]
    failure = exits.cause(ended("master-0", 1, *first), rest)
    assert (failure.replica, failure.sentence) == told
    assert failure.id == "replica-failed"


def test_what_torchrun_reports_of_its_ranks_is_told_apart_from_what_they_wrote() -> None:
    report = exits.TorchrunReport()
    written = ["step 1", "train.py: error: no such file", "====", "step 2"]
    table = torchrun((1, 2))
    for lines in (written[:2], written):  # the program may be started again
        assert [line for line in [*lines, *table] if not report.has(line)] == lines

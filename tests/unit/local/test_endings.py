"""One sentence on why a job failed: the right replica, the telling line."""

from __future__ import annotations

import pytest

from k8sbench.adapters.local import endings
from k8sbench.adapters.local.endings import Ended

TRACEBACK = """
[rank1]: Traceback (most recent call last):
[rank1]:   File "/x/little.py", line 3, in <module>
[rank1]:     main()
[rank1]: ValueError: batch of 0
""".strip().split("\n")
TORCHRUN = """
E1120 08:32:01.733000 14071 torch/distributed/elastic/multiprocessing/api.py:882] failed \
(exitcode: 1) local_rank: 0 (pid: 14080) of binary: /venv/bin/python
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
k8sbench.trainers.little FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 0)
  exitcode  : 1 (pid: 14080)
============================================================
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


def ended(replica: str, code: int | None, *last: str) -> Ended:
    return Ended(replica=replica, code=code, last=last)


def test_the_last_line_says_why() -> None:
    cause = endings.cause(ended("worker-1", 1, "step 1", "boom", ""), [])
    assert cause.sentence == "worker-1 exited with code 1: boom"
    assert (cause.replica, cause.id) == ("worker-1", "replica-failed")


def test_a_launchers_table_does_not_hide_the_trainers_error() -> None:
    cause = endings.cause(ended("worker-0", 1, *TRACEBACK, *TORCHRUN), [])
    assert cause.sentence == "worker-0 exited with code 1: [rank1]: ValueError: batch of 0"


def test_silence_is_said_as_such() -> None:
    assert endings.cause(ended("master-0", 3), []).sentence == "master-0 exited with code 3."


def test_a_signal_is_named() -> None:
    cause = endings.cause(ended("master-0", 139, "step 1"), [])
    assert cause.sentence == "master-0 was killed by signal 11 (SIGSEGV): step 1"
    assert cause.id == "replica-failed"


@pytest.mark.parametrize("lost", [LOST_PEER, LOST_PEER_PADDLE, TIMED_OUT_PADDLE])
def test_a_replica_that_lost_its_peer_is_not_the_one_that_failed(lost: list[str]) -> None:
    first = ended("master-0", 1, *lost, *TORCHRUN)
    cause = endings.cause(first, [ended("worker-0", None, *TRACEBACK)])
    assert cause.sentence == "worker-0 had an error: [rank1]: ValueError: batch of 0"
    assert cause.replica == "worker-0"


def test_the_peer_that_was_killed_is_found_by_its_launchers_words() -> None:
    killed = "E1120 api.py:882] failed (exitcode: -9) local_rank: 0 (pid: 1) of binary: python"
    cause = endings.cause(ended("master-0", 1, *LOST_PEER), [ended("worker-0", 1, killed)])
    assert cause.replica == "worker-0"
    assert cause.id == "oom"


def test_where_nobody_else_complains_the_first_stays_named() -> None:
    first = ended("master-0", 1, *LOST_PEER)
    others = [ended("worker-0", None, "step 7"), ended("worker-1", 1, *LOST_PEER)]
    assert endings.cause(first, others).replica == "master-0"


def test_being_stopped_is_no_error_of_ones_own() -> None:
    first = ended("master-0", 1, *LOST_PEER)
    assert endings.cause(first, [ended("worker-0", None, *STOPPED)]).replica == "master-0"


def test_an_error_of_its_own_needs_no_other_culprit() -> None:
    first = ended("master-0", 1, "ValueError: mine")
    assert endings.cause(first, [ended("worker-0", 1, *TRACEBACK)]).replica == "master-0"


def test_a_killed_replica_possibly_ran_out_of_memory() -> None:
    cause = endings.cause(ended("worker-1", 137, "step 3"), [])
    assert cause.id == "oom"
    assert cause.sentence == (
        "worker-1 was killed by signal 9 (SIGKILL): it was possibly out of memory."
        " Its last line: step 3"
    )


def test_the_kernels_own_count_makes_it_sure() -> None:
    cause = endings.cause(ended("worker-1", 137), [], kills=1)
    assert "the kernel killed a process for want of memory" in cause.sentence
    assert "possibly" not in cause.sentence


@pytest.mark.parametrize(
    "line",
    [
        "failed (exitcode: -9) local_rank: 0 (pid: 14080) of binary: python",
        "  exitcode  : -9 (pid: 14080)",
        "  traceback : Signal 9 (SIGKILL) received by PID 14080",
        "LAUNCH ERROR 2026-11-20 Container rank 0 status failed cmd [] code -9 log /tmp/x",
    ],
)
def test_a_launcher_tells_that_its_process_was_killed(line: str) -> None:
    cause = endings.cause(ended("worker-1", 1, line), [])
    assert cause.id == "oom"
    assert "code 1 after signal 9 (SIGKILL) had killed a process of it" in cause.sentence


def test_a_taken_port_is_called_that() -> None:
    line = (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 29411, useIpv6: false, code: -98, name: EADDRINUSE, message: "
        "address already in use"
    )
    cause = endings.cause(ended("master-0", 1, line), [])
    assert cause.id == "port-taken"
    assert "run it again" in cause.sentence


def test_a_long_line_is_cut() -> None:
    cause = endings.cause(ended("worker-1", 1, "x" * 10_000), [])
    assert len(cause.sentence) < 400

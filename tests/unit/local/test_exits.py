"""One sentence on why a job failed: the right replica, the telling line."""

from __future__ import annotations

import pytest

from k8sbench.diagnose.job import exits
from k8sbench.diagnose.job.exits import Ended

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


def torchrun(*entries: tuple[int, int], ends: tuple[int, ...] = ()) -> list[str]:
    """Its last lines for ranks and their exit codes, the root cause last; those it ended itself."""
    lines = [
        f"W1120 14 torch/x/api.py:1010] Sending process {1000 + rank} closing signal SIGTERM"
        for rank in ends
    ]
    root, code = entries[-1]
    lines += [
        f"E1120 api.py:984] failed (exitcode: {code}) local_rank: {root} (pid: {1000 + root}) of x",
        "Traceback (most recent call last):",
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "little FAILED",
        "-" * 60,
        "Failures:",
    ]
    for index, (rank, code) in enumerate(entries):
        if index == len(entries) - 1:
            lines += ["-" * 60, "Root Cause (first observed failure):"]
        lines += [
            f"[{index}]:",
            "  time      : 2026-11-20_15:00:09",
            f"  rank      : {rank} (local_rank: {rank % 2})",
            f"  exitcode  : {code} (pid: {1000 + rank})",
            "  traceback : To enable traceback see: https://pytorch.org/docs/x.html"
            if code >= 0
            else f"  traceback : Signal {-code} (SIG…) received by PID {1000 + rank}",
        ]
    return [*lines, "=" * 60]


LOST_PEER = ["[rank0]: RuntimeError: [../gloo/tcp/pair.cc:534] Connection closed by peer [::1]:7"]
LOST_BY_RANK_1 = LOST_PEER[0].replace("rank0", "rank1")
LOST_PEER_PADDLE = [
    "RuntimeError: [/paddle/gloo/tcp/pair.cc:598] Connection closed by peer [::1]:7"
]
TIMED_OUT_PADDLE = [
    "RuntimeError: [/paddle/gloo/tcp/pair.cc:587] TIMEOUT self_rank = 0 pair_rank = 1"
]
STOPPED = [
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 14 got signal: 15"
]


def ended(replica: str, code: int | None, *last: str, is_trainer: bool = False) -> Ended:
    return Ended(replica=replica, code=code, last=last, is_trainer=is_trainer)


def test_the_last_line_says_why() -> None:
    cause = exits.cause(ended("worker-1", 1, "step 1", "boom", ""), [])
    assert cause.sentence == "worker-1 exited with code 1: boom"
    assert (cause.replica, cause.id) == ("worker-1", "replica-failed")


def test_a_launchers_table_does_not_hide_the_trainers_error() -> None:
    cause = exits.cause(ended("worker-0", 1, *TRACEBACK, *TORCHRUN), [])
    assert cause.sentence == "worker-0 exited with code 1: [rank1]: ValueError: batch of 0"


def test_silence_is_said_as_such() -> None:
    assert exits.cause(ended("master-0", 3), []).sentence == "master-0 exited with code 3."


def test_a_signal_is_named() -> None:
    cause = exits.cause(ended("master-0", 139, "step 1"), [])
    assert cause.sentence == "master-0 was killed by signal 11 (SIGSEGV): step 1"
    assert cause.id == "replica-failed"


@pytest.mark.parametrize("code", [1, 127, 128, 255])
def test_an_exit_code_that_stands_for_no_signal_is_reported_as_one(code: int) -> None:
    sentence = exits.cause(ended("master-0", code, "step 1"), []).sentence
    assert sentence == f"master-0 exited with code {code}: step 1"


@pytest.mark.parametrize("lost", [LOST_PEER, LOST_PEER_PADDLE, TIMED_OUT_PADDLE])
def test_a_replica_that_lost_its_peer_is_not_the_one_that_failed(lost: list[str]) -> None:
    first = ended("master-0", 1, *lost, *torchrun((0, 1)))
    cause = exits.cause(first, [ended("worker-0", None, *TRACEBACK)])
    assert cause.sentence == "worker-0 had an error: [rank1]: ValueError: batch of 0"
    assert cause.replica == "worker-0"


def test_the_peer_that_was_killed_is_found_by_its_launchers_words() -> None:
    killed = "E1120 api.py:882] failed (exitcode: -9) local_rank: 0 (pid: 1) of binary: python"
    cause = exits.cause(ended("master-0", 1, *LOST_PEER), [ended("worker-0", 1, killed)])
    assert cause.replica == "worker-0"
    assert cause.id == "oom"


def test_where_nobody_else_complains_the_first_stays_named() -> None:
    first = ended("master-0", 1, *LOST_PEER)
    others = [ended("worker-0", None, "step 7"), ended("worker-1", 1, *LOST_PEER)]
    assert exits.cause(first, others).replica == "master-0"


def test_being_stopped_is_no_error_of_ones_own() -> None:
    first = ended("master-0", 1, *LOST_PEER)
    assert exits.cause(first, [ended("worker-0", None, *STOPPED)]).replica == "master-0"


def test_an_error_of_its_own_needs_no_other_culprit() -> None:
    first = ended("master-0", 1, "ValueError: mine")
    assert exits.cause(first, [ended("worker-0", 1, *TRACEBACK)]).replica == "master-0"


def test_a_killed_replica_possibly_ran_out_of_memory() -> None:
    cause = exits.cause(ended("worker-1", 137, "step 3"), [])
    assert cause.id == "oom"
    assert cause.sentence == (
        "worker-1 was killed by signal 9 (SIGKILL): it was possibly out of memory."
        " Its last line: step 3"
    )


def test_the_kernels_own_count_makes_it_sure() -> None:
    cause = exits.cause(ended("worker-1", 137), [], kills=1)
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
    cause = exits.cause(ended("worker-1", 1, line), [])
    assert cause.id == "oom"
    assert "code 1 after signal 9 (SIGKILL) had killed a process of it" in cause.sentence


def paddle(rank: int, how: str) -> str:
    return f"paddle_launch.py: rank {rank}: {how}"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (9, "was killed by signal 9 (SIGKILL): it was possibly out of memory."),
        (11, "was killed by signal 11 (SIGSEGV)."),
        (15, "was ended by signal 15 (SIGTERM), not by its launcher."),
        (35, "was killed by signal 35."),
    ],
)
def test_of_several_ranks_the_killed_one_is_named_and_not_the_survivors_line(
    number: int, said: str
) -> None:
    name = {9: " (SIGKILL)", 11: " (SIGSEGV)", 15: " (SIGTERM)"}.get(number, "")
    reported = paddle(3, f"Signal {number}{name} received by PID 77")
    lines = ["step 7", reported, *TIMED_OUT_PADDLE, "LAUNCH INFO Exit code 1", reported]
    cause = exits.cause(ended("worker-1", 128 + number, *lines), [])
    assert cause.sentence == f"rank 3 of worker-1 {said}"
    assert cause.replica == "worker-1"
    assert cause.id == ("oom" if number == 9 else "replica-failed")

    lines = ["step 7", *LOST_PEER_PADDLE, *torchrun((2, 143), (3, -number), ends=(2,))]
    cause = exits.cause(ended("worker-0", 1, *lines), [])
    assert cause.sentence == f"rank 3 of worker-0 {said}"


def test_a_rank_that_answers_sigterm_by_an_exit_code_was_ended_by_it_all_the_same() -> None:
    lines = ["k8sbench: ended by SIGTERM", *LOST_PEER_PADDLE, *torchrun((0, 1), (1, 143))]
    cause = exits.cause(ended("master-0", 1, *lines), [])
    assert cause.sentence == (
        "rank 1 of master-0 was ended by signal 15 (SIGTERM), not by its launcher."
    )


@pytest.mark.parametrize("number", [9, 11, 15])
def test_torchruns_root_cause_may_be_a_rank_that_only_lost_its_peer(number: int) -> None:
    """Both were dead at the same look: it then takes the lower one."""
    lines = [*LOST_PEER, *torchrun((1, -number), (0, 1))]
    cause = exits.cause(ended("master-0", 1, *lines), [])
    assert cause.sentence.startswith("rank 1 of master-0 was ")


def test_a_rank_that_torchrun_killed_itself_is_not_to_blame() -> None:
    lines = [
        "W1120 api.py:9] Sending process 1000 closing signal SIGTERM",
        "W1120 api.py:9] Unable to shutdown process 1000 via Signals.SIGTERM, forcefully exiting",
        *torchrun((0, -9), (1, 7)),
    ]
    cause = exits.cause(ended("master-0", 1, *lines), [])
    assert (cause.sentence, cause.id) == (
        "rank 1 of master-0 exited with code 7.",
        "replica-failed",
    )


def test_a_watchdog_that_aborts_the_survivors_is_not_the_cause() -> None:
    lines = torchrun((0, -6), (1, -6), (2, -11), (3, -6))
    cause = exits.cause(ended("master-0", 1, *lines), [])
    assert cause.sentence == "rank 2 of master-0 was killed by signal 11 (SIGSEGV)."


@pytest.mark.parametrize(
    "lines",
    [
        [*TRACEBACK, *LOST_PEER, *torchrun((0, 143), (1, 1), ends=(0,))],
        [*TRACEBACK, *LOST_PEER, *torchrun((1, 1), (0, 1))],
        # Trainers of ours print their tracebacks themselves, without a rank.
        ["ValueError: batch of 0", *LOST_PEER_PADDLE, *torchrun((0, 143), (1, 1), ends=(0,))],
        [*LOST_PEER_PADDLE, paddle(1, "exit code 1: ValueError: batch of 0")],
    ],
    ids=["torch", "torch, both at one look", "torch, without ranks", "paddle"],
)
def test_of_several_ranks_errors_the_one_that_came_first_is_quoted(lines: list[str]) -> None:
    cause = exits.cause(ended("master-0", 1, *lines), [])
    assert cause.sentence == "master-0 exited with code 1: [rank1]: ValueError: batch of 0"


def test_a_rank_that_ended_without_a_word_is_named_by_its_code() -> None:
    for lines, code in (
        ([*LOST_PEER_PADDLE, paddle(1, "exit code 5")], 5),
        ([*LOST_PEER, *torchrun((0, 143), (1, 5), ends=(0,))], 1),
        (torchrun((0, 3), (1, 5)), 1),
    ):
        cause = exits.cause(ended("worker-0", code, *lines), [])
        assert cause.sentence == "rank 1 of worker-0 exited with code 5."


@pytest.mark.parametrize(
    "reported",
    [
        [paddle(3, "Signal 15 (SIGTERM) received by PID 77")],
        [paddle(3, "exit code 1: ValueError: batch of 0")],
        torchrun((2, 143), (3, -11), ends=(2,)),
        torchrun((2, 1), (3, 143)),
    ],
)
def test_a_rank_of_another_replica_is_found_by_its_launchers_words(reported: list[str]) -> None:
    first = ended(
        "worker-0", 1, *LOST_PEER_PADDLE, paddle(0, f"exit code 1: {LOST_PEER_PADDLE[0]}")
    )
    cause = exits.cause(first, [ended("worker-1", None, *LOST_PEER_PADDLE, *reported)])
    assert cause.replica == "worker-1"
    assert cause.sentence.startswith(("rank 3 of worker-1 ", "worker-1 had an error: [rank3]: "))


def test_the_report_of_an_earlier_try_does_not_explain_another_end() -> None:
    for reported in ([paddle(1, "exit code 7")], torchrun((1, -11))):
        cause = exits.cause(ended("worker-0", 137, *reported, "step 3"), [])
        assert cause.sentence.startswith("worker-0 was killed by signal 9 (SIGKILL)")
    lines = [*torchrun((2, -9)), *torchrun((1, 5))]
    cause = exits.cause(ended("worker-0", 1, *lines), [])
    assert cause.sentence == "rank 1 of worker-0 exited with code 5."


def test_what_a_command_line_refuses_is_quoted() -> None:
    said = "argument --size: must be a whole number of at least 16"
    # As argparse names a file, and a module.
    for program in ("arcface.py", "python -m k8sbench.trainers.arcface", "./train.py eval"):
        refused = f"{program}: error: {said}"
        for lines, code in (
            ([f"usage: {program} [-h]", refused, *torchrun((1, 2))], 1),
            ([refused, "LAUNCH INFO Exit code 2", paddle(1, f"exit code 2: {refused}")], 2),
        ):
            cause = exits.cause(ended("worker-0", code, *lines), [])
            assert cause.sentence == f"worker-0 exited with code {code}: [rank1]: {refused}"


REFUSAL = "k8sbench: error: --data /data: /data/train: No such file or directory"
STEPS = [f'K8SBENCH {{"event": "step", "step": {step}}}' for step in range(30)]
WARNINGS = ["W1120 14 torch/x/api.py:1010] Sending process 1001 closing signal SIGTERM", ""]


@pytest.mark.parametrize(
    "lines",
    [
        [REFUSAL],
        [*STEPS, REFUSAL, REFUSAL, *WARNINGS, "k8sbench: ended by SIGTERM"],
        [REFUSAL, *LOST_PEER],  # a rank that met nobody
        [REFUSAL, *torchrun((1, 1), (0, 2))[:11]],  # the report is not whole
        [REFUSAL, *torchrun((0, 2))[:2], *["    main()"] * 20],
        # Of ranks that torchrun found dead together, the one that refused.
        [LOST_BY_RANK_1, REFUSAL, *torchrun((0, 2), (1, 1))],
        [REFUSAL, LOST_BY_RANK_1, *torchrun((0, 2), (1, -6), ends=(2, 3))],
    ],
)
def test_what_a_trainer_refuses_is_a_usage_error_although_torchrun_makes_1_of_its_code(
    lines: list[str],
) -> None:
    cause = exits.cause(ended("worker-0", 1, *lines, is_trainer=True), [])
    assert cause.id == "usage-error"
    assert cause.sentence.endswith(REFUSAL)


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (1, ["step 1", "boom"]),
        (1, TRACEBACK),
        (1, [REFUSAL, *TRACEBACK]),  # it was quoted
        (1, [REFUSAL, *STEPS]),
        (1, [f"The last run said: {REFUSAL}"]),
        (1, [REFUSAL, *torchrun((0, 1))]),  # no rank ended with 2
        (1, [REFUSAL, *torchrun((0, -11))]),
        (1, ["k8sbench: failed: 3 samples cannot be read"]),  # which may be better next time
        (127, ["k8sbench: error: /nowhere/python: No such file or directory"]),
        (139, [REFUSAL]),
    ],
)
def test_what_fails_otherwise_may_be_better_next_time(code: int, lines: list[str]) -> None:
    assert exits.cause(ended("worker-0", code, *lines, is_trainer=True), []).id == "replica-failed"


def test_a_program_of_others_refuses_by_its_exit_code_alone() -> None:
    assert exits.cause(ended("worker-0", 1, REFUSAL), []).id == "replica-failed"
    assert exits.cause(ended("worker-0", 2, "no such option"), []).id == "usage-error"
    assert exits.cause(ended("worker-0", 1, *torchrun((0, 2))), []).id == "usage-error"


def test_of_two_replicas_the_one_that_refused_is_named_and_not_the_one_that_waited() -> None:
    waited = ended("master-0", 1, *LOST_PEER, *torchrun((0, 1)), is_trainer=True)
    cause = exits.cause(waited, [ended("worker-0", None, REFUSAL, is_trainer=True)])
    assert (cause.replica, cause.id) == ("worker-0", "usage-error")


def test_what_may_be_better_next_time_is_quoted() -> None:
    said = "k8sbench: failed: 3 samples cannot be read"
    cause = exits.cause(ended("worker-0", 1, said, "bye", *torchrun((0, 1))), [])
    assert cause.sentence == f"worker-0 exited with code 1: [rank0]: {said}"


def test_what_torchrun_reports_of_its_ranks_is_told_apart_from_what_they_wrote() -> None:
    report = exits.Report()
    written = ["step 1", "train.py: error: no such file", "====", "step 2"]
    table = torchrun((1, 2))
    for lines in (written[:2], written):  # the program may be started again
        assert [line for line in [*lines, *table] if not report.has(line)] == lines


def test_a_taken_port_is_called_that() -> None:
    line = (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 29411, useIpv6: false, code: -98, name: EADDRINUSE, message: "
        "address already in use"
    )
    cause = exits.cause(ended("master-0", 1, line), [])
    assert cause.id == "port-taken"
    assert "run it again" in cause.sentence


def test_a_long_line_is_cut() -> None:
    cause = exits.cause(ended("worker-1", 1, "x" * 10_000), [])
    assert len(cause.sentence) < 400

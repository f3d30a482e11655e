"""Output of torchrun about a failed rank."""


def torchrun(*entries: tuple[int, int], ends: tuple[int, ...] = ()) -> list[str]:
    """Return torchrun's last lines; the root cause is the last entry.

    ``ends``: ranks that it ended itself.
    """
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

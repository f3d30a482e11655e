"""Runs k8sbench in this process, and notes what can only be seen from within.

    python -m tests.bench.sides.product NOTES WORDS...

At its end NOTES is JSON: when each change of state was on record, also that a job has ended whose
logs are still being read, the process' peak memory and processor time, how many logs it read at one
time at most, and its own count of requests.
``K8SBENCH_BENCH_PROFILE`` names a file for cProfile's statistics of the main thread.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ENDING = "ending"
"""For the state of a run whose job has ended while its logs are still being read."""


def main() -> None:
    """Run the command; ends with its exit code."""
    notes, *words = sys.argv[1:]
    sys.argv = ["k8sbench", *words]
    moves: list[tuple[str, str, float]] = []
    requests: dict[str, int] = {}
    most_logs = _tap(moves, requests)
    code: Any = None
    try:
        code = _run()
    except SystemExit as end:
        code = end.code
    finally:
        status = Path("/proc/self/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
        processor = time.process_time()
        said = {"moves": moves, "peak": peak, "requests": requests, "processor": processor}
        Path(notes).write_text(json.dumps({**said, "logs": most_logs[0]}))
    sys.exit(code)


def _tap(moves: list[tuple[str, str, float]], requests: dict[str, int]) -> list[int]:
    from k8sbench.adapters.kubernetes.client.answers import LineStream
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.model.phase import LOGS_BEING_READ

    move, close = SqlStore.move, KubernetesCluster.close
    stream, close_stream = Api.stream, LineStream.close
    logs: set[LineStream] = set()
    most_logs = [0]

    def noting_move(self: SqlStore, run_id: str, transition: Any, **more: Any) -> Any:
        run = move(self, run_id, transition, **more)
        is_ending = transition.cause_id == LOGS_BEING_READ
        moves.append((run_id, ENDING if is_ending else str(transition.phase), time.time()))
        return run

    def noting_close(self: KubernetesCluster) -> None:
        requests.update(self.api.sender.requests)
        close(self)

    def noting_stream(self: Api, path: str, **asked: Any) -> LineStream:
        opened = stream(self, path, **asked)
        if path.endswith("/log"):
            logs.add(opened)
            most_logs[0] = max(most_logs[0], len(logs))
        return opened

    def noting_close_stream(self: LineStream) -> None:
        close_stream(self)
        logs.discard(self)

    SqlStore.move = noting_move  # type: ignore[method-assign]
    KubernetesCluster.close = noting_close  # type: ignore[method-assign]
    Api.stream = noting_stream  # type: ignore[method-assign]
    LineStream.close = noting_close_stream  # type: ignore[method-assign]
    return most_logs


def _run() -> Any:
    from k8sbench.__main__ import GARBAGE
    from k8sbench.cli.main import main as run

    gc.set_threshold(GARBAGE)
    profile = os.environ.get("K8SBENCH_BENCH_PROFILE")
    if profile is None:
        return run()
    import cProfile

    profiler = cProfile.Profile(time.thread_time)
    try:
        return profiler.runcall(run)
    finally:
        profiler.dump_stats(profile)


if __name__ == "__main__":
    main()

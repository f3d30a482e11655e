"""Runs k8sbench in this process, and notes what can only be seen from within.

    python -m tests.bench.sides.product NOTES WORDS...

At its end NOTES is JSON: when each change of state was on record, when a job's success was seen,
the process' peak memory and processor time, how many logs it read at one time at most, and its own
count of requests.
``K8SBENCH_BENCH_PROFILE`` names a file for cProfile's statistics of the main thread.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

SEEN = "Succeeded, seen"
"""When the job's success was taken in; it is recorded when the logs are whole on disk."""


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
    from k8sbench.adapters.kubernetes.api import Api
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
    from k8sbench.adapters.kubernetes.followed import Followed
    from k8sbench.adapters.kubernetes.reflector import Changed
    from k8sbench.adapters.kubernetes.streams import LineStream
    from k8sbench.adapters.sql_store import SqlStore

    move, close, take = SqlStore.move, KubernetesCluster.close, Followed.take
    stream, close_stream = Api.stream, LineStream.close
    logs: set[LineStream] = set()
    most_logs = [0]

    def noting_move(self: SqlStore, run_id: str, transition: Any) -> Any:
        run = move(self, run_id, transition)
        moves.append((run_id, str(transition.phase), time.time()))
        return run

    def noting_take(self: Followed, news: Any) -> None:
        take(self, news)
        if isinstance(news, Changed) and news.kind == self.kind:
            conditions = (news.object.get("status") or {}).get("conditions") or ()
            if any(one["type"] == "Succeeded" for one in conditions):
                moves.append((self.plan.run_id, SEEN, time.time()))

    def noting_close(self: KubernetesCluster) -> None:
        requests.update(self.api.requests)
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
    Followed.take = noting_take  # type: ignore[method-assign]
    KubernetesCluster.close = noting_close  # type: ignore[method-assign]
    Api.stream = noting_stream  # type: ignore[method-assign]
    LineStream.close = noting_close_stream  # type: ignore[method-assign]
    return most_logs


def _run() -> Any:
    from k8sbench.cli.main import main as run

    profile = os.environ.get("K8SBENCH_BENCH_PROFILE")
    if profile is None:
        return run()
    import cProfile

    profiler = cProfile.Profile()
    try:
        return profiler.runcall(run)
    finally:
        profiler.dump_stats(profile)


if __name__ == "__main__":
    main()

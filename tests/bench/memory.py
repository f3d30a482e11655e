"""What thousands of followed jobs of four pods take of our memory; no cluster is needed.

    python tests/bench/memory.py [JOBS]

Printed are the bytes of each job, and the peak memory of a process that holds so many. Exit code 1
if a limit is missed.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from k8sbench.adapters.kubernetes.logs.streams import LogStreams
from tests.bench.sides import followed_jobs

JOBS = 5000
LIMIT = 200
"""MB."""


def main() -> int:
    """Measure and print; returns 1 if the limit is missed."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    streams = LogStreams(followed_jobs.no_api(), "team-a", lambda _: None, limit=0)
    before = _peak()
    kept = [followed_jobs.followed(number, streams) for number in range(jobs)]
    peak = _peak()
    each = followed_jobs.bytes_each(200)
    print(
        f"{len(kept)} followed jobs of {len(followed_jobs.REPLICAS)} pods: {peak:.0f} MB (limit"
        f" {LIMIT}), of which {before:.0f} MB the program; {each:.0f} bytes allocated for each job"
    )
    return int(peak > LIMIT)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    sys.exit(main())

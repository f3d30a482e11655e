"""``python -m tests.simulation SEED [COUNT]``: play schedules; shows what happened in the last."""

from __future__ import annotations

import sys

from tests.simulation.play import play


def main() -> None:
    """Play the schedules that were asked for; a violation ends it."""
    first = int(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for seed in range(first, first + count):
        schedule = play(seed)
    if count == 1:
        sys.stdout.write("\n".join(schedule.world.trace) + "\n")
    sys.stdout.write(f"{count} schedules, no violation\n")


if __name__ == "__main__":
    main()

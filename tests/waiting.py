"""Waiting for a condition of another thread or process that sends no event, with a limit."""

import time
from collections.abc import Callable

LIMIT_SECONDS = 60.0
"""Time limit of a wait. Nothing else is asserted of the time."""
INTERVAL_SECONDS = 0.01
"""Interval between two looks at a state that nobody reports."""


def wait_until(
    condition: Callable[[], object],
    what: Callable[[], object] | str,
    limit_s: float = LIMIT_SECONDS,
) -> None:
    """Wait until ``condition`` holds; fail after ``limit_s`` seconds.

    ``what`` describes the condition, or returns the present state.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= deadline:
            text = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {limit_s:g} s for {text}")
        time.sleep(INTERVAL_SECONDS)

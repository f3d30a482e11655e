"""Timeouts of tests and shortened time limits of k8sbench."""

from collections.abc import Mapping

SECONDS = 400.0
"""Timeout of every wait in tests, also on a busy machine."""
TEST_SECONDS = 900
"""For a test."""
LOOKS = {
    "adapters__kubernetes__watching__job_reader__QUEUE_SECONDS": 1.0,
    "app__served_runs__SECONDS": SECONDS,
    "app__served_runs__INSIST_SECONDS": SECONDS,
    "lifecycle__executor__WISHES_SECONDS": 1.0,
    "lifecycle__serving__LIST_SECONDS": 1.0,
    "lifecycle__serving__RETRY_SECONDS": 1.0,
}
"""Short polls instead of those of 15 s, and full waits for an operator."""


def shortening(limits: Mapping[str, float]) -> str:
    """Return the start of a program that overrides k8sbench's limits by name."""
    lines = []
    for name, seconds in limits.items():
        constant = f"k8sbench.{name.replace('__', '.')}"
        lines += [f"import {constant.rpartition('.')[0]}", f"assert {constant} != {seconds}"]
        lines += [f"{constant} = {seconds}", ""]
    return "\n".join(lines)

"""How long tests wait, and other limits of time for commands of k8sbench."""

from __future__ import annotations

from collections.abc import Mapping

SECONDS = 400.0
"""For anything that a test waits for, also on a machine that is busy with other things."""
TEST_SECONDS = 900
"""For a test."""
LOOKS = {
    "adapters__kubernetes__watching__job_reader__QUEUE_SECONDS": 1.0,
    "app__collectors__SECONDS": SECONDS,
    "app__collectors__INSIST_SECONDS": SECONDS,
    "lifecycle__executor__WISHES_SECONDS": 1.0,
    "lifecycle__job_requests__ASK_SECONDS": 1.0,
    "lifecycle__serving__LIST_SECONDS": 1.0,
    "lifecycle__serving__RETRY_SECONDS": 1.0,
}
"""A collector is waited for, and the next look, of 15 s, is not: that would prove nothing."""


def shortening(limits: Mapping[str, float]) -> str:
    """Write the beginning of a program: it sets limits, by name, that are others in k8sbench."""
    lines = []
    for name, seconds in limits.items():
        constant = f"k8sbench.{name.replace('__', '.')}"
        lines += [f"import {constant.rpartition('.')[0]}", f"assert {constant} != {seconds}"]
        lines += [f"{constant} = {seconds}", ""]
    return "\n".join(lines)

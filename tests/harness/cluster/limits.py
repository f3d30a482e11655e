"""Timeouts of tests and shortened time limits of k8sbench."""

from collections.abc import Mapping

import msgspec
import pytest

from k8sbench import limits
from k8sbench.limits import Limits
from tests.harness import children
from tests.harness.cluster import alterations

SECONDS = 400.0
"""Timeout of every wait in tests, also on a busy machine."""
TEST_SECONDS = 900
"""For a test."""
LOOKS = {
    "poll": 1.0,
    "list_jobs": 1.0,
    "operator_answer": SECONDS,
    "operator_insist": SECONDS,
    "retry_run": 1.0,
}
"""Short polls instead of those of 15 s, and full waits for an operator."""


def shortening(changes: Mapping[str, float]) -> str:
    """Return the start of a program with other limits of k8sbench."""
    Limits(**changes)  # type: ignore[arg-type]  # raises for a limit that there is not
    return children.calling(alterations.shorten, dict(changes))


def shorten(patch: pytest.MonkeyPatch, **changes: float) -> None:
    """Have other limits of k8sbench in this process until the end of the test."""
    patch.setattr(limits, "now", msgspec.structs.replace(limits.now, **changes))

"""Hypothesis' profiles: the same examples in every run, and how many of them."""

from hypothesis import HealthCheck, settings

QUICK = 25
"""Examples for each test in ``make unit``; Hypothesis' own number, 100, in ``make test``."""
SOAK = 1000
"""And in ``make soak``, where they are new ones in every run."""


def load() -> None:
    """Register the profiles, and load that of ``make test``."""
    settings.register_profile(
        "k8sbench", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile("quick", settings.get_profile("k8sbench"), max_examples=QUICK)
    settings.register_profile(
        "soak", settings.get_profile("k8sbench"), derandomize=False, max_examples=SOAK
    )
    settings.load_profile("k8sbench")

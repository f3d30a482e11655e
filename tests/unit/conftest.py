"""How Hypothesis looks for examples: the same ones in every run, on a machine of any speed."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "k8sbench", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("k8sbench")

"""Pytest plugin that pins each worker and its children to one core.

Frameworks start a thread per core that they see. Where tests run side by side those threads spin
while they wait for each other, and take three times as long as with a core for each worker.
"""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Choose the worker's core, if there is one for each."""
    worker = getattr(config, "workerinput", None)
    cores = sorted(os.sched_getaffinity(0))
    if worker is not None and worker["workercount"] <= len(cores):
        os.sched_setaffinity(0, {cores[int(worker["workerid"].removeprefix("gw"))]})

"""What a trainer tells of its machine: facts or None."""

from __future__ import annotations

import json
import os

from k8sbench.trainers.parts import machine


def test_the_machine_is_described_in_words_that_json_knows() -> None:
    found = machine.describe()
    assert json.loads(json.dumps(found)) == found
    assert found["host"]
    assert found["cpus"] == len(os.sched_getaffinity(0))
    limit = found["memlock_ulimit"]
    assert limit == "unlimited" or isinstance(limit, int)


def test_a_gpu_that_cannot_be_asked_is_unknown_in_every_field() -> None:
    found = machine.gpu(None)
    assert set(found) == set(machine.GPU_FIELDS)
    assert all(value is None for name, value in found.items() if name != "driver")

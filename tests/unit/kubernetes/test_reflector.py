"""How a watch goes on after a failure; the watching itself is in ``tests/cluster/``."""

from __future__ import annotations

import pytest

from k8sbench.adapters.kubernetes.watching import reflector


@pytest.mark.parametrize("failures", [1, 2, 5, 10, 1000])
def test_pauses_grow_to_a_bound(failures: int) -> None:
    pauses = [reflector.pause(failures, None) for _ in range(100)]
    top = min(reflector.FIRST_PAUSE * 2.0 ** (failures - 1), 15.0) if failures < 100 else 15.0
    assert all(top / 2 <= one <= top for one in pauses)
    assert len(set(pauses)) > 1


def test_a_pause_is_as_long_as_the_server_asks_within_the_bound() -> None:
    assert reflector.pause(1, 7.0) == 7.0
    assert reflector.pause(1, 3600.0) == 15.0

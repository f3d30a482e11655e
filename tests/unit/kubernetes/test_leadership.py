"""Which of several collectors collects: the one that holds the Lease."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from k8sbench.adapters.kubernetes import collectors
from k8sbench.model.errors import StoreError


def test_it_stands_by_for_another_one_alone_and_takes_a_token_that_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collectors, "TOKEN_SECONDS", 0.0)
    seen: list[tuple[str, bool, bool]] = []
    note, gone = Mock(), StoreError("It is gone.")
    it: Any = collectors.Leadership(Mock(), "lease", note)
    tokens = Mock(side_effect=["one", "two", gone, gone, gone])
    monkeypatch.setattr(collectors, "token", tokens)
    answers = [False, StoreError("No."), False, True, True]
    it._stopped = Mock(is_set=Mock(side_effect=[*[False] * 5, True]))
    it._stopped.wait = lambda _: seen.append((it.token, it.stands_by, it.is_held))
    it._renew(Mock(), Mock(other="vm_2", attempt=Mock(side_effect=answers)))
    stands, leads = ("two", True, False), ("two", False, True)
    assert seen == [("one", True, False), ("two", False, False), stands, leads, leads]
    assert str(note.mock_calls).count("It is gone.") == 1
    assert "No." not in str(note.mock_calls), "the controller logs it"

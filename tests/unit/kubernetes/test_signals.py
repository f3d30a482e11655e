"""Exit codes of containers, and the signals that they stand for."""

from __future__ import annotations

import signal

import pytest

from k8sbench.diagnose.job import exits


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGSYS])
def test_a_signal_has_the_name_that_linux_gives_it(number: signal.Signals) -> None:
    assert exits.signal_text(number) == f"signal {int(number)} ({number.name})"


def test_a_real_time_signal_has_a_number_alone() -> None:
    assert exits.signal_text(40) == "signal 40"


@pytest.mark.parametrize(("code", "number"), [(137, 9), (192, 64), (128, None), (255, None)])
def test_an_exit_code_may_stand_for_a_signal(code: int, number: int | None) -> None:
    assert exits.signal_of(code) == number

"""Measuring logs of observed jobs in children: several at once, and each error its own."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from k8sbench.adapters import measuring
from k8sbench.app import log_measuring
from k8sbench.catalog.imported_logs import MeasuredLog
from k8sbench.catalog.measure_options import MeasureOptions
from k8sbench.model.errors import InputError, StoreError
from tests.tiers import ROOT
from tests.waiting import wait_until

LOG = ROOT / "tests" / "fixtures" / "logs" / "torchtitan.log"
OPTIONS = MeasureOptions(precision="bf16", case="1x8", one_run=True)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the numbers of bytes that children were sent."""
    found: list[int] = []
    real = measuring.in_child

    def in_child(module: str, task: bytes, what: str, limit: int | None = None) -> bytes:
        found.append(len(task))
        if b"deadly" in task:
            raise StoreError("The child was ended.")
        return real(module, task, what, limit)

    monkeypatch.setattr(measuring, "in_child", in_child)
    return found


def measure(paths: Sequence[Path]) -> list[MeasuredLog | Exception]:
    def one(path: Path) -> MeasuredLog | Exception:
        try:
            return log_measuring.measure_run({str(path): path.stem}, path.name, options=OPTIONS)
        except (InputError, StoreError) as error:
            return error

    with ThreadPoolExecutor(len(paths)) as pool:
        return list(pool.map(one, paths))


def test_each_log_has_its_own_figure_or_error(tmp_path: Path, sent: list[int]) -> None:
    nothing = tmp_path / "nothing.log"
    nothing.write_text("hello\n")
    deadly = tmp_path / "deadly.log"
    deadly.write_text("hello\n")
    logs = [LOG, nothing, deadly, LOG]
    first, wrong, ended, last = measure(logs)
    for found in (first, last):
        assert isinstance(found, MeasuredLog)
        assert found.measurement.verdict == "valid"
    assert isinstance(wrong, InputError)
    assert wrong.file == "nothing"
    assert isinstance(ended, StoreError)
    assert sent


def test_logs_that_wait_are_measured_by_one_child(sent: list[int]) -> None:
    with ThreadPoolExecutor(1) as pool:
        with log_measuring.TURN:
            answer = pool.submit(measure, [LOG] * 3)
            wait_until(lambda: len(log_measuring.waiting) == 3, "three tasks")
        assert all(isinstance(one, MeasuredLog) for one in answer.result())
    assert len(sent) == 1


def test_a_child_waits_for_all_runs_that_are_expected(sent: list[int]) -> None:
    def one(run_id: str) -> MeasuredLog:
        files = {str(LOG): LOG.stem}
        return log_measuring.measure_run(files, run_id, options=OPTIONS, run_id=run_id)

    log_measuring.expect(["first", "last", "never"])
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(one, "first")
        wait_until(lambda: len(log_measuring.waiting) == 1, "the first task")
        log_measuring.arrived("never")
        assert not sent
        last = pool.submit(one, "last")
        assert all(isinstance(found.result(), MeasuredLog) for found in (first, last))
    assert len(sent) == 1

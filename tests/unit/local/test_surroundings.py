"""What else uses the machine of a local run: found, told once, kept, and in the measurement."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from k8sbench.adapters.local import surroundings
from k8sbench.adapters.local.gpus import GPU
from k8sbench.adapters.local.launch import MARK
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.lifecycle import measuring
from k8sbench.lifecycle.artifacts import kept_surroundings
from k8sbench.measure.run import rules
from k8sbench.model.measurement import SURROUNDINGS
from tests.unit.store.examples import NOW, plan

GPUS = tuple(GPU(index=n, uuid=f"GPU-{n}", model="V100", memory_mib=16384) for n in range(2))


@pytest.fixture
def others() -> Iterator[Any]:
    """Start processes that are marked as replicas of runs."""
    started: list[subprocess.Popen[bytes]] = []

    def start(run_id: str, gpus: str | None) -> None:
        visible = {} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus}
        process = subprocess.Popen(
            [sys.executable, "-c", "print(flush=True); input()"],
            env={**os.environ, MARK: f"{run_id}/master-0", **visible},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()

    yield start
    for process in started:
        process.communicate()


def runs_beside(run_id: str, gpus: tuple[GPU, ...]) -> set[str]:
    # Other tests of this machine may run something, too.
    told = " ".join(one.sentence for one in surroundings.during(run_id, gpus))
    return {name for name in ("mine", "beside") if f"Run {name} " in told}


@pytest.mark.parametrize(
    ("mine", "theirs", "is_shared"),
    [((), None, True), ((), "", True), (GPUS[:1], "0,1", True), (GPUS[:1], "1", False)],
)
def test_another_run_on_the_same_devices_is_found(
    others: Any, mine: tuple[GPU, ...], theirs: str | None, is_shared: bool
) -> None:
    others("beside", theirs)
    others("mine", theirs)
    assert runs_beside("mine", mine) == ({"beside"} if is_shared else set())


def test_a_run_on_gpus_does_not_share_with_one_on_cores(others: Any) -> None:
    others("beside", "")
    assert runs_beside("mine", GPUS) == set()


@pytest.mark.parametrize(
    ("percent", "ours", "ids"),
    [
        (10.0, 0.0, []),
        (60.0, 0.0, ["machine-busy"]),
        (85.0, 1.0, ["machine-busy"]),
        (40.0, 1.0, []),
    ],
)
def test_a_busy_machine_is_found(
    monkeypatch: pytest.MonkeyPatch, percent: float, ours: float, ids: list[str]
) -> None:
    ours *= surroundings.LOAD_SECONDS  # of one core, at the end of the look
    times = iter([7.0, 7.0 + ours])
    monkeypatch.setattr(time, "process_time", lambda: next(times))
    monkeypatch.setattr(psutil, "cpu_percent", lambda _: percent)
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(()))
    found = surroundings.before("mine", ())
    assert [one.id for one in found] == ids
    if ids:
        assert "2.4 of 4 cores" in found[0].sentence


def test_the_machine_is_not_called_busy_with_the_run_that_is_named(
    others: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    others("beside", None)
    monkeypatch.setattr(psutil, "cpu_percent", lambda _: 100.0)
    assert {one.id for one in surroundings.before("mine", ())} == {"machine-shared"}


class Nvml:
    """NVML of two GPUs; this test's process computes on the second one."""

    class NVMLError(Exception):
        """As in pynvml."""

    def nvmlInit(self) -> None:
        pass

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=os.getpid())] if handle == "GPU-1" else []


def test_a_process_on_a_gpu_of_the_run_is_named() -> None:
    name = psutil.Process().name()
    (found,) = surroundings.gpu_users("mine", GPUS, Nvml())
    assert found.id == "gpu-in-use"
    assert found.sentence == f"{name} (process {os.getpid()}) used GPU 1 before the run."
    assert list(surroundings.gpu_users("mine", GPUS[:1], Nvml())) == []
    assert list(surroundings.gpu_users("mine", ())) == []


def test_what_was_found_is_told_once_and_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, first, later = (rules.MACHINE_BUSY.finding(text) for text in ("Busy.", "a", "b"))
    watched = surroundings.Watched("mine", (), tmp_path, lambda *_: [first, later])
    assert watched.take([]) == []
    assert not (tmp_path / SURROUNDINGS).exists()
    assert watched.take([busy, first]) == ["Busy.", "a"]
    assert watched.look() == [], "it is not time yet"
    now = time.monotonic() + surroundings.EVERY
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert watched.look() == ["b"]
    kept = json.loads((tmp_path / SURROUNDINGS).read_text())
    assert [one["message"] for one in kept] == ["Busy.", "a", "b"]
    assert all(one["severity"] == "warn" for one in kept)


def test_what_was_found_is_a_warning_of_the_measurement(
    tmp_path: pathlib.Path,
) -> None:
    found = rules.MACHINE_BUSY.finding("Busy.")
    with open_store(str(tmp_path)) as store:
        run = store.record(plan(), at=NOW, owner=None)
        assert kept_surroundings(store, run.run_id) == []
        watched = surroundings.Watched(
            run.run_id, (), store.folder(run.run_id), surroundings.during
        )
        watched.take([found])
        kept = kept_surroundings(store, run.run_id)
    assert kept == [found]
    measured = measuring.measure_run(run, [], surroundings=kept)
    assert found in measured.reasons

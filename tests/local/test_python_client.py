"""The Python client with a user's own program on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from k8sbench import Client
from k8sbench.model.errors import JobFailed, TimedOut, UsageError
from tests.harness import benchmark_files
from tests.waiting import wait_until

STEPS = """
for step in range(1, 21):
    print(f"step {step} 8.0 samples/s", flush=True)
"""
ENDLESS = STEPS + "import signal\nsignal.pause()\n"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.chdir(tmp_path)
    return Client(store=tmp_path / "store", backend="local")


def written(program: str) -> Path:
    """Write a program and its benchmark file into the working folder."""
    Path("train.py").write_text(program)
    variant = benchmark_files.variant(
        ("python3", "train.py"),
        "registry.example.com/team/mine:1",
        r"step (?P<iteration>\d+) (?P<rate>[\d.]+) samples/s",
        title="As it is",
        batch_size={"fp32": 4},
        window={"warmup": 4, "iterations": 16, "rule": "ours"},
    )
    path = Path("mine.yaml")
    path.write_text(yaml.safe_dump(benchmark_files.benchmark(base=variant)))
    return path


def test_a_program_of_ones_own_runs_if_that_is_agreed_to(client: Client) -> None:
    mine = written(STEPS)
    with pytest.raises(UsageError, match="agree=True"):
        client.submit(mine)
    run = client.submit(mine, agree=True)
    row = run.wait(timeout=60)
    assert (row.throughput, row.state) == (8.0, "valid")
    assert repr(run) == f"<Run {run.run_id}: Succeeded>"
    assert [one.run_id for one in client.runs()] == [run.run_id]


def test_waiting_for_a_run_that_fails_raises_the_error_of_its_exit_code(client: Client) -> None:
    run = client.submit(written("raise SystemExit('error: no data')"), agree=True)
    with pytest.raises(JobFailed, match="Failed") as failed:
        run.wait(timeout=60)
    assert failed.value.exit_code == 3
    with pytest.raises(JobFailed):
        client.run(run.run_id).wait()


def test_waiting_for_a_run_that_outlives_its_time_limit_raises_timed_out(client: Client) -> None:
    run = client.submit(written(ENDLESS), agree=True, timeout=3)
    with pytest.raises(TimedOut, match=run.run_id):
        run.wait(timeout=100)
    assert run.status.cause_id == "timeout"


def test_a_cancelled_run_ends_and_this_process_goes_on(client: Client) -> None:
    run = client.submit(written(ENDLESS), agree=True)
    wait_until(lambda: "step 20" in "".join(run.logs()), "the steps")
    process = run.status.process
    assert process is not None
    assert process.pid == os.getpid()
    with pytest.raises(UsageError, match="in this process"):
        client.cancel(run.run_id[:-3])  # a Benchmark's name would cancel all of its runs
    run.cancel()
    assert run.status.phase == "Cancelled"
    with pytest.raises(JobFailed, match="Cancelled"):
        run.wait()


def test_a_run_of_another_process_is_waited_for_and_cancelled(client: Client) -> None:
    mine = written(ENDLESS)
    words = ("submit", str(mine), "--backend=local", "--yes", "--run-id=there", "--store=store")
    command = [sys.executable, "-m", "k8sbench", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
        wait_until(lambda: "there" in [run.run_id for run in client.runs()], "the run")
        run = client.run("there")
        wait_until(lambda: "step 20" in "".join(run.logs()), "the steps")
        with pytest.raises(TimedOut):
            run.wait(timeout=1.0)
        run.cancel()
        with pytest.raises(JobFailed, match="Cancelled"):
            run.wait(timeout=100)
        assert other.wait(60) == 130

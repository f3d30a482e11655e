"""``k8sbench submit`` on this machine: real training, really interrupted."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.harness import benchmark_files
from tests.local.jobs import living, wait_for

pytestmark = [pytest.mark.timeout(900), pytest.mark.tier("frameworks")]
PATIENCE = 240.0
"""Timeout of a condition, seconds."""


class Shell:
    """k8sbench as a user has it: a command, a store, exit codes."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self.environment = os.environ | {"K8SBENCH_STORE": str(self.store)}

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "k8sbench", *args],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, code: int = 0) -> str:
        with self.start(*args) as process:
            out, err = process.communicate()
        assert process.returncode == code, out + err
        return out if code == 0 else out + err

    def json(self, *args: str) -> Any:
        return json.loads(self.run(*args, "-o", "json"))

    def run_id(self) -> str:
        (folder,) = (self.store / "runs").iterdir()
        return folder.name

    def logs(self) -> str:
        return "".join(path.read_text() for path in (self.store / "runs").glob("*/logs/*.log"))


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(autouse=True)
def nothing_is_left_running(tmp_path: Path) -> Iterator[None]:
    yield
    wait_for(lambda: not mine(tmp_path), "all processes of the run to end", PATIENCE)


def mine(tmp_path: Path) -> list[psutil.Process]:
    """Processes of this test: its folder stands in their environment or their arguments."""

    def has_it(process: psutil.Process) -> bool:
        texts = [*process.environ().values(), *process.cmdline()]
        return any(str(tmp_path) in text for text in texts)

    return living(has_it)


def wait_until_it_trains(shell: Shell) -> None:
    wait_for(lambda: STEP.search(shell.logs()), "the first training step", PATIENCE)


STEP = re.compile(r'"event": ?"step"')
ENDLESS = ("submit", "resnet50", "--batch-size", "2", "--iterations", "100000")
DIES = """
import os, signal
print("step 1 8.0", flush=True)
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
signal.pause()
"""
SPEC = benchmark_files.benchmark(
    base=benchmark_files.variant(("torchrun", "train.py"), "registry.example.com/team/mine:1")
)


@pytest.mark.parametrize(
    ("words", "replicas", "number", "name"),
    [
        ("resnet50 imagenet", "1", signal.SIGINT, "Ctrl-C"),
        ("deeplabv3p --framework=paddle cityscapes", "2", signal.SIGTERM, "SIGTERM"),
    ],
)
def test_interrupts_save(
    shell: Shell, tmp_path: Path, words: str, replicas: str, number: int, name: str
) -> None:
    """No process of it is left, either."""
    *benchmark, data_set = words.split()
    shell.run("data", "make-sample", data_set, str(tmp_path / "data"), "--pictures", "16")
    training = ("--mode", "train", "--data", str(tmp_path / "data"), "--iterations", "100000")
    where = ("--target", "none", "--checkpoints", str(tmp_path / "kept"), "--replicas", replicas)
    process = shell.start("submit", *benchmark, "--backend", "local", *training, *where)
    wait_until_it_trains(shell)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert name in err
    assert "--backend local" in err
    assert "--resume" in err
    assert shell.json("status", shell.run_id())["phase"] == "Cancelled"
    (kept,) = (tmp_path / "kept" / shell.run_id()).iterdir()
    steps = re.findall(r'"event": "(?:step|checkpoint)", "step": (\d+)', shell.logs())
    assert kept.name == f"step-{int(steps[-1]):010d}"


def test_a_run_that_outlives_its_timeout_is_ended_with_exit_code_4(shell: Shell) -> None:
    text = shell.run(*ENDLESS, "--timeout", "2s", code=4)
    assert "2s" in text
    assert shell.json("status", shell.run_id())["history"][-1]["cause_id"] == "timeout"


def test_a_rank_that_dies_ends_the_job_and_is_named(shell: Shell, tmp_path: Path) -> None:
    """By torchrun's table, whatever it runs."""
    (tmp_path / "train.py").write_text(DIES)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(SPEC))
    err = shell.run("submit", str(tmp_path / "mine.yaml"), "--yes", "--replicas", "2", code=3)
    named = "rank 1 of worker-0 was killed by signal 9 (SIGKILL)"
    assert named in err
    shown = err.partition("last lines of worker-0:")[2]
    assert "ChildFailedError" not in shown, "torchrun's table says no more than the sentence"
    assert f"all lines: k8sbench logs {shell.run_id()}\n" in shown
    status = shell.json("status", shell.run_id())
    assert status["phase"] == "Failed"
    assert named in status["history"][-1]["cause"]

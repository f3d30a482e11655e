"""Only k8sbench's own trainers run on the user's machine."""

from __future__ import annotations

import pytest

from k8sbench.adapters.local import manifest
from k8sbench.model.errors import UsageError
from tests.unit.local.examples import FOLDER, STARTS, plan


@pytest.mark.parametrize("command", STARTS.values(), ids=" ".join)
def test_the_commands_that_planning_makes_run(command: tuple[str, ...]) -> None:
    manifest.check(plan(), (*command, "--batch-size", "2"))


@pytest.mark.parametrize(
    "command",
    [
        "bash -c true",
        "/bin/python3 -m k8sbench.trainers.little",
        "python3 -c pass",
        "python3 /workspace/tools/train.py",
        "python3 -m k8sbench.trainers.little_more",
        "python3 -m torch.distributed.run train.py",
        f"python3 {FOLDER}/../evil.py",
        f"python3 {FOLDER}/paddle_launch.py /home/user/evil.py",
    ],
)
def test_anything_else_is_refused(command: str) -> None:
    with pytest.raises(UsageError, match="k8sbench's own trainers alone"):
        manifest.check(plan(), command.split(" "))


def test_a_plan_without_a_trainer_is_refused() -> None:
    with pytest.raises(UsageError, match="k8sbench's own trainers alone"):
        manifest.check(plan(trainer=None), ("python3", "-m", "k8sbench.trainers.None"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/tmp/x.so"),
        ("LD_AUDIT", "/tmp/x.so"),
        ("PYTHONPATH", "/tmp"),
        ("PYTHONPATH", "/opt/k8sbench:/tmp"),
        ("PYTHONSTARTUP", "/tmp/x.py"),
        ("PET_NO_PYTHON", "1"),
        ("PET_RUN_PATH", "1"),
    ],
)
def test_variables_that_load_other_code_are_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name):
        manifest.check_variables({name: value})


@pytest.mark.parametrize(
    "name", ["NCCL_DEBUG", "LD_LIBRARY_PATH", "PYTHONUNBUFFERED", "PET_MONITOR_INTERVAL"]
)
def test_other_variables_are_the_benchmarks_own(name: str) -> None:
    manifest.check_variables({name: "1", "PYTHONPATH": "/opt/k8sbench"})

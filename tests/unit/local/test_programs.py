"""Only k8sbench's own trainers run on the user's machine."""

from __future__ import annotations

import pytest

from k8sbench.adapters.local import programs
from k8sbench.adapters.local.manifest import Mount
from k8sbench.model.errors import UsageError
from tests.unit.local.examples import FOLDER, STARTS

OURS = Mount(path="/opt/k8sbench", volume="trainers", kind="files")


@pytest.mark.parametrize("command", STARTS.values(), ids=" ".join)
def test_the_commands_that_planning_makes_run(command: tuple[str, ...]) -> None:
    programs.check((*command, "--batch-size", "2"), [OURS])


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m k8sbench.trainers.resnet50 --lr 0.1",
        "python -m torch.distributed.run --nnodes=2 --node_rank 1 -m k8sbench.trainers.resnet50",
        f"python3 -m torch.distributed.run --monitor-interval 1 {FOLDER}/resnet50.py -m evil",
    ],
)
def test_other_ways_to_start_a_trainer_run_too(command: str) -> None:
    programs.check(command.split(), [OURS])


@pytest.mark.parametrize(
    "command",
    [
        "",
        "python3",
        "bash -c true",
        "/bin/python3 -m k8sbench.trainers.resnet50",
        "python3 -c pass",
        "python3 train.py",
        "python3 /workspace/tools/train.py",
        "python3 -u -m k8sbench.trainers.resnet50",
        "python3 -m evil",
        "python3 -m k8sbench.cli.main",
        "python3 -m k8sbench.trainers",
        "python3 -m k8sbench.trainers.models.evil",
        "python3 -m k8sbench.trainers.x;evil",
        "torchrun -m k8sbench.trainers.resnet50",
        "python3 -m torch.distributed.run",
        "python3 -m torch.distributed.run train.py",
        "python3 -m torch.distributed.run -m evil",
        "python3 -m torch.distributed.run --no-python rm -m k8sbench.trainers.resnet50",
        "python3 -m torch.distributed.run --no-py -m k8sbench.trainers.resnet50",
        "python3 -m torch.distributed.run --logs-specs=evil -m k8sbench.trainers.resnet50",
        "python3 -m torch.distributed.run --nnodes",
        f"python3 {FOLDER}/../evil.py",
        f"python3 {FOLDER}/models/evil.py",
        f"python3 {FOLDER}/paddle_launch.py",
        f"python3 {FOLDER}/paddle_launch.py /home/user/evil.py",
        f"python3 {FOLDER}/paddle_launch.py --help",
        f"python3 {FOLDER}/little.py\n",
    ],
)
def test_anything_else_is_refused(command: str) -> None:
    with pytest.raises(UsageError, match="k8sbench's own trainers alone"):
        programs.check(command.split(" "), [OURS])


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
        programs.check_variables({name: value})


@pytest.mark.parametrize(
    "name", ["NCCL_DEBUG", "LD_LIBRARY_PATH", "PYTHONUNBUFFERED", "PET_MONITOR_INTERVAL"]
)
def test_other_variables_are_the_benchmarks_own(name: str) -> None:
    programs.check_variables({name: "1", "PYTHONPATH": "/opt/k8sbench"})


@pytest.mark.parametrize("path", ["/opt/k8sbench", "/opt", "/", "/opt/k8sbench/k8sbench/trainers"])
def test_nothing_else_may_stand_where_the_trainers_are(path: str) -> None:
    foreign = Mount(path=path, volume="data", kind="absent")
    with pytest.raises(UsageError, match="in the place of k8sbench's trainers"):
        programs.check(STARTS["pytorch", True], [OURS, foreign])

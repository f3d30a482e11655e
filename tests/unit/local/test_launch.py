"""From a replica to a command of this machine."""

import copy
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.local import launch
from k8sbench.adapters.local.launch import Launch, Machine, ManifestJob
from k8sbench.model.errors import UsageError
from k8sbench.store import stamped_lines
from tests.tiers import ROOT
from tests.unit.local import examples
from tests.unit.local.examples import FOLDER, STARTS, launches, machine, plan


def first(here: Machine | None = None, **wanted: Any) -> Launch:
    return launches(plan(**wanted), here)[0]


def test_the_trainers_path_becomes_the_materialised_folder() -> None:
    found = first(framework="paddle", launcher=True)
    folder = "/run/mounts/trainers/k8sbench/trainers"
    assert found.command[1:] == (f"{folder}/paddle_launch.py", f"{folder}/little.py")
    of_image = first(trainers_by="image")
    assert of_image.command[1] == "/venv/lib/site-packages/k8sbench/trainers/little.py"


@pytest.mark.parametrize(
    ("wanted", "here", "expected"),
    [
        ({}, {"environ": {"PYTHONPATH": "/user"}}, "PYTHONPATH=/run/mounts/trainers:/user"),
        ({}, {}, "HOME=/home/user"),
        ({}, {}, "PATH=/usr/bin"),
        # Of the plan, and of the operator.
        ({"env": {"NCCL_DEBUG": "INFO"}}, {}, "NCCL_DEBUG=INFO"),
        ({}, {}, "RANK=0"),
        # Replicas on the CPU share the cores, unless the plan says otherwise.
        ({"replicas": 4}, {"cores": 8}, "OMP_NUM_THREADS=2"),
        ({"processes_per_replica": 2}, {"cores": 8}, "OMP_NUM_THREADS=2"),
        ({"processes_per_replica": 4, "framework": "paddle"}, {"cores": 8}, "OMP_NUM_THREADS=1"),
        ({"env": {"OMP_NUM_THREADS": "7"}}, {}, "OMP_NUM_THREADS=7"),
        # How threads wait is the user's choice, unless the plan says otherwise.
        ({}, {"environ": {"OMP_WAIT_POLICY": "ACTIVE"}}, "OMP_WAIT_POLICY=ACTIVE"),
        (
            {"env": {"OMP_WAIT_POLICY": "PASSIVE"}},
            {"environ": {"OMP_WAIT_POLICY": "ACTIVE"}},
            "OMP_WAIT_POLICY=PASSIVE",
        ),
    ],
)
def test_a_replica_has(wanted: dict[str, Any], here: dict[str, Any], expected: str) -> None:
    environ = first(machine(**here), **wanted).environ
    assert expected in {f"{name}={value}" for name, value in environ.items()}


def test_a_folder_of_the_trainers_is_kept_and_one_of_the_image_left_out() -> None:
    of_image, of_trainers = first(workdir="/workspace"), first(workdir="/opt/k8sbench/k8sbench")
    assert of_image.cwd == of_image.scratch
    assert of_trainers.cwd == "/run/mounts/trainers/k8sbench"


def test_replicas_of_a_users_program_and_paddles_launcher_have_folders_of_their_own() -> None:
    here, theirs = machine(work=Path("/run/work")), {"env": {"PADDLE_LOG_DIR": "mine"}}
    found = launches(plan(framework="paddle", replicas=2), here)
    assert [each.cwd for each in found] == ["/run/work/worker-0", "/run/work/worker-1"]
    assert [each.environ["PADDLE_LOG_DIR"] for each in found] == [
        f"{each.cwd}/paddle-log" for each in found
    ]
    assert first(here, framework="paddle", **theirs).environ["PADDLE_LOG_DIR"] == "mine"


def test_each_replica_has_the_gpus_that_it_was_given() -> None:
    found = launches(plan(), machine(gpus=["2,3", "5,7"]))
    assert [each.environ["CUDA_VISIBLE_DEVICES"] for each in found] == ["2,3", "5,7"]


# -- environment ----------------------------------------------------------------------------------


# The expected lists are what pods of training-operator v1.9.3 showed on a real cluster.
@pytest.mark.parametrize(
    ("wanted", "replica", "expected"),
    [
        (
            {},
            "master-0",
            """PYTHONUNBUFFERED=1 MASTER_PORT=23456 PET_MASTER_PORT=23456 MASTER_ADDR=first
            PET_MASTER_ADDR=first WORLD_SIZE=2 RANK=0 PET_NODE_RANK=0 PET_NPROC_PER_NODE=1
            PET_NNODES=2""",
        ),
        # A paddle job's first worker is the meeting point by its own address.
        (
            {"framework": "paddle"},
            "worker-0",
            """PYTHONUNBUFFERED=1 PADDLE_JOB_ID=job PADDLE_NNODES=2 POD_IP_DUMMY=10.88.1.7
            PADDLE_MASTER=$(POD_IP_DUMMY):23456""",
        ),
        (
            {"framework": "paddle"},
            "worker-1",
            "PYTHONUNBUFFERED=1 PADDLE_JOB_ID=job PADDLE_NNODES=2 PADDLE_MASTER=first:23456",
        ),
        ({"replicas": 3}, "worker-1", "... RANK=2 PET_NODE_RANK=2 WORLD_SIZE=3 PET_NNODES=3"),
        # The size of the world counts processes, not pods.
        (
            {"processes_per_replica": 8},
            "master-0",
            "... WORLD_SIZE=16 PET_NPROC_PER_NODE=8 PET_NNODES=2",
        ),
    ],
)
def test_a_replica_gets_the_operator_s(wanted: dict[str, Any], replica: str, expected: str) -> None:
    job = msgspec.structs.replace(examples.job(plan(**wanted)), name="job")
    found, words = injected(job, replica), expected.split()
    assert {*found} >= {*words[1:]} if words[0] == "..." else found == words


def injected(job: ManifestJob, replica: str) -> list[str]:
    (pod,) = (each for each in job.replicas if each.name == replica)
    found = launch.injected(job, pod, "first", 23456, pod_ip="10.88.1.7")
    return [f"{name}={value}" for name, value in found]


def test_variables_refer_to_earlier_ones_as_the_kubelet_has_it() -> None:
    given = "LATE=$(EARLY) EARLY=1 BOTH=$(EARLY)-$(EARLY) ESCAPED=$$(EARLY) SHELL=${EARLY} EARLY=2"
    filled = "LATE=$(EARLY) EARLY=2 BOTH=1-1 ESCAPED=$(EARLY) SHELL=${EARLY}"
    found = launch.resolved(pair.split("=") for pair in given.split())  # type: ignore[misc]
    assert " ".join(f"{name}={value}" for name, value in found.items()) == filled


# -- page -----------------------------------------------------------------------------------------


PAGE = (ROOT / "docs" / "local.md").read_text()
NAMES = set(re.findall(r"`([A-Za-z0-9_-]+)`", PAGE))


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_every_variable_that_a_replica_gets_is_on_the_page(framework: str) -> None:
    plan = examples.plan(framework=framework)
    of_the_manifest = {name for name, _ in examples.job(plan).replicas[0].env}
    for each in examples.launches(plan, examples.machine(gpus=["0", "1"])):
        assert launch.MARK in each.environ
        assert each.environ.keys() - of_the_manifest <= NAMES


def test_the_page_names_what_is_kept_and_what_is_not() -> None:
    assert {"PATH", "HOME", "USER", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH"} <= NAMES
    assert not {"RANK", "NCCL_DEBUG"} & launch.KEPT


def test_the_limit_of_a_line_is_the_pages() -> None:
    assert f"{stamped_lines.LIMIT // 1024} KiB" in PAGE


# -- manifests ------------------------------------------------------------------------------------


FILES = {"little.py": "print('×')\n"}


def objects(**changes: Any) -> examples.Objects:
    return copy.deepcopy(examples.rendered(examples.plan(files=FILES, **changes), FILES))


def container(given: examples.Objects, kind: str = "Master") -> dict[str, Any]:
    pod = given[-1]["spec"]["pytorchReplicaSpecs"][kind]["template"]["spec"]
    found = pod["containers"][0]
    assert isinstance(found, dict)
    return found


def test_command_and_variables_are_the_manifests_own() -> None:
    plan = examples.plan("--data", "a b", "$HOME;`x`", files=FILES, env={"A": "'\"\\"})
    job = launch.read_job(examples.rendered(plan, FILES), node="box")
    assert all(replica.command == plan.command for replica in job.replicas)
    assert dict(job.replicas[0].env)["A"] == "'\"\\"


def test_a_field_of_the_pod_is_this_machines() -> None:
    given = objects()
    container(given)["env"] += [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    env = dict(launch.read_job(given, node="box").replicas[0].env)
    assert env["POD"] == f"{examples.RUN_ID}-master-0"
    assert env["IP"] == "127.0.0.1"
    assert env["NODE"] == "box"


# -- programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", STARTS.values(), ids=" ".join)
def test_the_commands_that_planning_makes_raise_no_error(command: tuple[str, ...]) -> None:
    launch.check_command(plan(), (*command, "--batch-size", "2"))


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
        launch.check_command(plan(), command.split(" "))


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
        launch.check_variables({name: value})


@pytest.mark.parametrize(
    "name", ["NCCL_DEBUG", "LD_LIBRARY_PATH", "PYTHONUNBUFFERED", "PET_MONITOR_INTERVAL"]
)
def test_other_variables_raise_no_error(name: str) -> None:
    launch.check_variables({name: "1", "PYTHONPATH": "/opt/k8sbench"})

"""From a replica to a command of this machine."""

from __future__ import annotations

import pytest

from k8sbench.adapters.local import launch
from tests.unit.local.examples import launches, machine, plan


def test_the_command_is_the_manifests_on_k8sbenchs_own_python() -> None:
    wanted = plan("--data", "path:/tmp/mine", launcher=True)
    for each in launches(wanted):
        assert each.command == ("/venv/bin/python", *wanted.command[1:])


def test_the_trainers_path_becomes_the_materialised_folder() -> None:
    first, _ = launches(plan(framework="paddle", launcher=True))
    folder = "/run/mounts/trainers/k8sbench/trainers"
    assert first.command[1:] == (f"{folder}/paddle_launch.py", f"{folder}/little.py")
    assert first.environ["PYTHONPATH"] == "/run/mounts/trainers"


def test_trainers_of_an_image_are_the_installed_ones() -> None:
    first, _ = launches(plan(trainers_by="image"))
    assert first.command[1] == "/venv/lib/site-packages/k8sbench/trainers/little.py"


def test_the_users_own_search_path_comes_last() -> None:
    first, _ = launches(plan(), machine(environ={"PYTHONPATH": "/user"}))
    assert first.environ["PYTHONPATH"] == "/run/mounts/trainers:/user"


def test_a_paddle_replica_knows_its_number_without_a_pods_name() -> None:
    ranks = [each.environ["PADDLE_RANK"] for each in launches(plan(framework="paddle", replicas=3))]
    assert ranks == ["0", "1", "2"]


def test_the_operators_variables_win_over_the_manifests() -> None:
    first, _ = launches(plan(env={"NCCL_DEBUG": "INFO"}))
    assert first.environ["NCCL_DEBUG"] == "INFO"
    assert first.environ["RANK"] == "0"


def test_home_and_path_stay_the_users() -> None:
    first, _ = launches(plan())
    assert first.environ["HOME"] == "/home/user"
    assert first.environ["PATH"] == "/usr/bin"


def test_a_folder_of_the_image_is_left_out() -> None:
    first, _ = launches(plan(workdir="/workspace"))
    assert first.cwd == first.scratch


def test_a_folder_of_the_trainers_is_kept() -> None:
    first, _ = launches(plan(workdir="/opt/k8sbench/k8sbench"))
    assert first.cwd == "/run/mounts/trainers/k8sbench"


def test_cpu_replicas_share_the_cores() -> None:
    here = machine(cores=8)
    assert launches(plan(replicas=4), here)[0].environ["OMP_NUM_THREADS"] == "2"
    two_each = plan(replicas=2, processes_per_replica=2)
    assert launches(two_each, here)[0].environ["OMP_NUM_THREADS"] == "2"
    assert (
        launches(plan(framework="paddle", processes_per_replica=4), here)[0].environ[
            "OMP_NUM_THREADS"
        ]
        == "1"
    )


def test_a_number_of_threads_that_the_plan_sets_stays() -> None:
    first, _ = launches(plan(env={"OMP_NUM_THREADS": "7"}))
    assert first.environ["OMP_NUM_THREADS"] == "7"


def test_variables_are_filled_into_the_command() -> None:
    first, _ = launches(plan("--rank=$(RANK)", "$$(RANK)", "$(NOBODY)"))
    assert first.command[-3:] == ("--rank=0", "$(RANK)", "$(NOBODY)")


PLACES = {"/opt/k8sbench": "/here", "/opt": "/there"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/opt/k8sbench", "/here"),
        ("/opt/k8sbench/a.py", "/here/a.py"),
        ("--dir=/opt/x", "--dir=/there/x"),
        ("/opt/k8sbench:/opt/lib", "/here:/there/lib"),
        ("/optional", "/optional"),
        ("/my/opt/x", "/my/opt/x"),
        ("s3://opt/x", "s3://opt/x"),
        ("/opt/k8sbenchmarks", "/there/k8sbenchmarks"),
        ("", ""),
    ],
)
def test_paths_are_replaced_where_they_are_paths(text: str, expected: str) -> None:
    assert launch.placed(text, PLACES) == expected


def test_a_replacement_is_not_replaced_again() -> None:
    assert launch.placed("/a/x", {"/a": "/b", "/b": "/c"}) == "/b/x"

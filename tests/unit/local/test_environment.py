"""What a replica finds in its environment: the operator's variables, and nobody else's."""

from __future__ import annotations

import msgspec

from k8sbench.adapters.local import launch
from k8sbench.adapters.local.manifest import ManifestJob
from tests.unit.local import examples


def injected(job: ManifestJob, replica: str, address: str, port: int) -> list[str]:
    found = launch.injected(
        job,
        next(each for each in job.replicas if each.name == replica),
        address,
        port,
        pod_ip="10.88.1.7",
    )
    return [f"{name}={value}" for name, value in found]


def named(job: ManifestJob, name: str) -> ManifestJob:
    return msgspec.structs.replace(job, name=name)


# The expected lists are what pods of training-operator v1.9.3 showed on a real cluster.


def test_a_pytorchjobs_master_gets_what_the_operator_gives_it() -> None:
    job = named(examples.job(examples.plan()), "pt2")
    assert injected(job, "master-0", "pt2-master-0", 23456) == [
        "PYTHONUNBUFFERED=1",
        "MASTER_PORT=23456",
        "PET_MASTER_PORT=23456",
        "MASTER_ADDR=pt2-master-0",
        "PET_MASTER_ADDR=pt2-master-0",
        "WORLD_SIZE=2",
        "RANK=0",
        "PET_NODE_RANK=0",
        "PET_NPROC_PER_NODE=1",
        "PET_NNODES=2",
    ]


def test_a_pytorchjobs_workers_are_numbered_behind_the_master() -> None:
    job = examples.job(examples.plan(replicas=3))
    assert [each.name for each in job.replicas] == ["master-0", "worker-0", "worker-1"]
    found = injected(job, "worker-1", "pt2-master-0", 23456)
    assert {"RANK=2", "PET_NODE_RANK=2", "WORLD_SIZE=3", "PET_NNODES=3"} <= set(found)


def test_world_size_counts_processes_not_pods() -> None:
    job = examples.job(examples.plan(processes_per_replica=8))
    found = injected(job, "master-0", "a", 1)
    assert {"WORLD_SIZE=16", "PET_NPROC_PER_NODE=8", "PET_NNODES=2"} <= set(found)


def test_auto_counts_as_one_process_as_in_the_operator() -> None:
    job = msgspec.structs.replace(examples.job(examples.plan()), processes="auto")
    found = injected(job, "master-0", "a", 1)
    assert {"WORLD_SIZE=2", "PET_NPROC_PER_NODE=auto"} <= set(found)


def test_a_paddlejobs_first_worker_is_the_meeting_point_by_its_own_address() -> None:
    job = named(examples.job(examples.plan(framework="paddle")), "pd2")
    assert injected(job, "worker-0", "pd2-worker-0", 36543) == [
        "PYTHONUNBUFFERED=1",
        "PADDLE_JOB_ID=pd2",
        "PADDLE_NNODES=2",
        "POD_IP_DUMMY=10.88.1.7",
        "PADDLE_MASTER=$(POD_IP_DUMMY):36543",
    ]


def test_a_paddlejobs_other_workers_go_to_the_first_ones_service() -> None:
    job = named(examples.job(examples.plan(framework="paddle")), "pd2")
    assert injected(job, "worker-1", "pd2-worker-0", 36543) == [
        "PYTHONUNBUFFERED=1",
        "PADDLE_JOB_ID=pd2",
        "PADDLE_NNODES=2",
        "PADDLE_MASTER=pd2-worker-0:36543",
    ]


def test_variables_refer_to_earlier_ones_as_the_kubelet_has_it() -> None:
    found = launch.resolved(
        [
            ("LATE", "$(EARLY)"),
            ("EARLY", "1"),
            ("BOTH", "$(EARLY)-$(EARLY)"),
            ("ESCAPED", "$$(EARLY)"),
            ("SHELL", "$EARLY ${EARLY}"),
            ("EARLY", "2"),
        ]
    )
    assert found == {
        "LATE": "$(EARLY)",
        "EARLY": "2",
        "BOTH": "1-1",
        "ESCAPED": "$(EARLY)",
        "SHELL": "$EARLY ${EARLY}",
    }


def test_what_python_needs_to_be_found_stays() -> None:
    kept = dict.fromkeys(("PATH", "HOME", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH"), "x")
    assert launch.users_own(kept) == kept

"""The all-reduce of ``doctor --nccl``: its plan, what is read of its lines, and how it ends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.files import catalog, packaged
from k8sbench.adapters.local.cluster import LocalCluster
from k8sbench.lifecycle import bandwidth
from k8sbench.model.choices import Site
from k8sbench.model.errors import Unreachable, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import CPU_POOL
from k8sbench.model.request import SubmitRequest
from k8sbench.model.spec import Framework
from k8sbench.ports import JobEvent, Manifest
from k8sbench.render import manifests
from tests.unit.doctor.clusters import POOL
from tests.unit.lifecycle.played import FakeCluster, at, line

SOURCES = packaged.trainer_sources()


def planned(**changes: Any) -> RunPlan:
    site = Site(backend="kubernetes", pool=changes.pop("pool", POOL), images=packaged.image_table())
    return bandwidth.plan(
        catalog.all_reduce(),
        SubmitRequest(
            benchmark="all-reduce", **{"framework": "pytorch", "replicas": 4, "gpus": 8, **changes}
        ),
        site,
        run_id="allreduce-1",
        trainers_digest=SOURCES.digest,
    )


def rendered(plan: RunPlan) -> Sequence[Manifest]:
    return manifests(plan, templates=packaged.load_templates(), trainers=SOURCES)


def run(*script: JobEvent, **more: Any) -> tuple[bandwidth.Bandwidth, FakeCluster]:
    cluster = FakeCluster(*script, outlives=True)
    outcome = bandwidth.run(
        planned(), (), cluster, Path(), **{"clock": lambda: 0.0, "on_event": lambda _: None, **more}
    )
    return outcome, cluster


ONE_SIZE = (
    'K8SBENCH {"event": "allreduce", "bytes": 1048576, "ranks": 32, "operations": 20,'
    ' "seconds": 0.001, "bus_bytes_per_second": 2031616000.0, "correct": true}'
)


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_the_job_is_rendered_like_a_benchmark_s(framework: Framework) -> None:
    config, job = rendered(planned(framework=framework))
    assert config["data"]["k8sbench.trainers.allreduce.py"]
    replicas = next(value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs"))
    assert sum(each["replicas"] for each in replicas.values()) == 4
    for replica in replicas.values():
        (container,) = replica["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert f"--framework {framework}" in " ".join(container["command"])


def test_a_pool_without_gpus_gets_a_process_per_node_on_cpus() -> None:
    plan = planned(pool=CPU_POOL, gpus=None)
    assert (plan.device, plan.world_size) == ("cpu", 4)
    assert plan.command[-2:] == ("--largest", str(1 << 24))


def test_more_gpus_than_a_node_has_are_for_the_preflight_to_find() -> None:
    plan = planned(gpus=64)
    assert (plan.gpus_per_replica, plan.pool) == (64, POOL)


def test_one_rank_alone_is_refused() -> None:
    with pytest.raises(UsageError, match="nobody to talk to"):
        planned(replicas=1, gpus=1)


def test_queue_and_gang_are_the_job_s() -> None:
    *_, job = rendered(planned(queue="q", gang=True))
    assert job["spec"]["runPolicy"]["suspend"] is True
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 4}


def test_sizes_and_transport_are_read_of_its_lines() -> None:
    readings, transports = bandwidth.read(
        [
            'K8SBENCH {"event": "start", "rank": 0}',
            'K8SBENCH {"event": "environment", "rank": 0, "transport": "IB"}',
            'K8SBENCH {"event": "environment", "rank": 1, "transport": null}',
            ONE_SIZE,
            "1048576 bytes: 1000.0 us, bus bandwidth 2.032 GB/s",
        ]
    )
    assert readings == (
        bandwidth.BandwidthReading(
            bytes=1048576,
            ranks=32,
            operations=20,
            seconds=0.001,
            bus_bytes_per_second=2.031616e9,
            correct=True,
        ),
    )
    assert transports == ("IB",)


@pytest.mark.parametrize("name", ["Socket", "AWS Libfabric"])
def test_nccl_s_own_log_tells_the_transport_too(name: str) -> None:
    text = f"pod-0:61:75 [0] NCCL INFO Using network {name}"
    assert bandwidth.read([text, text])[1] == (name,)


@pytest.mark.parametrize("text", ["K8SBENCH {", "K8SBENCH []", 'K8SBENCH {"event": "allreduce"}'])
def test_lines_that_are_broken_are_passed_over(text: str) -> None:
    assert bandwidth.read([text, ONE_SIZE])[0][0].bytes == 1048576


def test_a_job_that_succeeds_is_read_and_deleted() -> None:
    outcome, cluster = run(at(Phase.RUNNING), line(ONE_SIZE), at(Phase.SUCCEEDED))
    assert outcome.end.phase is Phase.SUCCEEDED
    assert [reading.bytes for reading in outcome.readings] == [1048576]
    assert outcome.last_lines == ()
    assert cluster.removed == ["allreduce-1"]


def test_a_job_that_fails_tells_its_last_lines_and_is_deleted() -> None:
    outcome, cluster = run(line("NCCL WARN no device"), at(Phase.FAILED, "master-0 ended."))
    assert outcome.end.cause == "master-0 ended."
    assert outcome.last_lines == ("master-0: NCCL WARN no device",)
    assert cluster.removed == ["allreduce-1"]


def test_a_job_that_waits_in_vain_is_ended_with_that_cause() -> None:
    waits = at(Phase.PENDING, "No node fits.", cause_id="request-too-large", unrecoverable=True)
    outcome, cluster = run(waits)
    assert cluster.cancelled == [("No node fits.", "request-too-large")]
    assert outcome.end.cause_id == "request-too-large"


def test_a_job_that_takes_too_long_is_ended() -> None:
    outcome, cluster = run(at(Phase.PENDING), clock=itertools.count(0.0, 500.0).__next__)
    assert outcome.end.cause_id == "timeout"
    assert cluster.removed == ["allreduce-1"]


def test_a_job_that_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCluster, "cancel", lambda *_: None)
    with pytest.raises(Unreachable, match="allreduce-1 is to end"):
        run(at(Phase.PENDING), clock=itertools.count(0.0, 100.0).__next__)


def test_an_interrupt_ends_the_job() -> None:
    outcome, cluster = run(at(Phase.RUNNING), stopped=lambda: "Interrupted (Ctrl-C)")
    assert cluster.cancelled == [("Interrupted (Ctrl-C)", "interrupted")]
    assert outcome.end.cause_id == "interrupted"


def test_an_error_on_the_way_ends_the_job_too() -> None:
    cluster = FakeCluster(at(Phase.RUNNING), KeyboardInterrupt(), outlives=True)
    with pytest.raises(KeyboardInterrupt):
        bandwidth.run(planned(), (), cluster, Path(), clock=lambda: 0.0, on_event=lambda _: None)
    assert [cause_id for _, cause_id in cluster.cancelled] == ["interrupted"]


@pytest.mark.tier("frameworks")
@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_the_program_sums_up_over_real_processes(framework: Framework, tmp_path: Path) -> None:
    plan = planned(framework=framework, pool=CPU_POOL, replicas=2, gpus=None)
    cluster = LocalCluster()
    try:
        outcome = bandwidth.run(
            plan, rendered(plan), cluster, tmp_path, clock=lambda: 0.0, on_event=lambda _: None
        )
    finally:
        cluster.close()
    assert outcome.end.phase is Phase.SUCCEEDED, outcome
    assert [reading.bytes for reading in outcome.readings] == [4**n * 1024 for n in range(1, 8)]
    assert outcome.transports == ("socket",)
    for reading in outcome.readings:
        assert reading.correct
        assert reading.ranks == 2
        # Of two ranks each sends the vector once: bus bandwidth is size by time.
        assert reading.bus_bytes_per_second == pytest.approx(
            reading.bytes / reading.seconds, rel=1e-3
        )

"""Facts of jobs that somebody else created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.app import observe
from k8sbench.app.observe import ObserveOptions
from k8sbench.catalog import imported_logs
from k8sbench.catalog.imported_logs import LogOrigin, MeasuredLog
from k8sbench.catalog.measure_options import MeasureOptions
from k8sbench.model import observed_job
from k8sbench.model.errors import UsageError
from k8sbench.model.facts import facts_of, stand_in
from k8sbench.model.identity import case_key
from k8sbench.model.kinds import OBSERVED
from k8sbench.model.run import Location, Run
from k8sbench.model.sample import LogGap
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.report import columns, document
from tests.results.groups.grouped import report
from tests.unit.model.measurements import measurement
from tests.unit.render.plans import plan
from tests.unit.store import schemas

UID = "0b5f6c1e-8f3c-4d64-9a53-0d5d6a7a4e11"


def metadata(name: str = "llama", **more: Any) -> dict[str, Any]:
    at = "2026-11-28T02:00:00Z"
    return {"name": name, "namespace": "team-a", "uid": UID, "creationTimestamp": at, **more}


def container(name: str = "trainer", gpus: int = 8, **more: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {"name": name, "image": "example.org/llama:1", "resources": resources, **more}


def job(name: str = "llama", *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    template = {"spec": {"containers": list(containers) or [container()]}}
    return {"metadata": metadata(name, **more), "spec": {"template": template}}


def replicated(name: str, pods: int, gpus: int, *, jobs: int = 1) -> dict[str, Any]:
    template = {"spec": {"containers": [container("node", gpus)]}}
    inner = {"parallelism": pods, "completions": pods, "template": template}
    return {"name": name, "replicas": jobs, "template": {"spec": inner}}


def job_set(*jobs: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": metadata(), "spec": {"replicatedJobs": list(jobs)}}


def facts(found: dict[str, Any], kind: str = "job", **more: Any) -> observed_job.JobFacts:
    return observed_job.read_facts(OBSERVED[kind], found, **more)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("llama-20261128", "llama"),
        ("llama-2026-11-28", "llama"),
        ("llama-20261128-0200", "llama"),
        ("llama-1795831200", "llama"),
        ("llama-8b", "llama-8b"),
        ("llama-70b", "llama-70b"),
        ("gpt-124", "gpt-124"),
        ("resnet-1234567", "resnet-1234567"),
    ],
)
def test_only_a_date_is_cut_from_a_name(name: str, case: str) -> None:
    assert observed_job.case_name(job(name)) == case


def test_a_case_has_the_name_of_the_label_the_cron_job_or_the_generated_name() -> None:
    owner = {"ownerReferences": [{"kind": "CronJob", "name": "nightly", "uid": "1"}]}
    generated = {"generateName": "llama-"}
    label = {"labels": {"k8sbench.io/benchmark": "resnet50"}}
    assert observed_job.case_name(job("x-1", **generated, **owner, **label)) == "resnet50"
    assert observed_job.case_name(job("x-1", **generated, **owner)) == "nightly"
    assert observed_job.case_name(job("llama-x7k2p", **generated)) == "llama"
    by_night = {"generateName": "llama-20261127-"}
    assert observed_job.case_name(job("llama-20261127-x7k2p", **by_night)) == "llama"


def test_a_run_id_tells_apart_jobs_of_one_name() -> None:
    again = job()
    again["metadata"]["uid"] = "another"
    elsewhere = job()
    elsewhere["metadata"]["namespace"] = "team-b"
    ids = {facts(one).run_id for one in (job(), again, elsewhere)}
    assert len(ids) == 3
    assert all(run_id.startswith("llama-") for run_id in ids)
    assert facts(job("1.node")).run_id.startswith("job-1-node-")


@pytest.mark.parametrize("text", ["llama", "trainjob/", "a/b/c"])
def test_a_job_is_named_by_kind_and_name(text: str) -> None:
    with pytest.raises(UsageError):
        observed_job.parse_job_name(text)


def test_kinds_are_those_of_kubectl() -> None:
    assert observed_job.parse_job_name("trainjobs.trainer.kubeflow.org/llama")[0].name == "TrainJob"
    assert observed_job.parse_job_name("Job/llama")[1] == "llama"
    with pytest.raises(UsageError, match="trainjob"):
        observed_job.parse_job_name("trainjbo/llama")


# -- replicas --------------------------------------------------------------------------------------


def test_a_train_job_has_the_replicas_of_its_job_set_that_have_gpus() -> None:
    made = job_set(replicated("dataset-initializer", 1, 0), replicated("node", 2, 8))
    found = facts({"metadata": metadata(), "spec": {}}, "trainjob", child=made)
    assert found.job.replicas == ("node-0", "node-1")
    assert (found.job.container, found.gpus_per_replica) == ("node", 8)


def test_replicas_of_several_jobs_of_a_role_are_numbered() -> None:
    found = facts(job_set(replicated("worker", 2, 4, jobs=2)), "jobset")
    assert found.job.replicas == ("worker-0", "worker-1", "worker-1-0", "worker-1-1")


@pytest.mark.parametrize(
    ("kind", "pod", "replica"),
    [
        ("trainjob", "llama-node-0-1-x7k2p", "node-1"),
        ("jobset", "llama-worker-1-0-x7k2p", "worker-1-0"),
        ("jobset", "llama-data-loader-0-3-x7k2p", "data-loader-3"),
        ("job", "llama-x7k2p", "pod-0"),
        ("job", "llama-3-x7k2p", "pod-3"),
        ("pytorchjob", "llama-worker-2", "worker-2"),
    ],
)
def test_a_pod_is_a_replica_by_its_name(kind: str, pod: str, replica: str) -> None:
    assert OBSERVED[kind].replica_of(pod, "llama") == replica


def test_the_master_is_the_first_replica() -> None:
    template = {"spec": {"containers": [container("pytorch", 4)]}}
    roles = {
        "Worker": {"replicas": 3, "template": template},
        "Master": {"replicas": 1, "template": template},
    }
    found = facts({"metadata": metadata(), "spec": {"pytorchReplicaSpecs": roles}}, "pytorchjob")
    assert found.job.replicas == ("master-0", "worker-0", "worker-1", "worker-2")


def test_a_role_without_pods_does_not_count() -> None:
    made = job_set(replicated("node", 1, 8), replicated("spare", 2, 8, jobs=0))
    assert facts(made, "jobset").job.replicas == ("node-0",)
    template = {"spec": {"containers": [container("pytorch", 8)]}}
    roles = {
        "Master": {"replicas": 1, "template": template},
        "Worker": {"replicas": 0, "template": template},
    }
    found = facts({"metadata": metadata(), "spec": {"pytorchReplicaSpecs": roles}}, "pytorchjob")
    assert found.job.replicas == ("master-0",)
    roles["Master"]["replicas"] = 0
    with pytest.raises(UsageError, match="no replicas"):
        facts({"metadata": metadata(), "spec": {"pytorchReplicaSpecs": roles}}, "pytorchjob")


@pytest.mark.parametrize(
    ("stated", "gpus"), [(4, 4), ("4", 4), ("auto", 8), ("gpu", 8), (16, 8), (0, 8), (None, 8)]
)
@pytest.mark.parametrize("kind", ["pytorchjob", "trainjob", "jobset"])
def test_gpus_without_a_process_do_not_count(kind: str, stated: Any, gpus: int) -> None:
    made = job_set(replicated("node", 2, 8))
    if kind == "pytorchjob":
        template = {"spec": {"containers": [container("pytorch", 8)]}}
        roles = {"Master": {"replicas": 1, "template": template}}
        spec = {"pytorchReplicaSpecs": roles, "nprocPerNode": stated}
        found = facts({"metadata": metadata(), "spec": spec}, kind)
    elif kind == "trainjob":
        spec = {"trainer": {"numProcPerNode": stated}}
        found = facts({"metadata": metadata(), "spec": spec}, kind, child=made)
    else:
        (one,) = made["spec"]["replicatedJobs"]
        (program,) = one["template"]["spec"]["template"]["spec"]["containers"]
        program["env"] = [{"name": "PET_NPROC_PER_NODE", "value": stated and str(stated)}]
        found = facts(made, kind)
    assert found.gpus_per_replica == gpus


def test_the_gpus_of_other_containers_do_not_count() -> None:
    template = {"spec": {"containers": [container("pytorch", 8), container("probe", 1)]}}
    roles = {"Master": {"replicas": 1, "template": template}}
    found = facts({"metadata": metadata(), "spec": {"pytorchReplicaSpecs": roles}}, "pytorchjob")
    assert (found.job.container, found.gpus_per_replica) == ("pytorch", 8)


def test_pods_without_ranks_are_refused() -> None:
    several = job()
    several["spec"]["completions"] = 2
    with pytest.raises(UsageError):
        facts(several)
    several["spec"]["completionMode"] = "Indexed"
    assert facts(several).job.replicas == ("pod-0", "pod-1")


def test_replicas_that_are_not_alike_are_refused() -> None:
    with pytest.raises(UsageError, match="alike"):
        facts(job_set(replicated("a", 1, 8), replicated("b", 1, 4)), "jobset")


# -- container -------------------------------------------------------------------------------------


def test_the_container_with_gpus_trains() -> None:
    assert facts(job("llama", container("sidecar", 0), container())).job.container == "trainer"


def test_without_gpus_an_annotation_names_the_container() -> None:
    two = (container("sidecar", 0), container("trainer", 0))
    with pytest.raises(UsageError, match="container"):
        facts(job("llama", *two))
    named = {"annotations": {"k8sbench.io/container": "trainer"}}
    assert facts(job("llama", *two, **named)).job.container == "trainer"


# -- credentials -----------------------------------------------------------------------------------


def test_only_variables_of_the_list_are_recorded() -> None:
    env = [
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "DATABASE", "value": "s3cr3tvalue"},
        {"name": "CUDA_HOME", "valueFrom": {}},
        {"name": "TORCH_HUB_TOKEN", "value": "s3cr3tvalue"},
    ]
    command = ["python", "a.py", "--hf-token", "s3cr3tvalue"]
    found = facts(job("llama", container(env=env, command=command)))
    assert found.environment == {
        "job_command": "python a.py --hf-token ***",
        "job_env.NCCL_DEBUG": "INFO",
        "job_env.TORCH_HUB_TOKEN": "***",
    }
    assert found.image == "example.org/llama:1"


# -- what is missing -------------------------------------------------------------------------------


def lacking(known: observed_job.JobFacts, status: dict[str, Any], **restarts: int) -> list[str]:
    seen = {name.replace("_", "-"): count for name, count in restarts.items()}
    return [gap.replica for gap in observed_job.missing_logs(known, {"status": status}, None, seen)]


def test_attempts_that_a_job_counts_and_nobody_saw_are_named() -> None:
    known = facts(job())
    assert lacking(known, {"failed": 2, "succeeded": 1}, pod_0=2) == []
    assert lacking(known, {"failed": 2, "succeeded": 1}, pod_0=0) == [
        "pod-0.attempt-1",
        "pod-0.attempt-2",
    ]
    of_set = facts(job_set(replicated("worker", 2, 4)), "jobset")
    assert lacking(of_set, {"restarts": 1}, worker_0=1, worker_1=1) == []
    assert lacking(of_set, {"restarts": 1}, worker_0=0) == ["worker-1", "worker-0.attempt-1"]


def test_a_recorded_pod_that_was_gone_before_its_log_was_read_is_named() -> None:
    pods = {"pod-0": {"a": False, "b": True, "c": False}, "pod-1": {"d": False}}
    ends = {"pod-0": 1.0, "pod-0.restart-1": 3.0, "pod-0.pod-2": 5.0, "pod-1": 7.0}
    cut = LogGap(replica="pod-1", after=7.0, before=None, why="named before")
    gaps = list(observed_job.unread_pods(pods, ends, [cut]))
    assert [(gap.replica, gap.after) for gap in gaps] == [("pod-0", 3.0), ("pod-0.pod-3", None)]


def test_an_observed_run_is_another_case_than_a_run_of_ours() -> None:
    ours = plan("1x8")
    theirs = msgspec.structs.replace(ours, backend="observed")
    assert case_key(theirs) != case_key(ours)


# -- progress --------------------------------------------------------------------------------------


def reports(**said: Any) -> str | None:
    return observed_job.describe_progress(
        {"metadata": metadata(), "status": {"trainerStatus": said}}
    )


def test_of_several_sources_of_a_fact_the_log_is_named_then_the_option() -> None:
    names = ("precision", "batch-size", "gpu-model")
    annotations = {f"k8sbench.io/{name}": "x" for name in names}
    options = MeasureOptions(precision="amp", batch_size=4)
    given = observed_job.annotation_sources(facts(job(annotations=annotations))) | options.sources
    log = MeasuredLog(
        measurement(),
        LogOrigin(file="l"),
        None,
        sources={"precision": "line 7 of the log"},
    )
    found = imported_logs.stated_by(log, facts_of(plan()), given)
    assert found["precision"] == "line 7 of the log"
    assert found["batch_size"] == "option --batch-size"
    assert found["gpu_model"] == "annotation k8sbench.io/gpu-model"


def test_what_a_program_reports_is_said_and_nothing_where_it_does_not() -> None:
    at = "2026-11-28T02:10:00Z"
    losses = [{"name": name, "value": "2.5"} for name in ("loss", *"abcdefg")]
    said = reports(
        progressPercentage=0, estimatedRemainingSeconds=90, metrics=losses, lastUpdatedTime=at
    )
    assert said is not None
    assert "0 % done, " in said
    assert "loss 2.5" in said
    assert said.count("2.5") == observed_job.MOST_METRICS
    assert reports(lastUpdatedTime=at) is None
    assert observed_job.describe_progress({"metadata": metadata()}) is None


def test_a_job_without_a_log_has_none_to_shorten(tmp_path: Path) -> None:
    assert list(observe.shortened(tmp_path)) == []


# -- a job whose log is not read -------------------------------------------------------------------


def unread(gpus: int) -> Run:
    options = ObserveOptions(job="job/llama", measured=MeasureOptions())
    place = Location(server="https://192.0.2.1", namespace="team-a")
    return observe.run_of(facts(job("llama", container(gpus=gpus))), place, options)


@pytest.mark.parametrize(("gpus", "case", "device"), [(8, "1x8", "cuda"), (0, None, None)])
def test_what_no_object_states_is_no_fact(gpus: int, case: str | None, device: str | None) -> None:
    run = unread(gpus)
    found = run.facts
    assert run.planned is None
    assert facts_of(stand_in(found)) == found
    assert (found.case, found.device, found.world_size) == (case, device, gpus or None)
    unstated = (found.framework, found.precision, found.batch_size, found.global_batch)
    assert unstated == (None, None, None, None)


@pytest.mark.parametrize("gpus", [8, 0])
def test_no_output_shows_a_placeholder(gpus: int) -> None:
    run = unread(gpus)
    listed = document.listed(run)
    assert (listed.framework, listed.precision) == (None, None)
    assert document.status(run).plan is None

    (result,) = report([run], Wanted()).results
    row = document.row(result)
    written = msgspec.json.encode(document.document([result], []))
    schemas.validate("results", msgspec.json.decode(written))
    names = {"framework", "precision", "batch_size_per_gpu", "amp_dtype", "throughput"}
    if not gpus:
        names |= {"case", "processes_per_replica", "gpus", "device", "gpu_hours"}
    assert {name for name in names if row[name] is not None} == set()
    assert names <= row["missing"].keys()
    texts = [column.cell(result).text for column in columns.COLUMNS]
    assert {"fp32", "unknown", "0", "CPU"}.isdisjoint(texts)


@pytest.mark.parametrize("gpus", [8, 0])
def test_a_run_and_a_group_of_an_earlier_release_are_read(gpus: int) -> None:
    run = unread(gpus)
    (result,) = report([run], Wanted()).results
    for document_of in (run, result.group):
        written = msgspec.json.decode(msgspec.json.encode(document_of))
        assert written["plan"] is None
        del written["facts"]
        written["plan"] = msgspec.to_builtins(stand_in(run.facts))
        assert msgspec.convert(written, type(document_of)) == document_of

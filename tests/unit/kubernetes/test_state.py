"""The state of a job from small objects."""

from __future__ import annotations

import json
from typing import Any

from k8sbench.diagnose.job import state
from k8sbench.model.phase import Phase
from tests.unit.kubernetes.objects import (
    FAILED,
    JOB,
    RUNS,
    condition,
    ended,
    event,
    job,
    pod,
    read,
    seen,
    stamp,
    unplaced,
    waits,
)

RUNNING = job(condition("Created"), condition("Running"))
SUCCEEDED = job(condition("Running", status="False"), condition("Succeeded", at=60))


def nothing(of: dict[str, Any] | None, **more: Any) -> state.JobSnapshot:
    return state.JobSnapshot(job=of, **more)


def test_a_job_whose_pods_are_gone_or_may_not_be_read_runs_as_the_operator_says() -> None:
    reading = read(nothing(RUNNING), after=60)
    assert reading.phase is Phase.RUNNING
    assert reading.cause == "The operator says that the job runs; none of its pods is seen."


def test_a_job_that_its_queue_stopped_and_let_go_again_is_pending_until_its_pods_come() -> None:
    gone = pod() | {"_deleted": True}
    resumed = job(condition("Running"), condition("Suspended", status="False"))
    assert read(seen(gone, of=resumed)).phase is Phase.PENDING
    # Of any other job the operator tells at once what became of it.
    assert read(seen(gone, of=RUNNING)).phase is Phase.RUNNING


def test_an_image_that_is_being_pulled_is_seen_by_its_events() -> None:
    pulling = event("Pulling", "Pulling image", f"{JOB}-worker-0")
    creating = pod(state=waits("ContainerCreating"))
    reading = read(seen(creating, events=[pulling]))
    assert (reading.phase, reading.cause) == (Phase.PULLING, "Image being pulled for worker-0.")
    pulled = event("Pulled", "Successfully pulled", f"{JOB}-worker-0")
    assert read(seen(creating, events=[pulling, pulled])).phase is Phase.STARTING


def test_a_calm_job_has_a_sentence_and_no_cause() -> None:
    for found, sentence in (
        (nothing(job()), "The job is created."),
        (seen(), "1 of 2 replicas have a node."),
        (seen(pod(state=waits("ContainerCreating"))), "1 of 2 replicas have started."),
        (seen(pod()), "All 2 replicas run."),
    ):
        reading = read(found)
        assert (reading.cause, reading.cause_id, reading.action) == (sentence, None, None)


def test_an_image_without_a_registry_has_no_digest() -> None:
    found = seen(pod())
    status = found.pods[f"{JOB}-worker-0"]["status"]["containerStatuses"][0]
    status["imageID"] = "sha256:4567"
    assert read(found).replicas[1].image is None


# --- the end -------------------------------------------------------------------------------------


def test_a_worker_that_never_came_to_an_end_is_not_said_to_have_succeeded() -> None:
    waiting = unplaced("0/1 nodes are available: 1 Insufficient cpu.")
    found = seen(waiting, of=SUCCEEDED)
    found.pods = {**found.pods, f"{JOB}-master-0": pod("master-0", ended(0))}
    assert read(found).cause == "master-0 succeeded; of worker-0 no end was seen."


def test_pods_that_the_operator_makes_anew_after_a_limit_are_not_waited_for() -> None:
    limit = "Job job has failed because it has reached the specified backoff limit"
    found = seen(
        pod(metadata={"creationTimestamp": stamp(60)}),
        of=job(condition("Failed", limit, at=60)),
        events=[event("SuccessfulCreatePod", f"Created pod: {JOB}-worker-0", count=2)],
    )
    found.pods = {name: one for name, one in found.pods.items() if "worker" in name}
    assert read(found).over


def test_an_end_that_no_operator_tells_is_read_from_the_pods_after_half_a_minute() -> None:
    found = seen(pod("master-0", ended(0, at=50)), pod(state=ended(0, at=60)), of=RUNNING)
    reading = read(found, after=85)
    assert (reading.phase, reading.look_again_s) == (Phase.RUNNING, 30.0)
    assert read(found, after=90).phase is Phase.SUCCEEDED
    found.pods = {**found.pods, f"{JOB}-worker-0": pod(state=ended(3, at=60))}
    reading = read(found, after=90)
    assert (reading.phase, reading.cause_id) == (Phase.FAILED, "replica-failed")


def beside(state: dict[str, Any], replica: str = "worker-0") -> dict[str, Any]:
    """A pod whose training container is in this state; another runs on in it."""
    found = pod(replica, state, phase="Running")
    sidecar = {"name": "istio-proxy", "image": "b", "state": {"running": {"startedAt": stamp(1)}}}
    found["status"]["containerStatuses"].insert(0, sidecar)
    return found


def test_a_sidecar_that_runs_on_does_not_keep_the_run_from_its_end() -> None:
    """The operator waits for the pods' end, and so for ever."""
    found = seen(beside(ended(0, at=50), "master-0"), beside(ended(0, at=60)), of=RUNNING)
    reading = read(found, after=61)
    assert (reading.phase, reading.look_again_s) == (Phase.RUNNING, 30.0)
    reading = read(found, after=90)
    assert (reading.phase, reading.over) == (Phase.SUCCEEDED, True)
    assert reading.cause == "All 2 replicas succeeded."


def test_a_replica_that_failed_beside_a_sidecar_is_reported_and_fails_the_run_with_the_last() -> (
    None
):
    found = seen(beside(RUNS, "master-0"), beside(ended(3, at=60)), of=RUNNING)
    assert read(found, after=61).cause_id is None
    reading = read(found, after=70)
    assert (reading.phase, reading.cause) == (Phase.RUNNING, "worker-0 exited with code 3.")
    found.pods = {**found.pods, f"{JOB}-master-0": beside(ended(1, at=71), "master-0")}
    reading = read(found, after=101)
    assert (reading.phase, reading.cause) == (Phase.FAILED, "worker-0 exited with code 3.")
    assert reading.over


def test_after_the_master_s_success_a_sidecar_hides_neither_success_nor_failure() -> None:
    found = seen(pod("master-0", ended(0)), beside(ended(0)), of=SUCCEEDED)
    reading = read(found)
    assert (reading.cause, reading.over) == ("All 2 replicas succeeded.", True)
    found.pods = {**found.pods, f"{JOB}-worker-0": beside(ended(4))}
    reading = read(found)
    assert (reading.phase, reading.cause) == (Phase.FAILED, "worker-0 exited with code 4.")


def test_a_replica_that_the_operator_restarts_is_no_end() -> None:
    found = seen(
        pod("master-0", ended(1, at=50)),
        pod(state=ended(1, at=60)),
        of=job(condition("Running"), restart_policy="OnFailure"),
    )
    assert not read(found, after=500).phase.final


def test_a_container_that_could_not_be_started_has_not_run() -> None:
    found = seen(pod(state=ended(128, "StartError", at=60)), of=RUNNING)
    assert read(found, after=61).phase is Phase.STARTING


def test_a_container_that_has_ended_ran_while_its_pod_has_not_ended() -> None:
    found = seen(pod(state=ended(1), phase="Running"), of=RUNNING)
    assert (read(found).phase, read(found).replicas[1].phase) == (Phase.RUNNING, Phase.RUNNING)


# --- cancelled -----------------------------------------------------------------------------------


def cancelled(**reported: Any) -> dict[str, str]:
    return {state.CANCEL_ANNOTATION: json.dumps(reported)}


def test_a_cancelled_job_tells_the_cause_that_was_given() -> None:
    reported = cancelled(cause="It outlived --timeout 10 s.", cause_id="timeout", at=1.0)
    reading = read(seen(pod(), of=job(annotations=reported)))
    assert (reading.phase, reading.cause_id) == (Phase.CANCELLED, "timeout")
    assert reading.cause == "It outlived --timeout 10 s."
    assert not reading.over


def test_a_wait_that_was_unrecoverable_ends_as_failed() -> None:
    reported = cancelled(cause="No node.", cause_id="no-matching-node", phase="Failed")
    reading = read(nothing(job(annotations=reported), deleted=True))
    assert (reading.phase, reading.cause_id) == (Phase.FAILED, "no-matching-node")
    assert reading.over


def test_what_cancelling_makes_of_the_replicas_is_not_the_cause() -> None:
    reported = cancelled(cause="Enough.", cause_id="user")
    reading = read(seen(pod(state=ended(143)), of=job(FAILED, annotations=reported), deleted=True))
    assert (reading.phase, reading.cause) == (Phase.CANCELLED, "Enough.")


def test_a_job_that_had_succeeded_stays_so() -> None:
    reported = cancelled(cause="Too late.", cause_id="user")
    of = {**SUCCEEDED, "metadata": job(annotations=reported)["metadata"]}
    for deleted in (False, True):
        assert read(seen(pod(state=ended(0)), of=of, deleted=deleted)).phase is Phase.SUCCEEDED


def test_an_annotation_that_cannot_be_read_still_cancels() -> None:
    reading = read(nothing(job(annotations={state.CANCEL_ANNOTATION: "{"})))
    assert (reading.phase, reading.cause_id) == (Phase.CANCELLED, "cancelled")


def test_a_deletion_that_was_asked_for_waits_for_finalizers() -> None:
    asked = {"deletionTimestamp": stamp(5)}
    assert state.kept_by({"metadata": {"finalizers": ["a/b"]}}) is None
    assert state.kept_by({"metadata": asked}) is None
    told = state.kept_by({"metadata": {**asked, "finalizers": ["a/b", "c/d"]}})
    assert told is not None
    assert "a/b, c/d" in told

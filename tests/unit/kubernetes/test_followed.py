"""Events of a followed job, apart from its readings."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from k8sbench.adapters.kubernetes import listing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.logs.streams import Failing
from k8sbench.adapters.kubernetes.watch_events import ObjectChanged, ObjectDeleted
from k8sbench.adapters.kubernetes.watching.end_detector import logs_to_wait_for
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION
from k8sbench.model import creation, observed_job
from k8sbench.model.creation import job_created
from k8sbench.model.kinds import OBSERVED
from k8sbench.model.kube import JobOwner, KubeObject
from k8sbench.model.names import WAITS_ANNOTATION
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.replica_logs import LogLine, LogMark
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent, KnownPods
from tests.unit.kubernetes.objects import JOB, PLAN, START, condition, ended, job, pod, stamp, waits
from tests.unit.local.exits import torchrun
from tests.unit.presence import present

OURS = {"ownerReferences": [{"uid": "job-1"}]}
END, LATER = 60, 65
"""Seconds after the job was created."""


def a_run(uid: str | None, attempt: int) -> Run:
    """Make a run at an attempt, with its job's uid if known."""
    begun = [job_created(0.0, uid)]
    begun += [creation.attempt_restarts(PLAN, one, "It failed.", 0.0) for one in range(1, attempt)]
    return Run(planned=PLAN, created_at=0.0, process=None, history=tuple(begun), artifacts=None)


def watched(
    phase: Phase,
    *jobs: dict[str, Any],
    uid: str | None = None,
    attempt: int = 1,
    marks: Mapping[str, LogMark] | None = None,
) -> Followed:
    """Follow a job that was reported in a phase, and is seen since."""
    reported = Transition(phase=phase, at=START, cause="")
    one = Followed(a_run(uid, attempt), reported=reported, since=0.0, marks=marks)
    for seen in jobs:
        one.take(ObjectChanged("PyTorchJob", seen))
    return one


def followed() -> Followed:
    """Follow a job that ran and has succeeded since."""
    succeeded = job(condition("Running", status="False"), condition("Succeeded", at=END))
    one = watched(Phase.RUNNING, succeeded)
    take(one, pod())
    return one


def take(one: Followed, worker: dict[str, Any]) -> None:
    one.take(ObjectChanged("Pod", {**worker, "metadata": {**worker["metadata"], **OURS}}))


def transition(event: JobEvent) -> Transition:
    return present(event.transition)


def test_an_end_is_reported_once_while_the_logs_are_read_and_at_the_time_that_it_had() -> None:
    one, now = followed(), START + LATER
    reading, _ = one.read(now)
    (event,) = one.ending(reading, now)
    ending = transition(event)
    assert (ending.phase, ending.cause_id, ending.at) == (
        Phase.RUNNING,
        LOGS_BEING_READ,
        START + END,
    )
    assert ending.cause.startswith("The job has succeeded; its logs are being read")
    assert not list(one.ending(reading, now + 1))
    end = transition(one.move(reading, now))
    assert (end.phase, end.at) == (Phase.SUCCEEDED, START + END)


def test_nothing_is_said_to_have_ended_that_was_never_seen() -> None:
    one = watched(Phase.CREATED, marks={})
    one.take_absence()
    reading, _ = one.read(START + LATER)
    assert reading.phase is Phase.LOST
    assert not list(one.ending(reading, START + LATER))


def test_a_pod_that_still_ends_while_another_replaces_it_is_one_restart() -> None:
    one = watched(Phase.RUNNING, job(condition("Running")))
    old, new = (pod(metadata={**OURS, "uid": uid}) for uid in ("old", "new"))
    for seen in (old, new, old, new, old):
        one.take(ObjectChanged("Pod", seen))
    (replica,) = (one for one in one.read(START + LATER)[1] if one.restarts)
    assert (replica.restarts, replica.meta["uid"]) == (1, "new")


# -- the pods of an observed job ------------------------------------------------------------------


TRAINER = {"template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}}
OBSERVED_JOB = msgspec.structs.replace(
    observed_job.read_facts(OBSERVED["job"], {**job(), "spec": TRAINER}).job,
    kind="PyTorchJob",
    replicas=("master-0", "worker-0"),
)
OF_OTHERS = msgspec.structs.replace(PLAN, observed=OBSERVED_JOB)


def of_others(pods: KnownPods | None = None) -> Followed:
    """Follow a running job of somebody else; ``pods`` are on record."""
    run = msgspec.structs.replace(a_run("job-1", 1), planned=OF_OTHERS)
    reported = Transition(phase=Phase.RUNNING, at=START, cause="")
    one = Followed(run, reported=reported, since=0.0, marks={}, pods=pods)
    one.take(ObjectChanged("PyTorchJob", job(condition("Running"))))
    return one


def worker(uid: str, at: float = 1) -> KubeObject:
    return pod(metadata={**OURS, "uid": uid, "creationTimestamp": stamp(at)})


def logs(one: Followed) -> dict[str, str]:
    """Return the pods' uids by the names of their logs."""
    _, replicas = one.read(START + LATER)
    found = [pair for replica in replicas for pair in one.logs_of(replica)]
    return {name: replica.meta["uid"] for name, replica in found}


def recorded(one: Followed) -> KnownPods | None:
    """Return what is to be recorded of the pods as another process reads it."""
    known = [event.pods for event in one.new_pods()]
    return msgspec.json.decode(msgspec.json.encode(known[0])) if known else None


def test_a_pod_keeps_its_number_when_another_process_follows_its_job() -> None:
    first = of_others()
    first.take(ObjectChanged("Pod", worker("one")))
    assert logs(first) == {"worker-0": "one"}
    first.set_log_read("one", is_read=False)
    assert recorded(first) == {"worker-0": {"one": False}}
    assert recorded(first) is None
    second = of_others({"worker-0": {"one": False}})
    second.take(ObjectChanged("Pod", worker("two", 9)))
    assert logs(second) == {"worker-0.pod-2": "two"}
    assert recorded(second) == {"worker-0": {"one": False, "two": True}}
    third = of_others({"worker-0": {"one": False, "two": True}})
    for uid, at in (("two", 9), ("three", 20)):
        third.take(ObjectChanged("Pod", worker(uid, at)))
    assert logs(third) == {"worker-0.pod-2": "two", "worker-0.pod-3": "three"}
    third.set_log_read("two", is_read=True)
    assert recorded(third) == {"worker-0": {"one": False, "two": True, "three": True}}


def test_the_pods_of_a_run_without_a_record_are_numbered_as_they_are_seen() -> None:
    one = of_others({})
    one.take(ObjectChanged("Pod", worker("two", 9)))
    assert logs(one) == {"worker-0": "two"}


def test_a_log_continues_behind_the_archived_lines_of_its_newest_container() -> None:
    first = LogMark(at=1.0, lines=1)
    third = LogMark(at=3.0, lines=1)
    one = watched(Phase.RUNNING, marks={"master-0": first, "master-0.restart-2": third})
    assert [one.mark_of("master-0", restarts) for restarts in range(4)] == [
        *(first, first),
        *(third, third),
    ]
    assert one.mark_of("worker-0", 2) is None
    assert watched(Phase.RUNNING).mark_of("master-0", 1) is None


def test_a_deleted_pod_that_was_never_seen_is_one_of_the_attempts() -> None:
    one = of_others()
    one.take(ObjectChanged("Pod", worker("three", 20)))
    one.take(ObjectDeleted("Pod", f"{JOB}-worker-0", "two", worker("two", 9)))
    one.take(ObjectDeleted("Pod", f"{JOB}-worker-0", "old", worker("old", -9)))
    assert set(logs(one).values()) == {"two", "three"}
    ours = followed()
    ours.take(ObjectDeleted("Pod", f"{JOB}-worker-0", "two", worker("two")))
    assert [one.restarts for one in ours.read(START + LATER)[1]] == [0, 0]


# -- logs that cannot be read ---------------------------------------------------------------------


def test_a_job_that_stays_for_its_logs_says_so_and_what_to_do() -> None:
    one, now = followed(), START + LATER
    reading, _ = one.read(now)
    left = transition(
        one.incomplete(reading, now, {"master-0": "HTTP status 502", "worker-0": "x"})
    )
    assert (left.phase, left.cause_id) == (Phase.RUNNING, LOGS_INCOMPLETE)
    # The run has ended when its job did, and not when its logs were read in the end.
    assert (left.at, transition(one.move(reading, now)).at) == (START + END, START + END)
    assert left.cause == (
        "The job has succeeded, and it stays with its pods: the log of master-0 and 1 more cannot"
        " be read now (HTTP status 502)."
    )
    assert left.action == (
        "When logs can be read again: k8sbench collect job; to end the run without these lines:"
        " k8sbench cancel job"
    )


@pytest.mark.parametrize(
    "end",
    [
        ObjectChanged(
            "PyTorchJob", job(condition("Succeeded"), annotations={CANCEL_ANNOTATION: "{}"})
        ),
        ObjectDeleted("PyTorchJob", JOB, "job-1", None),
        None,
    ],
    ids=["cancelled", "deleted", "unwanted"],
)
def test_no_log_is_waited_for_of_a_job_that_is_to_end(
    end: ObjectChanged | ObjectDeleted | None,
) -> None:
    one, failing = followed(), Failing(0.0, {"worker-0": "HTTP status 502"})
    _, replicas = one.read(START + LATER)
    assert logs_to_wait_for(one, replicas, failing)
    if end is None:
        one.is_unwanted = True
    else:
        one.take(end)
    assert logs_to_wait_for(one, replicas, failing) == {}


@pytest.mark.parametrize(
    ("worker", "exists"),
    [
        (pod(), True),
        (pod(state=ended(1)), True),
        (pod(state=waits("CrashLoopBackOff"), last=ended(1)), True),
        (pod(state=waits("ContainerCreating")), False),
        (pod(state=ended(128, "StartError")), False),
        (pod(state=ended(137, "ContainerStatusUnknown")), False),
        (pod(state=ended(137), status={"reason": "Evicted"}), False),
    ],
)
def test_a_container_has_a_log_unless_evicted(worker: dict[str, Any], exists: bool) -> None:
    one = followed()
    take(one, worker)
    assert one.read(START + LATER)[1][1].has_log is exists


def test_a_take_over_of_the_job_is_reported_once() -> None:
    one, us = followed(), JobOwner(store="x", host="lab-7")

    def said(owner: str) -> list[str]:
        value = f'{{"store":"{owner}","host":"ci-2"}}'
        one.take(ObjectChanged("PyTorchJob", job(annotations={"k8sbench.io/owner": value})))
        return [event.taken_by for event in one.taken(us) if event.taken_by is not None]

    assert said("x") == []
    assert said("y") == ["k8sbench on ci-2"]
    assert said("y") == []


def test_a_job_of_the_name_that_is_not_the_runs_is_named_and_not_read() -> None:
    succeeded = job(condition("Succeeded", at=END))
    one = watched(Phase.RUNNING, succeeded, uid="job-0")
    reading, _ = one.read(START + LATER)
    end = transition(one.end(reading, START + LATER))
    assert end.phase is Phase.LOST
    assert end.cause.endswith("Another job of its name was created since (uid job-1).")
    assert one.found is None


# -- clocks, and names that are given again -------------------------------------------------------


def test_a_pod_of_another_job_that_was_given_the_name_does_not_take_the_place_of_ours() -> None:
    one = watched(Phase.RUNNING, job(condition("Running")))
    name = f"{JOB}-worker-0"
    one.take(ObjectChanged("Pod", pod("worker-0", metadata=OURS)))
    one.take(ObjectDeleted("Pod", name, "worker-0", None))
    theirs = {"uid": "other", "ownerReferences": [{"uid": "job-2"}]}
    one.take(ObjectChanged("Pod", pod("worker-0", metadata=theirs)))
    worker = one.read(START + 10)[1][1]
    assert worker.gone
    # Of the same job it is the operator's doing, and is what is read from then on.
    one.take(ObjectChanged("Pod", pod("worker-0", metadata={**OURS, "uid": "again"})))
    assert not one.read(START + 10)[1][1].gone


@pytest.mark.parametrize("is_to_wait", [False, True])
def test_a_job_that_is_to_wait_is_never_unrecoverable(is_to_wait: bool) -> None:
    one = watched(Phase.CREATED)
    words = {WAITS_ANNOTATION: "true"} if is_to_wait else {}
    one.take(ObjectChanged("PyTorchJob", job(condition("Created"), annotations=words)))
    for name in ("master-0", "worker-0"):
        image = waits("InvalidImageName", "must be lowercase")
        one.take(ObjectChanged("Pod", pod(name, image, metadata=OURS)))
    reading, _ = one.read(START + LATER)
    assert reading.cause_id == "image-not-found"
    assert reading.unrecoverable is not is_to_wait


# -- the attempts of a run ------------------------------------------------------------------------


REFUSAL = "k8sbench: error: no such data"
RANKS = 16
REPORT = torchrun(*((rank, 143) for rank in range(1, RANKS)), (0, 2), ends=tuple(range(1, RANKS)))


@pytest.mark.parametrize("strays", [0, 3])
def test_a_report_of_many_ranks_is_kept_to_its_begin_for_the_cause(strays: int) -> None:
    failed = watched(Phase.RUNNING)
    failed.take(ObjectChanged("PyTorchJob", job(condition("Failed", at=END))))
    take(failed, pod(state=ended(1, at=END)))
    lines = [*(f"step {step}" for step in range(100)), REFUSAL, *REPORT, *["bye"] * strays]
    for text in lines:
        failed.take_line(LogLine(replica="worker-0", at=START, text=text))
    reading, _ = failed.read(START + LATER)
    assert (reading.phase, reading.cause_id) == (Phase.FAILED, "usage-error")
    if not strays:
        assert reading.cause == f"worker-0 exited with code 1: [rank0]: {REFUSAL}"


def test_what_a_late_watch_reports_of_the_attempt_before_is_not_the_run_s() -> None:
    before = job(condition("Failed", at=END))
    one = watched(Phase.CREATED, before, attempt=2)
    assert one.found is None
    one.take(ObjectDeleted("PyTorchJob", JOB, "job-1", before))
    one.take(ObjectDeleted("PyTorchJob", JOB, "job-1", None))
    reading, _ = one.read(START + LATER)
    assert reading.phase is Phase.CREATED
    again = job(condition("Running"), labels={"k8sbench.io/attempt": "2"})
    one.take(
        ObjectChanged("PyTorchJob", {**again, "metadata": {**again["metadata"], "uid": "job-2"}})
    )
    one.take(ObjectDeleted("PyTorchJob", JOB, "job-1", before))
    assert one.uid == "job-2"
    assert one.read(START + LATER)[0].phase is not Phase.LOST


def test_a_new_place_in_a_queue_is_reported_after_a_while() -> None:
    one = watched(Phase.CREATED, job(condition("Suspended", at=0), suspend=True))
    reading, _ = one.read(START)

    def report(place: str, at: float) -> list[tuple[str, float]]:
        found = one.changes(msgspec.structs.replace(reading, cause=place), START + at)
        return [(step.cause, step.at - START) for each in found if (step := each.transition)]

    steps = [report("3", 1), report("2", 59), report("1", 61), report("0", 119)]
    assert steps == [[("3", 0)], [], [("1", 61)], []]


# -- nodes ----------------------------------------------------------------------------------------


def test_the_progress_that_a_program_reports_is_noted_at_most_once_a_minute() -> None:
    one = watched(Phase.RUNNING)

    def notes(percent: int, at: float) -> list[str]:
        seen = job(condition("Running"))
        seen["status"]["trainerStatus"] = {"progressPercentage": percent}
        one.take(ObjectChanged("PyTorchJob", seen))
        reading, _ = one.read(START + at)
        events = one.changes(reading, START + at)
        return [event.note.split()[3] for event in events if event.note is not None]

    assert [notes(10, 0), notes(10, 70), notes(11, 80), notes(12, 90)] == [["10"], [], ["11"], []]
    assert notes(13, 140) == ["13"]


@pytest.mark.parametrize(("count", "requests"), [(1, 1), (20, 20), (21, 1), (400, 1)])
def test_the_nodes_of_a_large_job_are_read_by_one_list(count: int, requests: int) -> None:
    asked = []

    def answer(_: str, *, fields: str, keep: Callable[[KubeObject], object], **__: object) -> None:
        asked.append(fields)
        for name in (f"gpu-{number}" for number in range(1000)):
            if fields in {"", f"metadata.name={name}"}:
                info = {"kubeletVersion": f"v1 of {name}", "bootID": "x"}
                keep({"metadata": {"name": name}, "status": {"nodeInfo": info}})

    names = [f"gpu-{number}" for number in range(count)]
    found = listing.node_facts(cast("Api", SimpleNamespace(list=answer)), names)
    assert found == {name: {"kubelet": f"v1 of {name}"} for name in names}
    assert len(asked) == requests

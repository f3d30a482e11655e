"""Creating a run's objects: uncertain failures and existing jobs.

Lost answers, refusals and full quotas of a real API server are in
``tests/cluster/test_faults_creating.py``.
"""

import contextlib
import json
import math
import subprocess
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import urllib3

from k8sbench.adapters.kubernetes import cluster, job_changes, listing, ownership, preflight
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
from k8sbench.model.errors import UsageError
from k8sbench.model.kube import JobOwner, Ownership
from k8sbench.model.names import NONCE_ANNOTATION, OWNER_ANNOTATION
from k8sbench.model.phase import Phase, Transition
from tests.harness import children
from tests.unit.kubernetes import objects
from tests.unit.kubernetes.objects import JOB, condition, job, stamp
from tests.unit.presence import present
from tests.unit.render import plans


def silent_api() -> Api:
    """Make an API to which nothing is sent."""
    place = SimpleNamespace(namespace="team")
    api = SimpleNamespace(place=place, explaining=contextlib.nullcontext, time=time.time)
    return cast(Api, api)


def unsent() -> ApiFault:
    """Make the failure of a request for which there was no connection."""
    failure = ApiFault(None, "", "connection refused")
    failure.__cause__ = urllib3.exceptions.NewConnectionError(None, "refused")  # type: ignore[arg-type]
    return failure


@pytest.mark.parametrize(
    ("fault", "may_have_acted"),
    [
        (ApiFault(None, "", "it did not answer in time"), True),
        (ApiFault(500, "Forbidden", "etcdserver: request timed out"), True),
        (unsent(), False),
        (ApiFault(None, faults.CERTIFICATE, "its certificate: expired"), False),
        (ApiFault(429, "TooManyRequests", "too many requests"), False),
        (ApiFault(503, "", "no endpoints", retry_after=1.0), False),
        (ApiFault(403, "Forbidden", "denied the request: no"), False),
    ],
)
def test_a_request_may_have_been_carried_out_or_not(fault: ApiFault, may_have_acted: bool) -> None:
    assert job_changes.may_have_acted(fault) is may_have_acted


@pytest.mark.parametrize(
    ("answer", "is_refused"),
    [
        ("\"vtrainjob.kb.io\" denied the request: runtime '{runtime}' not found", False),
        ('TrainingRuntime "{runtime}" not found: it must be created before the TrainJob', False),
        ('trainjobs "{job}" is forbidden: runtime: a job needs the label team', True),
    ],
)
def test_a_webhook_that_lacks_the_runtime_refuses_nothing(answer: str, is_refused: bool) -> None:
    def create(_: str, sent: Any, *, dry_run: bool) -> None:
        assert dry_run
        if sent["kind"] == "TrainJob":
            names = {"runtime": sent["spec"]["runtimeRef"]["name"], "job": sent["metadata"]["name"]}
            raise ApiFault(403, "Forbidden", answer.format_map(names))

    api: Any = SimpleNamespace(create=create, place=SimpleNamespace(namespace="team"))
    objects = plans.rendered(plans.plan(run_id="mine", kind="TrainJob"))
    assert (preflight.refusal(api, objects) is not None) is is_refused


@pytest.mark.parametrize("of_other", ["theirs", None])
def test_a_job_that_another_record_has_asked_for_is_not_joined(of_other: str | None) -> None:
    wanted = plans.plan("2x1", run_id="mine")
    (*_, manifest), (*_, there) = plans.rendered(wanted), plans.rendered(wanted)
    manifest["metadata"]["annotations"][NONCE_ANNOTATION] = "ours"
    there["metadata"]["annotations"][NONCE_ANNOTATION] = "ours"
    job_changes.check_ours(manifest, there)
    there["metadata"]["annotations"][NONCE_ANNOTATION] = of_other
    with pytest.raises(UsageError, match="another k8sbench has asked for it"):
        job_changes.check_ours(manifest, there)


def test_an_attempt_waits_for_what_made_earlier_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    left: dict[str, list[Any]] = {"/apis/batch/v1/namespaces/team/jobs/mine-node-0": [None, {}]}
    api: Any = SimpleNamespace(
        place=SimpleNamespace(namespace="team"),
        find=lambda path, **_: left[path].pop(),
        list=lambda *_, **__: ([], ""),
        pause=id,
        explaining=contextlib.nullcontext,
    )
    plan = plans.plan(run_id="mine", kind="TrainJob")
    run: Any = SimpleNamespace(run_id="mine", attempt=2, plan=plan)
    monkeypatch.setattr(ownership, "look_for", lambda *_: (None, None))
    job_changes.clear(api, run, None, lambda: False)
    assert not any(left.values())


# -- cancelled ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("known", "is_ours"), [(None, True), ("job-1", True), ("job-0", False)])
def test_a_job_that_is_not_seen_yet_is_cancelled_by_its_uid(
    monkeypatch: pytest.MonkeyPatch, known: str | None, is_ours: bool
) -> None:
    monkeypatch.setattr(ownership, "look_for", lambda *_: (("PyTorchJob", job()), None))
    cancelled: list[object] = []
    monkeypatch.setattr(job_changes, "cancel", lambda *_, **__: cancelled.append(JOB))
    here: Any = KubernetesCluster(silent_api())
    reported = Transition(phase=Phase.RUNNING, at=0.0, cause="It runs.")
    followed = SimpleNamespace(ended_at=None, found=None, uid=known, reported=reported)
    here.followed = {JOB: followed}
    here.cancel(JOB, "Cancelled by hand.", "cancelled")
    assert cancelled == [JOB] * is_ours


def close_while_a_request_hangs() -> None:
    cluster.CLOSE_SECONDS = 0.1
    here = KubernetesCluster(silent_api())
    here.start_request(threading.Event().wait)  # type: ignore[arg-type]
    here.close()


def test_a_request_that_is_not_answered_does_not_hold_up_the_end_of_the_program() -> None:
    subprocess.run(children.command(close_while_a_request_hangs), check=True, timeout=100)


def test_a_request_that_fails_by_a_fault_of_ours_is_noted_and_others_go_on() -> None:
    here = KubernetesCluster(silent_api())
    done = threading.Event()

    def refused() -> None:
        raise ApiFault(500, "", "busy")

    here.start_request({}.popitem)  # type: ignore[arg-type]
    here.start_request(refused)
    here.start_request(done.set)
    here.close()
    (event,) = here.wait(0.0)
    assert "warning: a request to the cluster failed: an internal error: KeyError" in str(
        event.note
    )
    assert done.is_set()


# -- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("jobs", "reads"), [(9, [1, 2]), (10, [1, 1]), (10_000, [1, 1])])
def test_of_many_jobs_what_changes_is_read_now_and_then(jobs: int, reads: list[int]) -> None:
    moment = 100.0
    state_reads = cluster.StateReads()
    one: Any = SimpleNamespace(look_at=None)
    followed = {f"seg-{number}": one for number in range(jobs)}
    found = [0]
    for _ in range(2):
        state_reads.add(["seg-1"])
        found.append(found[-1] + len(state_reads.take(moment, followed)))
    assert found[1:] == reads
    if reads[-1] == 1:
        moment = state_reads.at(math.inf)
        assert 100 < moment <= 100 + cluster.MOST_READ_SECONDS
    left = state_reads.take(moment, followed)
    assert found[-1] + len(left) == 2
    assert state_reads.take(math.inf, followed) == set()


# -- whose a job is -------------------------------------------------------------------------------


ANN = JobOwner(store="0123456789", host="lab-7")


# -- what a job says ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["?", "{}", '{"store":"x"}', '{"store":1,"host":"y"}'])
def test_an_annotation_that_cannot_be_read_tells_nothing(value: str) -> None:
    job = objects.job(annotations={OWNER_ANNOTATION: value})
    assert ownership.read_ownership(job, ANN) == Ownership()


def test_who_takes_a_job_over_owns_it_and_keeps_what_was_kept() -> None:
    theirs = JobOwner(store="x", host="y", keep=True)
    job = objects.job(annotations={OWNER_ANNOTATION: msgspec.json.encode(theirs).decode()})
    change = present(ownership.taken_over(job, ANN, Ownership(owner=theirs)))
    written = json.loads(change["metadata"]["annotations"][OWNER_ANNOTATION])
    assert written == {"store": ANN.store, "host": ANN.host, "keep": True}
    with pytest.raises(ownership.VanishedError):
        ownership.taken_over(job, ANN, Ownership())


# -- Kueue ----------------------------------------------------------------------------------------


def workload(job: str, queue: str, at: float, status: str = "False", **spec: Any) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/job-uid": job}
    return {
        "metadata": {"labels": labels, "creationTimestamp": stamp(at)},
        "spec": {"podSets": [{"template": {}}], **spec} | ({"queueName": queue} if queue else {}),
        "status": {"conditions": [condition("QuotaReserved", status=status)]},
    }


def test_a_workload_that_waits_has_its_place_in_its_queue_by_priority_and_age() -> None:
    found = [
        workload("last", "gpus", 5),
        workload("first", "gpus", 9, priority=1),
        workload("second", "gpus", 4),
        workload("of-no-queue", "", 1),
        workload("runs", "gpus", 2, "True"),
    ]

    def listed(path: str, *, labels: str, keep: Any) -> Any:
        assert (path.split("/")[-2:], labels) == (["team", "workloads"], "kueue.x-k8s.io/job-uid")
        return [keep(one) for one in found], ""

    api = cast(Api, SimpleNamespace(place=SimpleNamespace(namespace="team"), list=listed))
    known = listing.workloads(api)
    assert {job: one["place"] for job, one in known.items()} == {
        "first": ", number 1 there",
        "second": ", number 2 there",
        "last": ", number 3 there",
        "of-no-queue": ", number 1 there",
        "runs": "",
    }
    assert not any("podSets" in one["spec"] for one in known.values())

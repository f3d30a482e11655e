"""Creating a run's objects: what is certain after each answer, and what is left behind."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import urllib3

from k8sbench.adapters.kubernetes import creating
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.creating import Created, Patience
from k8sbench.model.errors import BenchError, CreationUnknown, NoRoom, Unreachable, UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location
from tests.unit.render import plans

JOB, MAP = "PyTorchJob", "ConfigMap"
QUOTA = (
    'pytorchjobs.kubeflow.org "mine" is forbidden: exceeded quota: few, requested:'
    " count/pytorchjobs.kubeflow.org=1, used: count/pytorchjobs.kubeflow.org={used}, limited:"
    " count/pytorchjobs.kubeflow.org={limited}"
)


class FakeApi:
    """An API server that keeps what is created, unless it is asked otherwise.

    ``faults`` are those of the requests to come, by verb and kind; ``lost`` are answers that are
    lost after the request was carried out.
    """

    place = Location(server="https://cluster.example:6443", namespace="bench")

    def __init__(self, **reported: Sequence[ApiFault | None]) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.reported = {name: list(each) for name, each in reported.items()}
        self.lost: set[str] = set()
        self.sent: list[str] = []
        self._uids = itertools.count(1)

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        path = f"{path}/{body['metadata']['name']}"
        fault = self._fault(f"create {body['kind']}")
        if fault is not None and f"create {body['kind']}" not in self.lost:
            raise fault
        if path in self.objects:
            raise ApiFault(409, "AlreadyExists", f"{body['metadata']['name']} already exists")
        metadata = {**body["metadata"], "uid": str(next(self._uids)), "namespace": "bench"}
        self.objects[path] = {**body, "metadata": metadata}
        if fault is not None:
            raise fault
        return self.objects[path]

    def get(self, path: str, *, retry_s: float) -> dict[str, Any]:
        fault = self._fault("get")
        if fault is not None:
            raise fault
        if path not in self.objects:
            raise ApiFault(404, "NotFound", "not found")
        return self.objects[path]

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        fault = self._fault("patch")
        if fault is not None:
            raise fault
        self.objects[path]["metadata"] |= body["metadata"]
        return self.objects[path]

    def delete(self, path: str, *, uid: str) -> None:
        fault = self._fault("delete")
        if fault is not None:
            raise fault
        assert self.objects.pop(path)["metadata"]["uid"] == uid

    def explained(self, fault: ApiFault, doing: str) -> BenchError:
        return faults.explained(fault, doing, self.place)

    def pause(self, seconds: float) -> None:
        pass

    def kinds(self) -> list[str]:
        return sorted(one["kind"] for one in self.objects.values())

    def _fault(self, what: str) -> ApiFault | None:
        self.sent.append(what)
        left = self.reported.get(what.replace(" ", "_"))
        return left.pop(0) if left else None


def silence(cause: BaseException | None = None) -> ApiFault:
    fault = ApiFault(None, "", "it did not answer in time")
    fault.__cause__ = cause
    return fault


def busy() -> ApiFault:
    return ApiFault(429, "TooManyRequests", "too many requests")


def refusal(message: str = "denied the request: no", status: int = 403) -> ApiFault:
    return ApiFault(status, "Forbidden", message)


def run(api: FakeApi, *, seconds: float = 0.0, plan: RunPlan | None = None, **more: Any) -> Created:
    plan = plan or plans.plan("2x1", run_id="mine")
    patience = Patience(seconds=seconds, **more)
    return creating.create(api, plan, plans.rendered(plan), patience)  # type: ignore[arg-type]


def test_the_job_owns_what_it_mounts() -> None:
    api = FakeApi()
    created = run(api)
    assert (created.existed, created.owns_config_map) == (False, True)
    config_map = next(one for one in api.objects.values() if one["kind"] == MAP)
    assert config_map["metadata"]["ownerReferences"][0]["uid"] == created.job["metadata"]["uid"]


@pytest.mark.parametrize("fault", [silence(), refusal("etcdserver: request timed out", 500)])
def test_a_job_whose_answer_was_lost_is_found_by_its_name(fault: ApiFault) -> None:
    api = FakeApi(create_PyTorchJob=[fault])
    api.lost.add(f"create {JOB}")
    created = run(api)  # there is no time for another try
    assert not created.existed
    assert api.sent.count(f"create {JOB}") == 1


@pytest.mark.parametrize("fault", [silence(), refusal("etcdserver: request timed out", 500)])
def test_a_creation_that_may_still_be_carried_out_is_unknown_and_nothing_is_taken_back(
    fault: ApiFault,
) -> None:
    api = FakeApi(create_PyTorchJob=[fault])
    with pytest.raises(CreationUnknown, match="Whether the job mine exists is not known") as raised:
        run(api)
    assert raised.value.action.startswith("Find out with: k8sbench collect mine; end it with: ")
    assert api.kinds() == [MAP]


@pytest.mark.parametrize(
    "fault",
    [
        silence(urllib3.exceptions.NewConnectionError(None, "refused")),  # type: ignore[arg-type]
        busy(),
        ApiFault(503, "", "no endpoints", retry_after=1.0),
        ApiFault(None, faults.CERTIFICATE, "its certificate: expired"),
    ],
)
def test_a_request_that_was_not_carried_out_for_certain_leaves_nothing(fault: ApiFault) -> None:
    api = FakeApi(create_PyTorchJob=[fault])
    with pytest.raises(Unreachable) as raised:
        run(api)
    assert not isinstance(raised.value, CreationUnknown)
    assert api.kinds() == []


def test_a_refusal_after_a_lost_answer_is_not_believed() -> None:
    full = refusal(QUOTA.format(used=1, limited=1))
    api = FakeApi(create_PyTorchJob=[silence(), full])
    with pytest.raises(CreationUnknown):
        run(api, seconds=60.0)
    api = FakeApi(create_PyTorchJob=[silence(), full])
    api.lost.add(f"create {JOB}")  # the quota is full because of the job itself
    assert not run(api, seconds=60.0).existed


def test_what_was_created_for_a_job_that_is_refused_is_deleted_or_not_known_to_be_gone() -> None:
    api = FakeApi(create_PyTorchJob=[refusal()])
    with pytest.raises(UsageError, match="denied the request"):
        run(api)
    assert api.kinds() == []
    away = FakeApi(create_PyTorchJob=[refusal()], delete=[silence()])
    with pytest.raises(CreationUnknown, match=r"denied .* Its ConfigMap could not be deleted"):
        run(away)


def test_a_config_map_that_a_killed_submit_left_is_used_and_goes_with_a_refusal() -> None:
    api = FakeApi(create_PyTorchJob=[silence()])
    with contextlib.suppress(CreationUnknown):
        run(api)
    api.reported = {"create_PyTorchJob": [refusal()]}
    with pytest.raises(UsageError):
        run(api)
    assert api.kinds() == []


def test_a_job_exists_though_it_could_not_be_made_the_owner() -> None:
    created = run(FakeApi(patch=[silence()]))
    assert (created.existed, created.owns_config_map) == (False, False)


# -- quotas -----------------------------------------------------------------------------------


def test_a_quota_that_others_fill_is_distinguished_from_one_that_the_job_alone_exceeds() -> None:
    filled = FakeApi(create_PyTorchJob=[refusal(QUOTA.format(used=40, limited=40))])
    with pytest.raises(NoRoom) as waits:
        run(filled)
    assert waits.value.message == (
        "PyTorchJob mine is not created: quota few allows count/pytorchjobs.kubeflow.org 40, of"
        " which 40 used, and 1 more asked for."
    )
    assert filled.kinds() == []
    alone = FakeApi(create_PyTorchJob=[refusal(QUOTA.format(used=0, limited=0))])
    with pytest.raises(UsageError, match=r"allows count/pytorchjobs\.kubeflow\.org 0,") as refused:
        run(alone)
    assert not isinstance(refused.value, NoRoom)


# -- the same job -----------------------------------------------------------------------------


def test_the_same_benchmark_s_file_may_lie_anywhere() -> None:
    api = FakeApi()
    run(api, plan=plans.plan("2x1", run_id="mine", spec_source="/home/ann/mine.yaml"))
    for changes in ({"spec_source": "/ci/bench/mine.yaml"}, {"spec_digest": "e" * 64}):
        assert run(api, plan=plans.plan("2x1", run_id="mine", **changes)).existed
    with pytest.raises(UsageError, match=r"runs another plan \(other: batch_size\)"):
        run(api, plan=plans.plan("2x1", run_id="mine", batch_size=7))


# -- patience ---------------------------------------------------------------------------------


def test_a_creation_that_takes_long_is_named_once_also_while_a_request_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(creating, "NOTE_SECONDS", 0.01)
    noted, reported = threading.Event(), []

    class Hanging(FakeApi):
        def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            if body["kind"] == JOB:
                assert noted.wait(10.0)
            return super().create(path, body)

    def note(text: str) -> None:
        reported.append(text)
        noted.set()

    run(Hanging(), seconds=60.0, note=note)
    assert reported == [
        "The API server does not answer (no answer yet); creation of the job is tried for up to 1m."
    ]


def test_a_creation_ends_when_nobody_waits_for_it() -> None:
    api = FakeApi(create_PyTorchJob=[busy()] * 9)
    with pytest.raises(Unreachable):
        run(api, seconds=600.0, is_over=lambda: len(api.sent) > 3)
    assert api.sent.count(f"create {JOB}") < 9

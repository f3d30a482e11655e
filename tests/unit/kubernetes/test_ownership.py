"""Whose a job is: when it is nobody's any more, and how it is changed by compare-and-swap."""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from k8sbench.adapters.kubernetes import asking, ending, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import User
from k8sbench.model.errors import OwnedElsewhere
from k8sbench.model.kube import RUN_LABEL
from k8sbench.model.ownership import (
    LEFT_SECONDS,
    RECEIPT_SECONDS,
    Collected,
    JobOwner,
    Ownership,
    Receipt,
    has_expired,
    why_left,
)
from k8sbench.model.run import Wish
from tests.unit.kubernetes import objects
from tests.unit.kubernetes.objects import START, condition
from tests.unit.render import plans

ANN = User(store="0123456789", host="lab-7")
BEN = User(store="abcdef0123", host="ci-2")
COLLECTOR = User(store="fedcba9876", host="dlperf", is_collector=True)
HAS = Collected(digest="d1", throughput=123.456, unit="samples/s", verdict="valid")
NOTHING = Collected(digest=None, throughput=None, unit=None, verdict=None)
WISH = Wish(kind="cancel", at=START, cause="Cancelled by k8sbench cancel.", cause_id="cancelled")
NOW = START + 10_000.0
ENDED = START + 1000.0


class Place(NamedTuple):
    namespace: str = "team"


class Server:
    """An API server with one job; others may change it before a request arrives."""

    place = Place()

    def __init__(self, *owners: User, **annotations: str) -> None:
        job = objects.job(condition("Succeeded", at=60))
        for user in owners:
            job = dict(ownership.owned(job, user, START))
        self.job: dict[str, Any] | None = copy.deepcopy(job)
        self.job["metadata"]["annotations"].update(annotations)
        self.job["metadata"]["labels"] = {RUN_LABEL: "job"}
        self.job["metadata"]["resourceVersion"] = "1"
        self.patches = 0
        self.others = 0
        """Changes of somebody else's that come before the next requests."""
        self.api = cast("Api", self)

    def time(self) -> float:
        return NOW

    def explained(self, fault: ApiFault, _: str) -> Exception:
        return fault

    def find(self, path: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.job) if "/pytorchjobs/" in path else None

    def _check(self, uid: str, version: str) -> dict[str, Any]:
        if self.job is None:
            raise ApiFault(404, "NotFound", "there is none")
        metadata: dict[str, Any] = self.job["metadata"]
        if self.others:
            self.others -= 1
            metadata["resourceVersion"] += "1"
        if (uid, version) != (metadata["uid"], metadata["resourceVersion"]):
            raise ApiFault(409, "Conflict", "it was changed")
        metadata["resourceVersion"] += "1"
        return self.job

    def patch(self, path: str, body: dict[str, Any], *, retry_s: float = 0.0) -> dict[str, Any]:
        assert path.endswith("/pytorchjobs/job")
        change = body["metadata"]
        job = self._check(change["uid"], change["resourceVersion"])
        self.patches += 1
        annotations = job["metadata"]["annotations"]
        annotations |= change["annotations"]
        for name in [name for name, value in annotations.items() if value is None]:
            del annotations[name]
        return copy.deepcopy(job)

    def delete(self, path: str, *, uid: str, version: str, foreground: bool = False) -> None:
        self._check(uid, version)
        self.job = None

    def remove(self, user: User, collected: Collected = HAS, *, force: bool = False) -> str | None:
        return ending.remove(self.api, "job", user=user, collected=lambda: collected, force=force)

    def adopt(self, user: User, known: Ownership) -> bool:
        def adopted(job: Any) -> Any:
            return asking.adopted(job, user=user, known=known, now=NOW)

        return asking.change(self.api, "job", adopted, "it be adopted")

    def whose(self, user: User) -> Ownership:
        assert self.job is not None
        return ownership.of(self.job, user)


# -- when a job is nobody's any more --------------------------------------------------------------


def owner(at: float = START, **more: Any) -> Ownership:
    return Ownership(owner=JobOwner(store="x", host="lab-7", at=at, **more), is_ours=False)


@pytest.mark.parametrize(
    ("whose", "times", "why"),
    [
        (owner(), {}, None),
        (Ownership(), {}, "no store owns it"),
        (owner(is_handed_over=True), {}, "k8sbench on lab-7 has detached from it"),
        (owner(), {"ended_at": NOW - LEFT_SECONDS + 1.0}, None),
        (
            owner(),
            {"ended_at": NOW - LEFT_SECONDS},
            "it ended over 10m ago, and k8sbench on lab-7 has not collected it",
        ),
        # Who works on it still, as its logs cannot be read, stamps it.
        (owner(NOW - 300.0), {"ended_at": ENDED}, None),
        (owner(), {"began_at": NOW - 1000.0, "timeout_s": 401.0}, None),
        (
            owner(),
            {"began_at": NOW - 1000.0, "timeout_s": 400.0},
            "it is over 10m past its time limit",
        ),
        (owner(), {"began_at": START, "timeout_s": None}, None),
        (owner(keep=True, is_handed_over=True), {"ended_at": ENDED}, None),
    ],
)
def test_a_collector_adopts_what_its_owner_has_left(
    whose: Ownership, times: dict[str, float], why: str | None
) -> None:
    known = {"ended_at": None, "began_at": None, "timeout_s": None} | times
    assert why_left(whose, NOW, **known) == why
    collected = msgspec.structs.replace(whose, receipt=receipt())
    assert why_left(collected, NOW, **known) is None


def receipt(at: float = ENDED, has: Collected = HAS) -> Receipt:
    return Receipt(store="x", host="lab-7", at=at, **msgspec.structs.asdict(has))


def test_a_receipt_is_there_for_a_week_and_says_who_has_what() -> None:
    assert not has_expired(None, NOW)
    assert not has_expired(receipt(NOW), NOW + RECEIPT_SECONDS - 1.0)
    assert has_expired(receipt(NOW), NOW + RECEIPT_SECONDS)
    assert receipt().sentence == (
        "k8sbench on lab-7 collected it at 2023-11-14T22:30:00Z, 123.5 samples/s, valid,"
        " SHA-256 of its logs d1."
    )
    failed = receipt(has=NOTHING)
    assert failed.sentence == "k8sbench on lab-7 collected it at 2023-11-14T22:30:00Z."


# -- what a job says ------------------------------------------------------------------------------


def test_the_owner_is_on_the_job_alone_and_nothing_that_was_given_changes() -> None:
    manifests = list(plans.rendered(plans.plan()))
    before = copy.deepcopy(manifests)
    owned = ownership.owned(manifests[-1], ANN, START)
    assert manifests == before
    annotations = dict(owned["metadata"]["annotations"])
    written = json.loads(annotations.pop("k8sbench.io/owner"))
    assert (written["store"], written["host"], written["at"]) == ("0123456789", "lab-7", START)
    assert annotations == before[-1]["metadata"]["annotations"]
    assert ownership.owned(manifests[-1], None, START) == manifests[-1]


def test_a_job_that_waits_says_so_to_everybody_who_follows_it() -> None:
    waiting = ownership.owned(objects.job(), None, START, waits=True)
    assert ownership.waits(dict(waiting))
    assert not ownership.waits(objects.job())


@pytest.mark.parametrize(
    "value", ["?", "{}", '{"store":"x","host":"y","at":1e300}', '{"store":"x","host":"y","at":-1}']
)
def test_an_annotation_that_cannot_be_read_tells_nothing(value: str) -> None:
    names = ("k8sbench.io/owner", "k8sbench.io/receipt", "k8sbench.io/wish")
    assert Server(**dict.fromkeys(names, value)).whose(ANN) == Ownership()


def test_a_job_of_version_0_2_is_its_submitters() -> None:
    mark = {"host": "ci-2", "submitted": True, "detached": False, "at": START}
    follower = mark | {"submitted": False}
    server = Server(
        **{
            "k8sbench.io/used-by-0123456789": json.dumps(follower),
            "k8sbench.io/used-by-abcdef0123": json.dumps(mark),
        }
    )
    assert server.whose(BEN).is_ours
    assert not server.whose(ANN).is_ours
    assert server.whose(ANN).holder == "k8sbench on ci-2"


# -- compare-and-swap -----------------------------------------------------------------------------


def test_of_several_stores_that_adopt_a_job_one_succeeds() -> None:
    server = Server(ANN)
    known = server.whose(BEN)
    server.others = 2
    assert server.adopt(BEN, known)
    assert server.whose(BEN).is_ours
    assert not server.adopt(COLLECTOR, known)
    assert server.adopt(BEN, known), "an answer that was lost does no harm"


def test_a_wish_is_written_by_anybody_and_taken_off_by_the_owner_alone() -> None:
    server = Server(ANN)
    asking.change(server.api, "job", lambda job: asking.asked(job, wish=WISH), "it be asked")
    assert server.whose(ANN).wish == WISH
    with pytest.raises(OwnedElsewhere):
        asking.answered(server.find("/pytorchjobs/job") or {}, user=BEN, now=NOW)
    asking.change(
        server.api, "job", lambda job: asking.answered(job, user=ANN, now=NOW), "it be answered"
    )
    whose = server.whose(ANN)
    assert whose.wish is None
    assert whose.owner is not None
    assert whose.owner.at == NOW


def test_a_job_of_another_store_is_not_deleted() -> None:
    server = Server(ANN)
    why = server.remove(BEN, force=True)
    assert why is not None
    assert why.startswith("The job of job is k8sbench on lab-7's, which collects it.")
    assert server.job is not None


def test_a_job_that_changes_hands_before_its_deletion_is_not_deleted() -> None:
    server = Server(ANN)
    read = server.find

    def adopted_first(path: str) -> dict[str, Any] | None:
        job, server.find = read(path), read  # type: ignore[method-assign]
        server.adopt(COLLECTOR, server.whose(COLLECTOR))
        return job

    server.find = adopted_first  # type: ignore[method-assign]
    assert server.remove(ANN) is not None
    assert server.job is not None


def test_the_submitter_deletes_its_job_without_a_receipt() -> None:
    server = Server(ANN)
    assert server.remove(ANN) is None
    assert (server.job, server.patches) == (None, 0)


def test_what_a_laptop_has_adopted_stays_with_a_receipt_for_the_submitter() -> None:
    server = Server(ANN)
    server.adopt(BEN, server.whose(BEN))
    why = server.remove(BEN)
    assert why is not None
    assert why.startswith("it stays for 7d, for the k8sbench that submitted it to see the result.")
    given = server.whose(ANN).receipt
    assert given is not None
    assert (given.store, given.throughput, given.verdict) == (BEN.store, 123.456, "valid")
    assert server.remove(BEN, force=True) is None
    assert server.job is None


def test_a_collector_deletes_what_it_has_adopted_once_its_receipt_is_there() -> None:
    server = Server(ANN)
    server.adopt(COLLECTOR, server.whose(COLLECTOR))
    patches = server.patches
    assert server.remove(COLLECTOR) is None
    assert (server.job, server.patches) == (None, patches + 1)


def test_what_somebody_keeps_stays_whoever_has_adopted_it() -> None:
    server = Server(msgspec.structs.replace(ANN, keep=True))
    server.adopt(COLLECTOR, server.whose(COLLECTOR))
    why = server.remove(COLLECTOR)
    assert why is not None
    assert why.startswith("k8sbench on dlperf keeps it (--keep).")
    assert server.job is not None

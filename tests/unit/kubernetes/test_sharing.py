"""Who needs a job: the mark of each store on it, how long it counts, and who has collected it."""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from k8sbench.adapters.kubernetes import sharing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.sharing import FOLLOWED_SECONDS, SUBMITTED_SECONDS, User
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.ports import Collected
from tests.unit.kubernetes import objects
from tests.unit.kubernetes.objects import START, condition
from tests.unit.render import plans

ANN = User(store="0123456789", host="lab-7")
BEN = User(store="abcdef0123", host="ci-2")
EVE = User(store="fedcba9876", host="desk")
HAS = Collected(digest="d1", throughput=123.456, unit="samples/s", verdict="valid")
KIND = "PyTorchJob"
DAY = 86400.0


class Place(NamedTuple):
    namespace: str = "team"


class Server:
    """An API server with one job, whose clock is ten minutes ahead of ours."""

    place = Place()

    def __init__(self, *submitters: User, job: dict[str, Any] | None = None) -> None:
        found = job or objects.job(condition("Succeeded", at=60))
        for user in submitters:
            (found,) = map(dict, sharing.marked([found], user))
        self.job: dict[str, Any] = found
        self.now = START + 60
        self.patches = 0
        self.api = cast("Api", self)

    def time(self) -> float:
        return self.now

    def patch(self, path: str, body: dict[str, Any], *, retry_s: float = 0.0) -> dict[str, Any]:
        assert path.endswith("/pytorchjobs/job")
        change = body["metadata"]
        if change["uid"] != self.job["metadata"]["uid"]:
            raise ApiFault(409, "Conflict", "the uid differs")
        self.patches += 1
        self.job = copy.deepcopy(self.job)
        annotations = self.job["metadata"]["annotations"]
        annotations |= change["annotations"]
        for name in [name for name, value in annotations.items() if value is None]:
            del annotations[name]
        return self.job

    def follow(self, user: User) -> None:
        # What a watch keeps of a job is enough.
        sharing.renew(self.api, KIND, trimming.job(self.job), user)

    def leave(self, user: User) -> None:
        sharing.leave(self.api, KIND, trimming.job(self.job), user)

    def keeper(self, user: User, collected: Collected | None = None) -> str | None:
        found = None if collected is None else lambda: collected
        return sharing.keeper(self.api, KIND, self.job, user, found)

    @property
    def annotations(self) -> dict[str, Any]:
        found = self.job["metadata"]["annotations"]
        return {name: json.loads(value) for name, value in found.items()}


def test_the_mark_is_on_the_job_alone_and_nothing_that_was_given_changes() -> None:
    manifests = list(plans.rendered(plans.plan()))
    before = copy.deepcopy(manifests)
    *others, marked = sharing.marked(manifests, ANN)
    assert manifests == before
    assert others == manifests[:-1]
    annotations = dict(marked["metadata"]["annotations"])
    mark = json.loads(annotations.pop("k8sbench.io/used-by-0123456789"))
    known = {"host": "lab-7", "keep": False, "at": None}
    assert mark == known | {"submitted": True, "detached": False}
    assert annotations == before[-1]["metadata"]["annotations"]


def test_without_a_store_there_is_no_mark() -> None:
    manifests = list(plans.rendered(plans.plan()))
    assert sharing.marked(manifests, None) == manifests


DETACHED = msgspec.structs.replace(BEN, detached=True)
KEEPING = msgspec.structs.replace(EVE, keep=True)
SUBMITTED = "k8sbench on ci-2 submitted it and has not collected it yet."
FOLLOWS = "k8sbench on ci-2 follows it, too, and deletes it at its end."


COLLECTOR = msgspec.structs.replace(ANN, for_all=True)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ((DETACHED,), None),
        ((BEN,), FOLLOWS),
        ((DETACHED, KEEPING), "k8sbench on desk keeps it (--keep)."),
    ],
)
def test_who_collects_for_all_leaves_no_job_to_a_submitter_that_has_detached(
    others: tuple[User, ...], why: str | None
) -> None:
    server = Server(*others)
    assert server.keeper(COLLECTOR, HAS) == why
    assert sharing.is_abandoned(server.job, COLLECTOR, server.now) == (why is None)
    assert "k8sbench.io/collected-by-0123456789" in server.annotations
    server.now += FOLLOWED_SECONDS
    assert sharing.is_abandoned(server.job, COLLECTOR, server.now) == (KEEPING not in others)


def test_the_other_stores_read_it_also_where_their_marks_have_expired() -> None:
    """Whoever comes while a finalizer keeps the job finds who has its logs."""
    server = Server(BEN)
    server.now += SUBMITTED_SECONDS
    assert server.keeper(ANN, HAS) is None
    assert sharing.collector(server.job) is not None


def test_of_a_run_that_failed_there_is_no_figure() -> None:
    server = Server(DETACHED)
    server.keeper(ANN, Collected(digest=None, throughput=None, unit=None, verdict=None))
    sentence, _ = sharing.collector(server.job) or ("", "")
    assert sentence == "k8sbench on lab-7 collected it at 2023-11-14T22:14:20Z."


@pytest.mark.parametrize("value", ["?", "{}", '{"store":"x","host":"y","at":1e300}'])
def test_an_annotation_that_cannot_be_read_tells_nothing(value: str) -> None:
    server = Server()
    server.job["metadata"]["annotations"]["k8sbench.io/collected-by-x"] = value
    assert sharing.collector(server.job) is None


# -- how long a mark counts ---------------------------------------------------------------------


@pytest.mark.parametrize("submitter", [BEN, DETACHED])
def test_the_mark_of_the_submitter_counts_for_a_week(submitter: User) -> None:
    """Also where it followed the job: it was killed, or its laptop sleeps."""
    server = Server(submitter)
    server.now += FOLLOWED_SECONDS
    assert server.keeper(ANN) == SUBMITTED
    server.now = START + 60 + SUBMITTED_SECONDS - 1
    assert server.keeper(ANN) == SUBMITTED
    server.now += 1
    assert server.keeper(ANN) is None


def test_a_job_that_waited_for_long_is_kept_for_a_week_after_its_end() -> None:
    late = objects.job(condition("Succeeded", at=8 * DAY))
    server = Server(DETACHED, job=late)
    server.now = START + 15 * DAY - 1
    assert server.keeper(ANN) == SUBMITTED
    server.now += 1
    assert server.keeper(ANN) is None


def test_who_keeps_a_job_keeps_it_for_ever() -> None:
    server = Server(KEEPING)
    server.now += 1000 * DAY
    assert server.keeper(ANN) == "k8sbench on desk keeps it (--keep)."


@pytest.mark.parametrize("value", ['{"host":"ci-2","keep":false}', "?", '{"at":"noon"}'])
def test_marks_of_earlier_versions_and_spoiled_ones_count_for_a_week(value: str) -> None:
    old = objects.job(condition("Succeeded"), annotations={"k8sbench.io/used-by-x": value})
    server = Server(job=old)
    server.now = START + SUBMITTED_SECONDS
    assert "submitted it and has not collected it yet" in str(server.keeper(ANN))
    server.now += 1
    assert server.keeper(ANN) is None


# -- detaching, and coming back -------------------------------------------------------------------


def test_who_submits_a_job_that_another_store_just_created_marks_it_too() -> None:
    server = Server(EVE)
    server.follow(DETACHED)
    server.keeper(EVE)
    assert server.keeper(ANN) == SUBMITTED


def test_a_job_is_abandoned_when_nobody_needs_it_whom_it_was_left_to() -> None:
    server = Server(DETACHED)
    assert not sharing.is_abandoned(server.job, ANN, server.now)
    server.keeper(ANN, HAS)
    assert not sharing.is_abandoned(server.job, ANN, server.now)
    later = server.now + SUBMITTED_SECONDS
    assert sharing.is_abandoned(server.job, ANN, later)
    # Only the store that has it may say so.
    assert not sharing.is_abandoned(server.job, EVE, later)


def test_a_job_that_waits_says_so_to_everybody_who_follows_it() -> None:
    (marked,) = sharing.marked([objects.job()], None, waits=True)
    assert sharing.waits(dict(marked))
    assert not sharing.waits(objects.job())

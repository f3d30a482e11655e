"""Whose a job is: when it is nobody's any more, and how it is changed by compare-and-swap."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.kubernetes import ownership
from k8sbench.adapters.kubernetes.ownership import User
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
from tests.unit.kubernetes import objects
from tests.unit.kubernetes.objects import START, condition
from tests.unit.render import plans

ANN = User(store="0123456789", host="lab-7")
HAS = Collected(digest="d1", throughput=123.456, unit="samples/s", verdict="valid")
NOTHING = Collected(digest=None, throughput=None, unit=None, verdict=None)
NOW = START + 10_000.0
ENDED = START + 1000.0


def whose(user: User, **annotations: str) -> Ownership:
    """Read whose a job with these annotations is."""
    job = objects.job(condition("Succeeded", at=60))
    job["metadata"]["annotations"] = annotations
    return ownership.of(job, user)


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
    assert whose(ANN, **dict.fromkeys(names, value)) == Ownership()

"""The one place that turns reasons and accepted ids into a verdict."""

import msgspec
import pytest

from k8sbench.measure import verdict
from k8sbench.model.finding import Finding
from k8sbench.model.group import Member
from tests.unit.store.examples import measurement

REJECT = Finding(id="outlier", severity="reject", sentence="It is one.")
WARN = Finding(id="unsteady", severity="warn", sentence="It is that.")
VALID = measurement(throughput=measurement().throughput, unverified=None, missing={})


def test_a_rejection_sets_the_figures_apart_and_says_why() -> None:
    found = verdict.with_reasons(VALID, [WARN, REJECT], ())
    assert (found.verdict, found.throughput) == ("rejected", None)
    assert found.unverified == VALID.throughput
    assert found.missing["throughput"] == verdict.REJECTED
    assert [reason.id for reason in found.reasons] == ["outlier", "unsteady"]


def test_what_is_accepted_by_name_counts_and_is_marked() -> None:
    found = verdict.with_reasons(VALID, [WARN, REJECT], ("outlier", "unsteady"))
    assert (found.verdict, found.throughput, found.unverified) == ("valid", VALID.throughput, None)
    assert [reason.accepted for reason in found.reasons] == [True, False]


@pytest.mark.parametrize("throughput", [VALID.throughput, None])
def test_a_verdict_is_the_same_when_it_is_decided_again(throughput: object) -> None:
    start = msgspec.structs.replace(VALID, throughput=throughput)
    once = verdict.with_reasons(start, [REJECT], ())
    assert verdict.with_reasons(once, once.reasons, ()) == once


def test_a_member_of_a_group_follows_the_same_rule() -> None:
    member = Member(
        run_id="a", repeat=1, created_at=0.0, rate=5.0, phase="", verdict="valid", reasons=()
    )
    out = verdict.member_with_reasons(member, [REJECT])
    assert (out.rate, out.unverified, out.verdict) == (None, 5.0, "rejected")
    assert verdict.member_with_reasons(out, [WARN]) == member
    unmeasured = msgspec.structs.replace(member, rate=None, verdict=None)
    assert verdict.member_with_reasons(unmeasured, [REJECT]) == unmeasured

"""The one place that turns reasons and accepted ids into a verdict."""

import msgspec

from k8sbench.model import verdict
from k8sbench.model.errors import Finding
from tests.unit.model.measurements import measurement

REJECT = Finding(id="outlier", severity="reject", sentence="It is one.")
WARN = Finding(id="unsteady", severity="warn", sentence="It is that.")
VALID = measurement(throughput=measurement().throughput, unverified=None, missing={})


def test_a_rejection_sets_the_figures_apart_and_says_why() -> None:
    found = verdict.with_reasons(VALID, [WARN, REJECT], ())
    assert (found.verdict, found.throughput) == ("rejected", None)
    assert found.unverified == VALID.throughput
    assert found.why("throughput") == verdict.REJECTED
    assert [reason.id for reason in found.reasons] == ["outlier", "unsteady"]


def test_what_is_accepted_by_name_counts_and_is_marked() -> None:
    found = verdict.with_reasons(VALID, [WARN, REJECT], ("outlier", "unsteady"))
    assert (found.verdict, found.throughput, found.unverified) == ("valid", VALID.throughput, None)
    assert [reason.accepted for reason in found.reasons] == [True, False]


def test_a_former_id_is_read_from_the_store_and_accepted() -> None:
    stored = b'{"id": "below-median", "severity": "reject", "message": "It is slow."}'
    reason = msgspec.json.decode(stored, type=Finding)
    assert reason.id == "unsteady"
    found = verdict.with_reasons(VALID, [reason], ("below-median",))
    assert (found.verdict, found.reasons[0].accepted) == ("valid", True)

"""Every state and reason that Kubernetes is known to write has a meaning here, or says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from k8sbench.diagnose.job import reasons
from tests.unit.kubernetes import known_reasons as known


def every(lists: Mapping[str, Iterable[str]]) -> set[str]:
    return {reason for listed in lists.values() for reason in listed}


def test_every_phase_of_a_pod_is_mapped() -> None:
    assert set(reasons.POD_PHASES) == set(known.POD_PHASES)


def test_every_reason_is_mapped() -> None:
    assert every(known.WAITING) <= set(reasons.WAITING)
    assert every(known.DISRUPTIONS) <= set(reasons.ENDED_BY)


def test_every_reason_of_a_pod_says_who_ended_it() -> None:
    assert [one for one in every(known.POD_REASONS) if reasons.ended_by(one) is None] == []


def test_an_event_that_has_a_meaning_is_one_that_is_written() -> None:
    assert set(reasons.EVENTS) == known.EVENTS


def test_a_reason_that_nobody_knows_is_an_error_of_the_start_if_it_says_so() -> None:
    assert reasons.waiting("SomethingNewError") is reasons.Waiting.START
    assert reasons.waiting("SomethingNew") is reasons.Waiting.ROUTINE

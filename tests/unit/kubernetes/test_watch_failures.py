"""Users read once that the API server does not tell us, and once that it does again."""

from __future__ import annotations

from unittest.mock import Mock

from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watching.reflector import NOTE_SECONDS, Failed, Watches, Works
from k8sbench.model.errors import BenchError, Unreachable

AWAY = ApiFault(None, "", "connection refused")
DENIED = ApiFault(403, "Forbidden", "may not watch")
KINDS = ("PyTorchJob", "Pod", "Event")


def explained(fault: ApiFault, doing: str) -> BenchError:
    return Unreachable(f"{doing}: {fault.message}.", "Ask.")


def watches() -> Watches:
    made = Watches(Mock(explained=explained), (), Mock())
    made._reflectors = dict.fromkeys(KINDS, Mock())
    return made


def test_an_outage_is_worth_a_word_after_some_seconds_and_at_its_end() -> None:
    all_kinds = watches()
    assert all_kinds.report(0.0) is None
    for kind in KINDS:
        all_kinds.take(Failed(kind, AWAY), 10.0)
    all_kinds.take(Failed("Pod", AWAY), 12.0)  # again: it is away since the first time
    assert all_kinds.report_at() == 10.0 + NOTE_SECONDS
    assert all_kinds.report(14.9) is None
    said = all_kinds.report(15.0)
    assert said is not None
    assert said.startswith("The API server does not answer since 5 s (connection refused)")
    assert all_kinds.report(60.0) is None
    all_kinds.take(Works("Pod"))
    all_kinds.take(Works("Event"))
    assert (list(all_kinds.failing), all_kinds.report(61.0)) == (["PyTorchJob"], None)
    all_kinds.take(Works("PyTorchJob"))
    assert all_kinds.report(70.0) == "The API server answers again, after 60 s."
    assert all_kinds.report(71.0) is None


def test_trouble_that_passes_soon_is_not_reported() -> None:
    one = watches()
    one.take(Failed("Pod", AWAY), 10.0)
    one.take(Works("Pod"))
    assert one.report(60.0) is None


def test_what_alone_cannot_be_watched_is_named() -> None:
    silent, denied = watches(), watches()
    silent.take(Failed("Pod", AWAY), 0.0)
    denied.take(Failed("Event", DENIED), 0.0)
    assert "does not report pods since 6 s" in (silent.report(6.0) or "")
    said = denied.report(6.0)
    assert said is not None
    assert said.startswith("The events cannot be watched: the events be watched: may not watch.")

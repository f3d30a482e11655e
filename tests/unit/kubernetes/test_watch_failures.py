"""Users read once that the API server does not tell us, and once that it does again."""

from __future__ import annotations

from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watching.watches import NOTE_SECONDS, WatchFailures
from k8sbench.model.errors import BenchError, Unreachable

AWAY = ApiFault(None, "", "connection refused")
DENIED = ApiFault(403, "Forbidden", "may not watch")
WATCHED = 3


def explained(fault: ApiFault, doing: str) -> BenchError:
    return Unreachable(f"{doing}: {fault.message}.", "Ask.")


def note(failures: WatchFailures, now: float) -> str | None:
    return failures.report(now, WATCHED, explained)


def test_an_outage_is_worth_a_word_after_some_seconds_and_at_its_end() -> None:
    failures = WatchFailures()
    assert (bool(failures), failures.report_at(), note(failures, 0.0)) == (False, None, None)
    for kind in ("PyTorchJob", "Pod", "Event"):
        failures.failed(kind, AWAY, 10.0)
    failures.failed("Pod", AWAY, 12.0)  # again: it is away since the first time
    assert failures.report_at() == 10.0 + NOTE_SECONDS
    assert note(failures, 14.9) is None
    said = note(failures, 15.0)
    assert said is not None
    assert said.startswith("The API server does not answer since 5 s (connection refused)")
    assert (note(failures, 60.0), failures.report_at()) == (None, None)
    failures.works("Pod")
    failures.works("Event")
    assert (list(failures), note(failures, 61.0)) == (["PyTorchJob"], None)
    failures.works("PyTorchJob")
    assert note(failures, 70.0) == "The API server answers again, after 60 s."
    assert note(failures, 71.0) is None


def test_trouble_that_passes_soon_is_not_reported() -> None:
    failures = WatchFailures()
    failures.failed("Pod", AWAY, 10.0)
    failures.works("Pod")
    assert note(failures, 60.0) is None


def test_what_alone_cannot_be_watched_is_named() -> None:
    silent, denied = WatchFailures(), WatchFailures()
    silent.failed("Pod", AWAY, 0.0)
    denied.failed("Event", DENIED, 0.0)
    assert "does not report pods since 6 s" in (note(silent, 6.0) or "")
    said = note(denied, 6.0)
    assert said is not None
    assert said.startswith("The events cannot be watched: the events be watched: may not watch.")

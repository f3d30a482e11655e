"""What becomes of a job whose pods wait for trainers that somebody has deleted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from k8sbench.adapters.kubernetes import trainer_sources
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.trainer_sources import AGAIN_SECONDS, MOUNT_SECONDS, Awaited
from k8sbench.diagnose.job.state import JobState
from k8sbench.model.errors import UsageError
from k8sbench.model.phase import Phase

NAME = "k8sbench-trainers-" + "0" * 64
FAULTS = (None, ApiFault(None, "", "connection refused"), UsageError("It is gone."))


def state(missing: str | None = NAME, cause_id: str = "config-missing") -> JobState:
    why = f'worker-0 cannot start without a ConfigMap or Secret: configmap "{missing}" not found.'
    return JobState(
        phase=Phase.STARTING, cause=why, cause_id=cause_id, unrecoverable=True, replicas=()
    )


class Waiting:
    """A job that waits, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fault: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.now, self._fault = 0.0, fault
        monkeypatch.setattr(trainer_sources, "time", SimpleNamespace(monotonic=lambda: self.now))
        trainers: Any = SimpleNamespace(provide=self._provide)
        self._awaited = Awaited(trainers, lambda request: request())

    def _provide(self, name: str) -> None:
        self.asked.append(name)
        if self._fault is not None:
            raise self._fault

    def see(self, seen: JobState) -> JobState:
        return self._awaited.see("mine", seen)


@pytest.mark.parametrize("fault", FAULTS)
def test_it_is_asked_for_now_and_then_while_its_pods_have_time_to_mount_it(
    monkeypatch: pytest.MonkeyPatch, fault: Exception | None
) -> None:
    waiting = Waiting(monkeypatch, fault)
    for times, at in ((1, 0.0), (1, AGAIN_SECONDS - 1.0), (2, AGAIN_SECONDS)):
        waiting.now = at
        seen = waiting.see(state())
        assert (seen.unrecoverable, seen.look_again_s) == (False, AGAIN_SECONDS)
        assert waiting.asked == [NAME] * times
    # It is there, and cannot be mounted; or it cannot be had.
    waiting.now = MOUNT_SECONDS
    assert waiting.see(state()).unrecoverable


@pytest.mark.parametrize("other", [state("theirs"), state(cause_id="pod-not-started")])
def test_what_is_no_trainer_is_the_user_s_to_create(
    monkeypatch: pytest.MonkeyPatch, other: JobState
) -> None:
    waiting = Waiting(monkeypatch)
    assert waiting.see(other) is other
    assert waiting.asked == []


def test_a_job_that_started_and_waits_anew_is_given_time_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting(monkeypatch)
    waiting.see(state())
    waiting.see(JobState(phase=Phase.RUNNING, cause="All run.", replicas=()))
    waiting.now = 10 * MOUNT_SECONDS
    assert not waiting.see(state()).unrecoverable
    assert waiting.asked == [NAME, NAME]

"""What is told of a job that is followed, beside its readings."""

from __future__ import annotations

from k8sbench.adapters.kubernetes.followed import LOGS_BEING_READ, Followed, Surroundings
from k8sbench.adapters.kubernetes.reflector import Changed
from k8sbench.model.phase import Phase, Transition
from k8sbench.ports import JobEvent
from tests.unit.kubernetes.objects import PLAN, START, condition, job, pod

END, LATER = 60, 65
"""Seconds after the job was created."""


def followed(phase: Phase = Phase.RUNNING) -> Followed:
    """Follow a job that was told to be in a phase and has succeeded since."""
    one = Followed(PLAN, told=Transition(phase=phase, at=START + 1, cause=""), since=0.0)
    succeeded = job(condition("Running", status="False"), condition("Succeeded", at=END))
    one.take(Changed("PyTorchJob", succeeded))
    one.take(Changed("Pod", pod()))
    return one


def told(event: JobEvent) -> Transition:
    assert event.transition is not None
    return event.transition


def test_an_end_is_told_once_while_the_logs_are_read_and_at_the_time_that_it_had() -> None:
    one, now = followed(), START + LATER
    reading, _ = one.read(Surroundings(), now)
    (event,) = one.ending(reading, now)
    ending = told(event)
    assert (ending.phase, ending.cause_id, ending.at) == (
        Phase.RUNNING,
        LOGS_BEING_READ,
        START + END,
    )
    assert ending.cause.startswith("The job has succeeded; its logs are being read")
    assert not list(one.ending(reading, now + 1))
    end = told(one.end(reading, now + 2))
    assert (end.phase, end.at) == (Phase.SUCCEEDED, START + END)


def test_a_job_that_never_ran_is_not_said_to_run_when_it_has_ended() -> None:
    one, now = followed(Phase.PENDING), START + LATER
    reading, _ = one.read(Surroundings(), now)
    (event,) = one.ending(reading, now)
    assert told(event).phase is Phase.PENDING

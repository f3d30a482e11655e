"""Following a job that somebody else created."""

from __future__ import annotations

from typing import Any, cast

import pytest

from k8sbench.lifecycle import observing
from k8sbench.lifecycle.observing import Observation
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.phase import LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.replica_logs import LogLine
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent
from tests.unit.store.examples import plan


class Unreadable:
    """A cluster with a job whose logs cannot be read."""

    def resume(self, *_: object) -> None:
        """Follow it."""

    def wait(self, _: float) -> list[JobEvent]:
        """Return its only event; a second call would wait for ever."""
        stays = Transition(phase=Phase.RUNNING, at=2.0, cause="", cause_id=LOGS_INCOMPLETE)
        assert not self.asked
        self.asked = True
        return [JobEvent(run_id="seg-1", transition=stays)]

    asked = False


class Silent:
    """Whoever reports nothing."""

    def on_event(self, *_: object) -> None:
        """Take an event."""


def test_a_job_whose_logs_cannot_be_read_is_not_followed_for_ever() -> None:
    created = Transition(phase=Phase.CREATED, at=1.0, cause="")
    run = Run(planned=plan(), created_at=1.0, process=None, history=(created,))
    cluster: Any = Unreadable()
    seen = observing.follow(run, cluster, cast("Any", None), cast("Any", Silent()), Stop())
    assert seen.is_unreadable
    assert not seen.run.phase.final


@pytest.mark.parametrize("unit", ["tokens", "tokens/s"])
def test_a_rate_is_per_second_once_whatever_was_recorded(unit: str) -> None:
    assert plan(unit=unit).rate_unit == "tokens/s"


def test_the_counted_unit_is_that_of_the_family_of_the_log() -> None:
    created = Transition(phase=Phase.CREATED, at=1.0, cause="")
    seen = Observation(run=Run(planned=plan(), created_at=1.0, process=None, history=(created,)))
    text = (
        "step 0/100 | loss 10.9 (+nanz)| norm 21.7 (+nanz)| lr 1e-06 | 100.0 ms"
        " | 5.1% bf16 MFU | 5242880 tok/s"
    )
    seen.take(JobEvent(run_id="seg-1", line=LogLine(replica="master-0", at=2.0, text=text)))
    assert seen.is_known
    assert (seen.run.plan.unit, seen.run.plan.rate_unit) == ("tokens", "tokens/s")

"""What is known of a job's creation, and what follows for the run: joined, looked for, or ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from k8sbench.lifecycle import submitting
from k8sbench.lifecycle.context import RunContext, Stop
from k8sbench.lifecycle.submitting import Submitted
from k8sbench.model import attempts, creation
from k8sbench.model.errors import Interrupted, NoRoom, Unreachable, UsageError
from k8sbench.model.phase import RESTARTING, Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, Store
from tests.tiers import ROOT
from tests.unit.lifecycle.played import FakeCluster, Silent, at, context, planned_case
from tests.unit.model.specs import a_request
from tests.unit.report.factory import run

ENDED = at(Phase.SUCCEEDED)
NOW = 1000.0


class Refusing(FakeCluster):
    """Refuses creations with the given errors, one each; None, and afterwards: it creates."""

    def __init__(self, *script: JobEvent, refusals: Sequence[BaseException | None] = ()) -> None:
        super().__init__(*script, outlives=True)
        self.refusals = list(refusals)
        self.tried: list[RunPlan] = []

    def create(self, plan: RunPlan, *more: Any) -> None:
        self.tried.append(plan)
        wrong = self.refusals.pop(0) if self.refusals else None
        if wrong is not None:
            raise wrong
        super().create(plan, *more)


class Passing(Refusing):
    """The same; the time passes while it is waited for."""

    now = NOW

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        self.now += 40.0
        return super().wait(seconds)


def here(store: Store, cluster: FakeCluster, now: float = NOW) -> RunContext:
    if isinstance(cluster, Passing):
        return msgspec.structs.replace(context(store, cluster), clock=lambda: cluster.now)
    return context(store, cluster, now=now)


def submitted(
    store: Store,
    cluster: FakeCluster,
    *,
    detach: bool = False,
    cases: int = 1,
    parallel: int = 1,
    run_id: str | None = "mine",
    now: float = NOW,
    stop: Stop | None = None,
    reporter: Silent | None = None,
    **asked: Any,
) -> list[Submitted]:
    run_id = run_id if cases == 1 else None
    options = a_request(set_name="night", run_id=run_id, parallel=parallel, detach=detach)
    wanted = [planned_case("kubernetes", **asked)] * cases
    args = (wanted, here(store, cluster, now), reporter or Silent(), stop or Stop(), options)
    return list(submitting.submit(*args))


def reported(run: Run) -> list[tuple[str, str | None]]:
    return [(str(step.phase), step.cause_id) for step in run.history]


# -- what is recorded -------------------------------------------------------------------------


def test_a_confirmed_creation_is_on_record_also_of_a_run_that_nobody_follows(store: Store) -> None:
    (one,) = submitted(store, FakeCluster(outlives=True), detach=True)
    assert one.run.history[-1].cause == "Its job was created."
    assert reported(store.run("mine")) == [("Created", None), ("Created", "job-created")]
    (followed,) = submitted(store, FakeCluster(ENDED, outlives=True), run_id="other")
    assert reported(followed.run)[-1] == ("Succeeded", None)


def test_an_error_of_ours_while_the_job_is_created_does_not_say_that_there_is_none(
    store: Store,
) -> None:
    with pytest.raises(ZeroDivisionError):
        submitted(store, Refusing(refusals=[ZeroDivisionError()]))
    assert reported(store.run("mine"))[-1] == ("Created", "creation-unknown")


def test_the_page_says_what_each_state_of_a_creation_means() -> None:
    page = (ROOT / "docs" / "diagnosis.md").read_text()
    section = page.partition("## Creation\n")[2].partition("\n## ")[0]
    ids = {creation.JOB_CREATED, creation.CREATION_UNKNOWN, creation.QUOTA_FULL}
    ids |= {RESTARTING, creation.RESTART_WAITS, attempts.RESTART_REFUSED}
    assert set(re.findall(r"^\| \w+ \| `(.+?)`", section, re.MULTILINE)) == {
        *ids,
        creation.NOT_CREATED,
    }


# -- submitted again --------------------------------------------------------------------------


def test_a_run_that_was_refused_is_submitted_again_with_what_is_asked_for_now(store: Store) -> None:
    down = Unreachable("The training operator does not run.", "Have it started.")
    (refused,) = submitted(store, Refusing(refusals=[down]), timeout_s=60.0)
    assert refused.run.history[-1].cause == (
        "Its job was not created: The training operator does not run."
    )
    assert reported(refused.run)[-1] == ("Failed", "not-created")
    cluster = Refusing(ENDED)
    (one,) = submitted(store, cluster, timeout_s=90.0)
    assert [plan.timeout_s for plan in cluster.tried] == [90.0]
    assert store.run("mine").plan.timeout_s == 90.0
    assert reported(one.run) == [
        ("Created", None), ("Failed", "not-created"), ("Created", None), ("Created", "job-created"),
        ("Succeeded", None),
    ]  # fmt: skip


# -- several ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [1, 3])
def test_one_refusal_does_not_keep_the_others_from_their_ends(store: Store, parallel: int) -> None:
    reporter = Silent()
    cluster = Refusing(ENDED, refusals=[None, UsageError("The webhook refused it.", "Mend it.")])
    outcomes = submitted(store, cluster, cases=5, parallel=parallel, reporter=reporter)
    assert sorted(one.state for one in outcomes) == ["closed"] * 4 + ["refused"]
    (refused,) = (one for one in outcomes if one.error is not None)
    assert reported(refused.run)[-1] == ("Failed", "not-created")
    assert refused.run.history[-1].action == "Mend it."
    assert reporter.reported.count("Failed") == 1
    assert store.claims.claim(refused.run.run_id)


@pytest.mark.parametrize("detach", [True, False])
def test_what_every_job_would_meet_ends_the_creating_and_not_the_following(
    store: Store, detach: bool
) -> None:
    reporter = Silent()
    cluster = Refusing(ENDED, refusals=[None, Unreachable("The training operator does not run.")])
    outcomes = submitted(store, cluster, cases=5, parallel=1, detach=detach, reporter=reporter)
    made = "created" if detach else "closed"
    assert [one.state for one in outcomes] == [made, "refused"]
    assert "3 more are not started: The training operator does not run." in reporter.reported


# -- quotas -----------------------------------------------------------------------------------

FULL = NoRoom("Job x is not created: quota few allows 2, of which 2 used, and 1 more asked for.")


def test_a_run_whose_quota_is_full_can_be_submitted_again_after_a_stop(store: Store) -> None:
    stop = Stop()

    class Stopped(Passing):
        def wait(self, seconds: float | None) -> Sequence[JobEvent]:
            if store.run("mine").phase is Phase.QUEUED:
                stop("Interrupted (Ctrl-C)")
            return super().wait(seconds)

    with pytest.raises(Interrupted, match="Its job was not created: ") as raised:
        submitted(store, Stopped(refusals=[FULL] * 99), stop=stop)
    assert raised.value.action == "Submit it again, under its name with --run-id mine."
    assert reported(store.run("mine"))[-1] == ("Failed", "not-created")
    (one,) = submitted(store, Refusing(ENDED))
    assert one.run.phase is Phase.SUCCEEDED


# -- stopped ----------------------------------------------------------------------------------


def test_a_job_whose_creation_is_unknown_may_come_until_it_has_settled() -> None:
    asked = at(Phase.CREATED, cause_id=creation.CREATION_UNKNOWN).transition
    assert asked is not None
    unknown = msgspec.structs.replace(run(), history=(asked,))
    assert creation.settles_in(unknown, asked.at) == creation.SETTLE_SECONDS
    assert creation.settles_in(unknown, asked.at + 1e6) == 0.0

"""What is known of a job's creation, and what follows for the run: joined, looked for, or ended."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from k8sbench.lifecycle.context import Stop
from k8sbench.model import attempts, creation
from k8sbench.model.errors import Interrupted, NoRoom, Unreachable, UsageError
from k8sbench.model.phase import RESTARTING, Phase
from k8sbench.model.run import Run
from k8sbench.ports import Store
from tests.tiers import ROOT
from tests.unit.lifecycle.played import FakeCluster, Silent, at, outcomes
from tests.unit.report.factory import run

ENDED = at(Phase.SUCCEEDED)
DOWN = Unreachable("The training operator does not run.", "Have it started.")


def cluster_of(*refusals: BaseException | None, **more: Any) -> FakeCluster:
    """A cluster whose jobs succeed, and that refuses the first creations with these errors."""
    return FakeCluster(ENDED, outlives=True, refusals=refusals, **more)


def reported(run: Run) -> list[tuple[str, str | None]]:
    return [(str(step.phase), step.cause_id) for step in run.history]


# -- what is recorded -------------------------------------------------------------------------


def test_a_confirmed_creation_is_on_record_also_of_a_run_that_nobody_follows(store: Store) -> None:
    (one,) = outcomes(store, FakeCluster(outlives=True), detach=True, run_id="mine")
    assert one.run.history[-1].cause == "Its job was created."
    assert reported(store.run("mine")) == [("Created", None), ("Created", "job-created")]
    (followed,) = outcomes(store, cluster_of(), run_id="other")
    assert reported(followed.run)[-1] == ("Succeeded", None)


def test_an_error_of_ours_while_the_job_is_created_does_not_say_that_there_is_none(
    store: Store,
) -> None:
    with pytest.raises(ZeroDivisionError):
        outcomes(store, cluster_of(ZeroDivisionError()), run_id="mine")
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
    (refused,) = outcomes(store, cluster_of(DOWN), run_id="mine", timeout_s=60.0)
    assert refused.run.history[-1].cause == (
        "Its job was not created: The training operator does not run."
    )
    (one,) = outcomes(store, cluster_of(), run_id="mine", timeout_s=90.0)
    assert store.run("mine").plan.timeout_s == 90.0
    assert reported(one.run) == [
        ("Created", None), ("Failed", "not-created"), ("Created", None), ("Created", "job-created"),
        ("Succeeded", None),
    ]  # fmt: skip


# -- several ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [1, 3])
def test_one_refusal_does_not_keep_the_others_from_their_ends(store: Store, parallel: int) -> None:
    reporter = Silent()
    cluster = cluster_of(None, UsageError("The webhook refused it.", "Mend it."))
    ends = outcomes(store, cluster, cases=5, parallel=parallel, reporter=reporter)
    assert sorted(one.state for one in ends) == ["closed"] * 4 + ["refused"]
    (refused,) = (one for one in ends if one.error is not None)
    assert reported(refused.run)[-1] == ("Failed", "not-created")
    assert refused.run.history[-1].action == "Mend it."
    assert reporter.reported.count("Failed") == 1
    assert store.claims.claim(refused.run.run_id)


@pytest.mark.parametrize("detach", [True, False])
def test_what_every_job_would_meet_ends_the_creating_and_not_the_following(
    store: Store, detach: bool
) -> None:
    reporter = Silent()
    cluster = cluster_of(None, DOWN)
    ends = outcomes(store, cluster, cases=5, parallel=1, detach=detach, reporter=reporter)
    made = "created" if detach else "closed"
    assert [one.state for one in ends] == [made, "refused"]
    assert f"3 more are not started: {DOWN}" in reporter.reported


# -- quotas -----------------------------------------------------------------------------------

FULL = NoRoom("Job x is not created: quota few allows 2, of which 2 used, and 1 more asked for.")


def test_a_run_whose_quota_is_full_can_be_submitted_again_after_a_stop(store: Store) -> None:
    stop = Stop()

    def interrupt() -> None:
        if store.run("mine").phase is Phase.QUEUED:
            stop("Interrupted (Ctrl-C)")

    cluster = cluster_of(*[FULL] * 99, passes=40.0, meanwhile=interrupt)
    with pytest.raises(Interrupted, match="Its job was not created: ") as raised:
        outcomes(store, cluster, run_id="mine", stop=stop)
    assert raised.value.action == "Submit it again, under its name with --run-id mine."
    assert reported(store.run("mine"))[-1] == ("Failed", "not-created")
    (one,) = outcomes(store, cluster_of(), run_id="mine")
    assert one.run.phase is Phase.SUCCEEDED


# -- stopped ----------------------------------------------------------------------------------


def test_a_job_whose_creation_is_unknown_may_come_until_it_has_settled() -> None:
    asked = at(Phase.CREATED, cause_id=creation.CREATION_UNKNOWN).transition
    assert asked is not None
    unknown = msgspec.structs.replace(run(), history=(asked,))
    assert creation.settles_in(unknown, asked.at) == creation.SETTLE_SECONDS
    assert creation.settles_in(unknown, asked.at + 1e6) == 0.0

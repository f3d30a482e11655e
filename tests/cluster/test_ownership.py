"""Several stores on one namespace: only a job's owner acts."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.test_operator_reading import expose
from tests.harness.cluster import operator_process
from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import CASE, ENDLESS, Shell, until

OWNER, TURN = "k8sbench.io/owner", "k8sbench.io/turn"
IMPATIENT = {"model__ownership__ANSWER_SECONDS": 1.0}
"""Settings of a client that soon gives up on an owner."""
PATIENT = {"model__ownership__ANSWER_SECONDS": SECONDS}
"""Settings of a client that waits for an owner's answer."""


def written(shell: Shell, run_id: str) -> dict[str, str]:
    metadata = shell.namespace.get(shell.namespace.job(run_id))["metadata"]
    return dict(metadata["annotations"])


def owner(shell: Shell, run_id: str) -> Any:
    return json.loads(written(shell, run_id)[OWNER])["store"]


def ended(shell: Shell, run_id: str) -> list[str]:
    """Detach from a run, and let it end; returns what its first replica printed."""
    logs = shell.printing(run_id)
    logs.end()
    shell.finish(run_id)
    shell.namespace.wait_for_success(run_id)
    return logs.expected[shell.replicas[0]]


def is_gone(shell: Shell, run_id: str) -> bool:
    return run_id not in shell.on_cluster()


# -- requests to an owner -------------------------------------------------------------------------


def test_the_owner_does_what_another_store_asks(shell: Shell) -> None:
    logs = shell.logs("asked").begin()
    colleague = shell.colleague()
    with shell.submitted("asked") as owning:
        owning.until("step ")
        colleague.limits = PATIENT
        asked = colleague.run("cancel", "asked")
        owning.ends(3)
    assert "asked belongs to k8sbench on " in asked.err
    assert "Run asked: its owner has the request." in asked.err
    assert colleague.json("list") == []
    assert shell.phase("asked") == "Cancelled"
    assert shell.archived("asked") == logs.expected[shell.replicas[0]]
    assert "asked" not in shell.on_cluster()


def test_an_owner_that_does_not_answer_obeys_when_it_comes_back(shell: Shell) -> None:
    logs = shell.logs("unanswered").begin()
    colleague = shell.colleague()
    with shell.submitted("unanswered") as owning:
        owning.until("step ")
        owning.kill()
    colleague.limits = IMPATIENT
    asked = colleague.run("cancel", "unanswered", code=2)
    assert "k8sbench collect --take-over unanswered" in asked.err
    assert "unanswered" in shell.on_cluster()
    shell.run("collect", "unanswered", "--follow", code=3)
    assert shell.phase("unanswered") == "Cancelled"
    assert shell.archived("unanswered") == logs.expected[shell.replicas[0]]
    assert "unanswered" not in shell.on_cluster()


def test_what_its_owner_keeps_another_store_deletes_by_a_request(shell: Shell) -> None:
    shell.logs("kept").begin().end()
    shell.submit("kept", "--keep")
    colleague = shell.colleague()
    colleague.limits = IMPATIENT
    colleague.run("delete", "kept", code=2)
    assert "kept" in shell.on_cluster()
    shell.run("collect", "--all")
    until(lambda: "kept" not in shell.on_cluster(), "the deletion of kept")


# -- a change of the owner ------------------------------------------------------------------------


def test_a_job_is_collected_where_it_is_taken_over_and_nowhere_else(own_shell: Shell) -> None:
    shell = own_shell
    lines = ended(shell, "left")
    colleague = shell.colleague()
    refused = colleague.run("collect", "left", code=2)
    assert "take it over with: k8sbench collect --take-over left" in refused.err
    assert colleague.run("collect", "--all").err == "Nothing needs collection here.\n"
    unasked = colleague.run("collect", "--take-over", "left", code=2)
    assert "give --yes" in unasked.err
    assert owner(shell, "left") == shell.identity
    taken = colleague.run("collect", "--take-over", "--yes", "left")
    assert " ok (smoke)" in taken.out
    assert "left belongs to this store now." in taken.err
    assert colleague.archived("left") == lines
    assert "left" not in shell.on_cluster()
    # Nobody knows any more who has taken it over: the job is gone.
    assert "run-lost" in shell.run("collect", "left", code=3).out


def test_a_former_owner_that_wakes_up_leaves_the_job_alone(shell: Shell) -> None:
    logs = shell.logs("asleep").begin()
    colleague = shell.colleague()
    with shell.submitted("asleep") as owning:
        owning.until("step ")
        owning.process.send_signal(signal.SIGSTOP)
        with colleague.started("collect", "--take-over", "-y", "--follow", "asleep") as taking:
            taking.until("asleep belongs to this store now.")
            owning.process.send_signal(signal.SIGCONT)
            owning.until("asleep belongs to k8sbench on ")
            assert owner(shell, "asleep") == colleague.identity
            logs.end()
            shell.finish("asleep")
            taking.ends()
        owning.ends(5)
    status = shell.json("status", "asleep")
    assert (status["cause_id"], status["measurement"]) == ("collected-elsewhere", None)
    assert colleague.json("status", "asleep")["measurement"]["verdict"] == "valid"


def test_a_job_without_an_owner_is_claimed_by_who_collects_it(shell: Shell) -> None:
    job = shell.namespace.job("rendered")
    logs = shell.logs("rendered").begin()
    text = shell.run("render", *CASE, ENDLESS, "--run-id=rendered", "--with-trainers").out
    (manifest := shell.folder / "job.yaml").write_text(text)
    shell.namespace.kubectl("apply", "--server-side", "--force-conflicts", f"-f={manifest}")
    assert OWNER not in written(shell, "rendered")
    with shell.started("collect", "rendered", "--follow") as collecting:
        until(lambda: OWNER in written(shell, "rendered"), f"the owner of {job}")
        assert owner(shell, "rendered") == shell.identity
        logs.end()
        shell.finish("rendered")
        collecting.ends()
    assert shell.archived("rendered") == logs.expected[shell.replicas[0]]
    assert "rendered" not in shell.on_cluster()


# -- with an operator -----------------------------------------------------------------------------


def test_an_operator_owns_what_is_submitted_and_starts_it_in_turns(
    own_cluster: OwnCluster, own_shell: Shell, tmp_path: Path
) -> None:
    shell, operator = own_shell, operator_process.make(own_shell.namespace, tmp_path / "machine")
    words = ("submit", *CASE, ENDLESS, "--set=night", "--repeats=3", "--parallel=2")
    with operator.collecting() as running:
        expose(own_cluster, shell, running)
        with shell.started(*words) as submit:
            submit.until("The operator of namespace ")
            until(lambda: len(shell.on_cluster()) == 3, "the jobs of the set")
            jobs = shell.on_cluster()
            until(lambda: len(shell.on_cluster("pods")) == 4, "the pods of two jobs")
            held = [job for job in jobs if TURN in written(shell, job)]
            assert len(held) == 1
            assert {owner(shell, job) for job in jobs} == {"operator"}
            # A closed laptop changes nothing.
            submit.kill()
        # The held one has pods only when another has ended.
        for job in sorted(jobs, key=held.__contains__):
            shell.finish(job)
            until(partial(is_gone, shell, job), f"the deletion of {job}")
        rows = shell.json("results")["rows"]
        assert [member["source"] for member in rows[0]["members"]] == ["operator"] * 3
        assert "nothing-measured" in shell.run("explain", jobs[0]).out
        colleague = shell.colleague()
        copied = colleague.run("store", "import", "--from-operator", "night")
        assert copied.err == "3 runs imported; 0 runs were here already.\n"
        assert colleague.json("status", jobs[0])["source"] == "here"
        # What comes back shows the operator's rows, and has no job of its own to act on.
        resumed = shell.run("submit", *CASE, ENDLESS, "--repeats=3", "--resume=night", code=5)
        assert resumed.err.count("its logs and figures are here now") == 3
        assert shell.json("status", jobs[0])["source"] == "here"
        # Its owner ends what another store asks it to.
        shell.submit("asked", ENDLESS, "--detach")
        shell.limits = PATIENT
        assert "its owner has the request" in shell.run("cancel", "asked").err
        until(lambda: "asked" not in shell.on_cluster(), "the end of asked")
        until(lambda: operator.phase("asked") == "Cancelled", "the record of asked")
        operator_process.end(running)


def test_without_the_operator_on_request(
    own_cluster: OwnCluster, own_shell: Shell, tmp_path: Path
) -> None:
    operator = operator_process.make(own_shell.namespace, tmp_path / "machine")
    with operator.collecting() as running:
        expose(own_cluster, own_shell, running)
        logs = own_shell.logs("mine").begin()
        with own_shell.submitted("mine", "--no-operator") as submit:
            submit.until("step ")
            assert owner(own_shell, "mine") == own_shell.identity
            logs.end()
            own_shell.finish("mine")
            submit.ends()
        assert own_shell.json("status", "mine")["source"] == "here"
        assert operator.json("list") == []
        operator_process.end(running)

"""Several stores on one namespace: each job has one owner, and only that one acts on it."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

from k8sbench.model.ownership import RECEIPT_SECONDS
from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.shell import Shell

OWNER, RECEIPT = "k8sbench.io/owner", "k8sbench.io/receipt"
IMPATIENT = {"model__ownership__ANSWER_SECONDS": 1.0}
"""Who does not wait long for an owner that cannot answer."""
PATIENT = {"model__ownership__ANSWER_SECONDS": SECONDS}
"""Who is not to give up an owner that answers."""


def written(shell: Shell, run_id: str) -> dict[str, str]:
    metadata = shell.namespace.get(shell.namespace.job(run_id))["metadata"]
    return dict(metadata["annotations"])


def owner(shell: Shell, run_id: str) -> Any:
    return json.loads(written(shell, run_id)[OWNER])


def annotate(shell: Shell, run_id: str, name: str, **changes: object) -> None:
    """Change what an annotation says."""
    value = json.dumps(json.loads(written(shell, run_id)[name]) | changes)
    shell.namespace.kubectl(
        "annotate", shell.namespace.job(run_id), "--overwrite", f"{name}={value}"
    )


def ended(shell: Shell, run_id: str) -> list[str]:
    """Detach from a run, and let it end; returns what its first replica printed."""
    logs = shell.printing(run_id)
    logs.end()
    shell.finish(run_id)
    shell.namespace.wait_for_success(run_id)
    return logs.expected[shell.replicas[0]]


# -- asking ---------------------------------------------------------------------------------------


def test_the_owner_does_what_another_store_asks(shell: Shell) -> None:
    logs = shell.logs("asked").begin()
    colleague = shell.colleague()
    with shell.submitted("asked") as owning:
        owning.until("step ")
        colleague.limits = PATIENT
        asked = colleague.run("cancel", "asked")
        owning.ends(3)
    assert "asked is k8sbench on " in asked.err
    assert "Run asked: its owner has done it." in asked.err
    assert colleague.json("list") == []
    assert shell.phase("asked") == "Cancelled"
    assert shell.archived("asked") == logs.expected[shell.replicas[0]]
    assert "asked" not in shell.on_cluster()


def test_an_owner_that_does_not_answer_is_not_waited_for(shell: Shell) -> None:
    logs = shell.logs("unanswered").begin()
    colleague = shell.colleague()
    with shell.submitted("unanswered") as owning:
        owning.until("step ")
        owning.kill()
    colleague.limits = IMPATIENT
    asked = colleague.run("cancel", "unanswered")
    assert "unanswered was k8sbench on " in asked.err
    assert colleague.phase("unanswered") == "Cancelled"
    assert colleague.archived("unanswered") == logs.expected[shell.replicas[0]]
    assert "unanswered" not in shell.on_cluster()


# -- adopting -------------------------------------------------------------------------------------


def test_a_job_of_another_store_is_collected_where_it_is_adopted_and_nowhere_else(
    own_shell: Shell,
) -> None:
    shell = own_shell
    lines = ended(shell, "left")
    colleague, third = shell.colleague(), shell.colleague().colleague()
    refused = colleague.run("collect", "left", code=2)
    assert "take it over with: k8sbench collect --adopt left" in refused.err
    assert colleague.run("collect", "--all").err == "Nothing needs collection here.\n"
    adopted = colleague.run("collect", "--adopt", "left")
    assert " ok (smoke)" in adopted.out
    assert "left stays on the cluster: it stays for 7d" in adopted.err
    assert colleague.archived("left") == lines
    assert owner(shell, "left")["store"] == colleague.identity
    # It is collected: nobody adopts it again.
    third.run("collect", "--adopt", "--all")
    assert owner(shell, "left")["store"] == colleague.identity
    # Its submitter finds the receipt, and measures nothing.
    collected = shell.run("collect", "left", code=5)
    assert "not-measured (left): All 2 replicas succeeded. k8sbench on " in collected.out
    status = shell.json("status", "left")
    rate = colleague.json("status", "left")["measurement"]["throughput"]["time_weighted"]
    assert (status["phase"], status["measurement"]) == ("Succeeded", None)
    assert "collected it at 20" in status["cause"]
    assert f"{rate:.1f} samples/s, valid, SHA-256 of its logs " in status["cause"]
    assert f"the store {colleague.identity} there has its logs." in status["action"]
    # After a week it goes.
    annotate(shell, "left", RECEIPT, at=time.time() - RECEIPT_SECONDS)
    colleague.run("collect", "--all")
    assert "left" not in shell.on_cluster()


def test_a_former_owner_that_wakes_up_leaves_the_job_and_shows_the_receipt(shell: Shell) -> None:
    logs = shell.logs("asleep").begin()
    colleague = shell.colleague()
    with shell.submitted("asleep") as owning:
        owning.until("step ")
        owning.process.send_signal(signal.SIGSTOP)
        logs.end()
        shell.finish("asleep")
        # It does not answer that it follows the job.
        colleague.limits = IMPATIENT
        adopted = colleague.run("collect", "--adopt", "--follow", "asleep")
        assert " ok (smoke)" in adopted.out
        owning.process.send_signal(signal.SIGCONT)
        owning.ends(0, 5)
    assert "asleep is k8sbench on " in owning.err
    status = shell.json("status", "asleep")
    assert (status["cause_id"], status["measurement"]) == ("collected-elsewhere", None)
    assert owner(shell, "asleep")["store"] == colleague.identity


def test_what_somebody_keeps_nobody_takes_away_but_by_name(shell: Shell) -> None:
    shell.logs("kept").begin().end()
    shell.submit("kept", "--keep")
    colleague = shell.colleague()
    annotate(shell, "kept", OWNER, is_handed_over=True)
    colleague.run("collect", "--adopt", "--all")
    assert owner(shell, "kept")["store"] == shell.identity
    colleague.limits = IMPATIENT
    colleague.run("delete", "kept")
    assert "kept" not in shell.on_cluster()

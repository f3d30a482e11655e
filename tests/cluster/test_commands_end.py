"""Runs that end early: cancelled, deleted, timed out, failed."""

from tests.harness.cluster.shell import ENDLESS, Shell, until

NOWHERE = "--node-pool=nowhere"


def running(shell: Shell, run_id: str) -> None:
    """Wait until the pods of a detached run run."""
    until(lambda: shell.json("status", run_id)["on_cluster"]["phase"] == "Running", "running")


def test_cancel_ends_a_detached_run_and_keeps_its_logs(shell: Shell) -> None:
    logs = shell.printing("detached")
    running(shell, "detached")
    # A name that is none is said before anything is ended, and one that is given twice counts once.
    shell.run("cancel", "detached", "no-such", code=2)
    assert shell.phase("detached") != "Cancelled"
    said = "Run detached is Cancelled. Cancelled by k8sbench cancel."
    assert shell.run("cancel", "detached", "detached").err.count(said) == 1
    assert "run detached is Cancelled." in shell.run("cancel", "detached").err
    assert shell.phase("detached") == "Cancelled"
    assert shell.archived("detached") == logs.expected["master-0"]
    assert "detached" not in shell.on_cluster()
    # Its name is taken: who submits it again reads that nothing begins.
    again = shell.submit("detached", ENDLESS, "--detach", code=3)
    assert "Run detached is Cancelled already: nothing was created." in again.err
    assert "Detached." not in again.err
    assert "detached" not in shell.on_cluster()


def test_a_run_that_takes_too_long_is_cancelled_or_detached_with_keep(shell: Shell) -> None:
    names = ("slow", "spared")
    logs = {name: shell.logs(name).begin() for name in names}
    for name in names:
        # Nobody cancels it before it is followed.
        shell.submit(name, ENDLESS, "--timeout=1s", "--detach")
        running(shell, name)
    slow = shell.run("watch", "slow", code=4)
    spared = shell.run("collect", "spared", "--follow", "--keep", code=4)
    assert "Cancelled: The run took longer than its --timeout of 1s." in slow.err
    status = shell.json("status", "slow")
    assert (status["phase"], status["cause_id"]) == ("Cancelled", "timeout")
    assert "slow" not in shell.on_cluster()
    # With --keep the pods go on.
    assert "End it with: k8sbench delete spared" in spared.err
    assert "spared" in shell.on_cluster()
    for name in names:
        assert shell.archived(name) == logs[name].expected["master-0"]
    shell.run("delete", "spared")
    assert "spared" not in shell.on_cluster()


def test_what_cannot_start_fails_fast_unless_it_is_waited_for(shell: Shell) -> None:
    shell.submit("patient", NOWHERE, "--wait", "--detach")
    # Whoever follows it then: it is to wait.
    with shell.started("watch", "patient") as watch:
        watch.until("no.such/label")
        done = shell.submit("unrecoverable", NOWHERE, code=3)
        assert "Failed: " in done.err
        assert "no.such/label" in done.err
        status = shell.json("status", "unrecoverable")
        assert status["phase"] == "Failed"
        assert status["cause_id"] is not None
        assert status["action"]
        assert "unrecoverable" not in shell.on_cluster()
        # Held, so that somebody can look at it.
        shell.submit("held", NOWHERE, "--keep", code=3)
        job = shell.namespace.get("pytorchjob", "held")
        assert job["spec"]["runPolicy"]["suspend"] is True
        shell.run("delete", "held")
        assert shell.phase("patient") == "Pending"
        shell.run("cancel", "patient")
        watch.ends(3)

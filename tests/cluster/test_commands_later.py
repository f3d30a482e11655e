"""Runs that nobody follows: submitted with ``--detach``, looked at, and collected later."""

import re

from tests.harness.cluster.shell import ENDLESS, Shell, until


def test_a_detached_run_is_looked_at_and_collected(shell: Shell) -> None:
    logs = shell.logs("detached").begin()
    submitted = shell.submit("detached", ENDLESS, "--detach")
    # stdout is for scripts; what to do next is for people.
    assert submitted.out == "detached\n"
    assert "Collect what it measures with: k8sbench collect detached --follow" in submitted.err
    until(lambda: shell.json("list")[0]["on_cluster"] == "Running", "it to run")
    assert shell.json("list")[0]["phase"] == "Created"
    assert re.search(r"^detached .* Running ", shell.run("list").out, re.MULTILINE)

    status = shell.json("status", "detached")
    assert (status["phase"], status["on_cluster"]["phase"]) == ("Created", "Running")
    states = {one["replica"]: one for one in status["on_cluster"]["replicas"]}
    assert set(states) == {"master-0", "worker-0"}
    assert {one["phase"] for one in states.values()} == {"Running"}
    assert all(one["node"].startswith("gpu-") for one in states.values())
    shown = shell.run("status", "detached").out
    assert "On cluster: Running: All 2 replicas run." in shown
    assert re.search(r"^master-0 +Running +gpu-\d +0 ", shown, re.MULTILINE)

    # What was printed so far comes from the cluster, and nothing is archived by looking at it.
    master, worker = logs.expected["master-0"], logs.expected["worker-0"]
    assert shell.run("logs", "detached", "--replica=master-0").out.splitlines() == master
    printed = shell.run("logs", "detached").out.splitlines()
    assert sorted(printed) == sorted(
        [*(f"[master-0] {line}" for line in master), *(f"[worker-0] {line}" for line in worker)]
    )
    stamped = shell.run("logs", "detached", "--replica=worker-0", "--timestamps").out
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z K8SBENCH ", stamped)
    assert shell.run("logs", "detached", "--since=1s").out == ""
    assert shell.archived("detached") == []

    going_on = shell.run("collect", "detached")
    assert going_on.out == ""
    assert "detached goes on; wait with --follow" in going_on.err
    logs.end()
    shell.finish("detached")
    shell.namespace.wait("condition=Succeeded", "pytorchjob/detached")
    listed = shell.run("list")
    assert "1 run is over on the cluster, and not collected: k8sbench collect --all" in listed.err
    collected = shell.run("collect", "detached")
    assert " ok (smoke)" in collected.out
    assert shell.archived("detached") == logs.expected["master-0"]
    assert "detached" not in shell.on_cluster()
    # Again is harmless, and says the same.
    assert shell.run("collect", "detached").out == collected.out
    assert (
        shell.run("logs", "detached", "--replica=master-0").out.splitlines()
        == (logs.expected["master-0"])
    )


def test_a_run_that_only_the_cluster_knows_is_looked_at_like_ones_own(own_shell: Shell) -> None:
    logs = own_shell.logs("theirs").begin()
    own_shell.submit("theirs", ENDLESS, "--detach", "--set=night")
    until(lambda: own_shell.json("list")[0]["on_cluster"] == "Running", "it to run")
    colleague, here = own_shell.colleague(), own_shell.namespace.name
    # By the beginning of its name, and by way of the current context.
    status = colleague.json("status", "their")
    assert (status["run_id"], status["phase"], status["recorded"]) == ("theirs", "Running", False)
    assert [status["artifacts"], status["log_files"], status["measurement"]] == [None, [], None]
    assert {one["phase"] for one in status["on_cluster"]["replicas"]} == {"Running"}
    shown = colleague.run("status", "theirs", f"--namespace={here}").out
    assert re.search(r"^Phase: +Running: All 2 replicas run\.$", shown, re.MULTILINE)
    assert "k8sbench logs theirs" in shown
    assert "k8sbench watch" not in shown
    assert (
        colleague.run("logs", "theirs", "--replica=master-0").out.splitlines()
        == (logs.expected["master-0"])
    )
    wrong = colleague.run("logs", "theirs", "--replica=worker-7", code=2)
    assert "Replicas: master-0, worker-0." in wrong.err

    (row,) = colleague.json("list", "-n", here)
    assert (row["run_id"], row["recorded"], row["on_cluster"]) == ("theirs", False, "Running")
    assert colleague.json("list", "-n", here, "--set=day") == []
    listed = colleague.run("list", "-n", here)
    assert re.search(r"^theirs .* Running +– +not recorded ", listed.out, re.MULTILINE)
    assert "1 run is not recorded in this store" in listed.err
    (own,) = own_shell.json("list", "-n", here)
    assert (own["run_id"], own["recorded"], own["on_cluster"]) == ("theirs", True, "Running")
    # Nothing was recorded by looking.
    assert colleague.json("list") == []
    for words in (["status"], ["logs"], ["logs", "-f"], ["watch"], ["cancel"], ["collect"]):
        missing = colleague.run(*words, "thiers", code=2)
        assert f"in the store or in namespace {here} of https://" in missing.err
        assert "Nearest: theirs." in missing.err

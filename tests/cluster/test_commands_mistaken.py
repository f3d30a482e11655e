"""What a slip on the command line, or a refusal half-way, must not cost: a run that goes on."""

from __future__ import annotations

from tests.harness.cluster.cluster import KubectlFailed
from tests.harness.cluster.manifests import limit, refusing
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import CASE, ENDLESS, Shell, until

COMMANDS = ("status", "logs", "watch", "collect", "cancel", "delete")


def test_a_run_that_is_looked_for_in_the_wrong_namespace_is_not_lost(
    shell: Shell, namespace: Namespace
) -> None:
    # Who may do everything everywhere is not stopped by a lack of rights.
    shell.environment["KUBECONFIG"] = str(namespace.cluster.kubeconfig)
    right, wrong = (f"--namespace={one.name}" for one in (shell.namespace, namespace))
    submit = ("submit", *CASE, ENDLESS, "--run-id=astray")
    shell.run(*submit, "--detach", right)
    for words in (*((command, "astray") for command in COMMANDS), submit):
        reported = shell.run(*words, wrong, code=2)
        assert f"Run astray was submitted to namespace {shell.namespace.name} of" in reported.err
        assert f"there is no such job in namespace {namespace.name} of" in reported.err
    assert shell.phase("astray") == "Created"
    until(lambda: shell.json("status", "astray")["on_cluster"]["phase"] == "Running", "running")
    shell.run("delete", "astray", right)
    assert "astray" not in shell.on_cluster()


def test_what_was_created_before_a_refusal_is_named(own_shell: Shell) -> None:
    counted = "count/pytorchjobs.kubeflow.org"
    limit(own_shell.namespace, {counted: "2"})
    words = ("submit", *CASE, ENDLESS, "--repeats=3", "--set=some", "--detach", "--output=name")
    refused = own_shell.run(*words, code=2)
    assert refused.out.split() == sorted(own_shell.on_cluster(), key=refused.out.index)
    assert len(refused.out.split()) == 2
    assert "Detached. Collect what it measures with: k8sbench collect --all --follow" in refused.err
    assert f"quota few allows {counted} 2, of which 2 used, and 1 more asked for." in refused.err


def test_a_run_that_may_not_be_cancelled_goes_on_and_nobody_says_otherwise(
    own_shell: Shell, namespace: Namespace
) -> None:
    own_shell.submit("guarded", ENDLESS, "--detach")
    until(lambda: own_shell.json("status", "guarded")["on_cluster"]["phase"] == "Running", "runs")
    with refusing(namespace, "DELETE", "*", "false", "No jobs are deleted on Fridays."):
        until(lambda: "Fridays" in refusal(namespace, "guarded"), "the policy is known")
        for command in ("cancel", "delete"):
            refused = own_shell.run(command, "guarded", code=2)
            assert "No jobs are deleted on Fridays." in refused.err
            assert "Change what the rule asks for" in refused.err
        now = own_shell.json("status", "guarded")
        assert (now["phase"], now["on_cluster"]["phase"]) == ("Running", "Running")
    # The namespace is deleted next.
    until(lambda: "Fridays" not in refusal(namespace, "guarded"), "the policy is gone")


def refusal(namespace: Namespace, name: str) -> str:
    """What the API server says to the deletion of a job, without doing it."""
    try:
        return namespace.kubectl("delete", f"pytorchjob/{name}", "--dry-run=server")
    except KubectlFailed as wrong:
        return str(wrong)


def test_a_run_that_is_named_twice_is_named_once(shell: Shell) -> None:
    shell.submit("twice", ENDLESS, "--detach")
    until(lambda: shell.json("status", "twice")["on_cluster"]["phase"] == "Running", "running")
    # And one that does not exist is named before anything is ended.
    shell.run("cancel", "twice", "no-such", code=2)
    assert shell.phase("twice") != "Cancelled"
    assert shell.run("delete", "twice", "twice").err.count("has nothing on the cluster") == 1

"""What a slip on the command line, a refusal half-way or somebody's edit must not cost: a run.

And what commands say of jobs that others record, edit or take over meanwhile.
"""

from __future__ import annotations

from pathlib import Path

from tests.harness.cluster import fault_proxy
from tests.harness.cluster.cluster import KubectlFailed
from tests.harness.cluster.limits import SECONDS
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


JOBS = r"/pytorchjobs\?"


def test_logs_are_followed_of_a_run_that_is_recorded_while_it_is_looked_for(shell: Shell) -> None:
    logs = shell.logs("raced").begin()
    with fault_proxy.before(Path(shell.environment["KUBECONFIG"])) as (proxy, path):
        list_held = proxy.hold(JOBS, method="GET", times=1)
        with shell.started("logs", "raced", "-f", f"--kubeconfig={path}") as followed:
            list_held.wait()  # it has not found the run in the store, and asks the cluster
            shell.submit("raced", ENDLESS, "--detach")
            list_held.end()
            followed.until(logs.expected["worker-0"][-1])
            logs.end()
            shell.finish("raced")
            followed.ends()
    assert "Nearest" not in followed.err
    assert "Run raced is Succeeded." in followed.err


def test_a_job_whose_plan_was_edited_is_named_everywhere_and_can_be_deleted(
    own_shell: Shell, namespace: Namespace
) -> None:
    own_shell.submit("edited", ENDLESS, "--detach")
    namespace.kubectl(
        "annotate", "--overwrite", "pytorchjob/edited", 'k8sbench.io/plan={"run_id": "edited"'
    )
    # Who has it on record needs no plan from the cluster: it goes on, and is not lost.
    until(lambda: own_shell.json("list")[0]["on_cluster"] == "Running", "it to run")
    assert "edited goes on" in own_shell.run("collect", "edited").err
    colleague = own_shell.colleague()
    wrong = "The plan of PyTorchJob edited in namespace"
    listed = colleague.run("list", f"--namespace={namespace.name}")
    assert (listed.out, f"warning: left out: {wrong}" in listed.err) == ("", True)
    assert f"warning: left out: {wrong}" in colleague.run("collect", "--all").err
    for words in (("watch",), ("status",)):
        reported = colleague.run(*words, "edited", code=2)
        assert f"{wrong} {namespace.name} cannot be read: its annotation" in reported.err
        assert "delete the job with: k8sbench delete edited" in reported.err
    assert "nothing on the cluster any more" in colleague.run("delete", "edited").err
    assert own_shell.on_cluster() == []


def test_a_job_without_its_label_is_left_alone_and_that_is_said(own_shell: Shell) -> None:
    own_shell.submit("bare", "--node-pool=nowhere", "--detach")
    label = ("label", "--overwrite", "pytorchjob/bare")
    own_shell.namespace.kubectl(*label, "k8sbench.io/run-")
    bare = f"the PyTorchJob bare in namespace {own_shell.namespace.name} does not have the label"
    assert f"warning: {bare} k8sbench.io/run=bare; " in own_shell.run("status", "bare").err
    # Its end cannot be seen, so it is not waited for.
    own_shell.limits = {"adapters__kubernetes__watching__job_reader__END_SECONDS": 2 * SECONDS}
    for command in ("cancel", "delete"):
        refused = own_shell.run(command, "bare", code=2).err
        assert f"error: Run bare is not ended: {bare} k8sbench.io/run=bare; " in refused
    own_shell.limits = {}
    assert own_shell.namespace.get("pytorchjob/bare")
    status = own_shell.json("status", "bare")
    assert (status["phase"], status["wishes"]) == ("Created", [])
    own_shell.namespace.kubectl(*label, "k8sbench.io/run=bare")
    assert "nothing on the cluster any more" in own_shell.run("delete", "bare").err
    assert own_shell.on_cluster() == []

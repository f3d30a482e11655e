"""Mistyped commands, refusals half-way and foreign edits must not lose a run.

Also the messages about jobs that others record, edit or adopt meanwhile.
"""

from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import CASE, ENDLESS, Shell, until

COMMANDS = ("status", "logs", "watch", "collect", "cancel", "delete")


def test_the_wrong_namespace_does_not_lose_a_run(shell: Shell, namespace: Namespace) -> None:
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


def test_a_job_without_its_label_is_left_alone_and_that_is_said(own_shell: Shell) -> None:
    own_shell.submit("bare", "--node-pool=nowhere", "--detach")
    label = ("label", "--overwrite", "pytorchjob/bare")
    own_shell.namespace.kubectl(*label, "k8sbench.io/run-")
    bare = f"the PyTorchJob bare in namespace {own_shell.namespace.name} does not have the label"
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

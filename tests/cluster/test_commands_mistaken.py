"""Mistyped commands, refusals half-way and foreign edits must not lose a run.

Also the messages about jobs that others record, edit or adopt meanwhile.
"""

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

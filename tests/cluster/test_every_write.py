"""Processes killed between any two writes, or reading stale data."""

import itertools

from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.shell import CASE, Shell, until

MOST = 8
"""More writes than any of these commands makes."""


def killed(shell: Shell, proxy: FaultProxy, writes: int, *words: str) -> bool:
    """Kill a command before its next write; return False if it ended instead."""
    written = {shell.kind.plural, "configmaps"}
    if shell.kind.runtime is not None:
        written.add(shell.kind.runtime.plural)
    path, method = rf"/({'|'.join(written)})\b", "POST|PATCH|DELETE"
    with proxy.drop(path, method=method, skip=writes) as lost, shell.started(*words) as process:
        until(lambda: lost.hits or process.process.poll() is not None, "a write, or the end")
        process.kill()
        return lost.hits > 0


def check_collected(shell: Shell, run_id: str, lines: list[str]) -> None:
    status = shell.json("status", run_id)
    assert (status["phase"], status["measurement"]["verdict"]) == ("Succeeded", "valid")
    assert shell.archived(run_id) == lines


def test_a_killed_submit_repeated_makes_one_job(own_shell: Shell, proxy: FaultProxy) -> None:
    for writes in itertools.count():
        run_id = f"run-{writes}"
        logs = own_shell.logs(run_id).begin().end()
        words = ("submit", *CASE, f"--run-id={run_id}")
        is_killed = killed(own_shell, proxy, writes, *words)
        own_shell.run(*words)
        own_shell.run("collect", "--all")  # what is left of a run that was over
        check_collected(own_shell, run_id, logs.expected[own_shell.replicas[0]])
        assert own_shell.on_cluster() == []
        if not is_killed:
            break
        assert writes < MOST
    # The trainers and the job were created, and the job deleted; of some kinds a runtime was
    # created, too, and then bound to its job.
    assert writes >= (2 if own_shell.kind.runtime is None else 4)
    own_shell.until_nothing_is_left()
    assert len(own_shell.json("list")) == writes + 1


def test_a_stale_read_does_not_delete_the_new_job(own_shell: Shell, proxy: FaultProxy) -> None:
    shell = own_shell
    shell.printing("old")
    job = shell.namespace.get(shell.namespace.job("old"))
    shell.limits = {
        "replicas_end": 1.0,
        "change_job": 2.0,
    }
    with proxy.freeze(f"/{shell.kind.plural}"):
        shell.run("status", "old")
        shell.namespace.kubectl("delete", shell.namespace.job("old"))
        uid = shell.namespace.create_again(job)
        shell.run("cancel", "old", code=None)
        shell.run("delete", "old", code=None)
    assert (
        shell.namespace.get(shell.namespace.job("old"))["metadata"]["uid"]
        == uid
        != job["metadata"]["uid"]
    )

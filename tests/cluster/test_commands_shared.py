"""One job, several stores: each has its row, and the last of them takes the job away."""

from __future__ import annotations

import json
import re
import signal

from tests.harness.cluster.shell import Shell, until

USED_BY = "k8sbench.io/used-by-"


def users(shell: Shell, run_id: str) -> list[str]:
    """The hosts whose word stands on a job."""
    words = shell.namespace.get("pytorchjob", run_id)["metadata"]["annotations"]
    return [json.loads(word)["host"] for name, word in words.items() if name.startswith(USED_BY)]


def test_a_job_stays_until_the_slowest_of_those_who_follow_it_has_its_logs(shell: Shell) -> None:
    logs = shell.logs("both")
    logs.begin()
    colleague = shell.colleague()
    with shell.submitted("both") as one:
        one.until("step ")
        with colleague.started("watch", "both") as other:
            other.until("step ")
            until(lambda: len(users(shell, "both")) == 2, "both to be on the job")
            # Asleep while the run ends: what comes then is to be read afterwards.
            other.process.send_signal(signal.SIGSTOP)
            logs.end()
            shell.finish("both")
            one.ends()
            assert "both stays on the cluster: k8sbench on " in one.err
            assert " follows it, too, and deletes it at its end." in one.err
            assert "both" in shell.on_cluster()
            other.process.send_signal(signal.SIGCONT)
            other.ends()
    for ended, store in ((one, shell), (other, colleague)):
        assert " valid; smoke" in ended.out
        assert "incomplete-log" not in ended.out + ended.err
        assert store.archived("both") == logs.expected["master-0"]
        assert store.archived("both", "worker-0") == logs.expected["worker-0"]
    assert "stays on the cluster" not in other.err
    assert "both" not in shell.on_cluster()


def test_what_somebody_keeps_nobody_else_takes_away_but_by_name(shell: Shell) -> None:
    logs = shell.logs("kept")
    logs.begin()
    logs.end()
    shell.submit("kept", "--keep")
    colleague = shell.colleague()
    watched = colleague.run("watch", "kept")
    assert " valid; smoke" in watched.out
    assert re.search(r"kept stays on the cluster: k8sbench on \S+ keeps it \(--keep\)", watched.err)
    assert "kept" in shell.on_cluster()
    colleague.run("delete", "kept")
    assert "kept" not in shell.on_cluster()

"""Reading an operator through the API server, with time limits."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.cluster.exposing import expose
from tests.harness.cluster import operator_process, pod_logs
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.nodes import log_text
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import ENDLESS, Shell, until
from tests.tiers import ROOT

SILENT = {"operator_answer": 1.0, "operator_insist": 1.0}
"""Settings of a client that soon gives up on an operator."""


def test_another_machine_reads_what_a_submitter_has_left(
    own_cluster: OwnCluster, own_shell: Shell, tmp_path: Path
) -> None:
    operator = operator_process.make(own_shell.namespace, tmp_path / "machine")
    other = own_shell.colleague()
    assert "no operator in the namespace" in other.run("results", "--store=cluster", code=6).err
    assert "operator" not in other.run("results").err
    with operator.collecting() as running:
        expose(own_cluster, other, running)
        logs = operator_process.given(own_shell, "r1")
        until(lambda: "r1-1" in other.run("list", "--store=cluster").out, "the operator to see r1")
        words = ("logs", "r1-1", "--replica=worker-0", "--store=cluster")
        first = logs.expected["worker-0"][0]
        until(lambda: first in other.run(*words).out, "the operator to archive a line of r1")
        # A running run is known from the cluster, too; it has one row, and no note.
        for options in ((), (f"--namespace={other.namespace.name}",)):
            running_run = other.run("list", *options)
            assert running_run.out.count("r1-1 ") == 1
            assert "operator" in running_run.out
            assert running_run.err == f"1 run of the operator in {other.namespace.name}.\n"
        logs.end()
        own_shell.finish("r1-1")
        until(lambda: "r1-1" not in own_shell.on_cluster(), "the deletion of r1")
        for shell in (other, own_shell):
            row = shell.run("results").out
            assert "SOURCE" in row
            assert row.count("operator") == 1
            (listed,) = shell.json("list")
            assert (listed["run_id"], listed["source"]) == ("r1-1", "operator")
            assert (listed["phase"], listed["verdict"]) == ("Succeeded", "valid")
            assert shell.run("list").out.count("r1-1 ") == 1
            status = shell.json("status", "r1-1")
            assert (status["phase"], status["source"]) == ("Succeeded", "operator")
            assert "Source:" in shell.run("status", "r1-1").out
            for replica, lines in logs.expected.items():
                printed = shell.run("logs", "r1-1", f"--replica={replica}").out
                assert printed.splitlines() == lines
        assert other.json("results")["rows"][0]["members"][0]["source"] == "operator"
        assert "r1-1" in other.run("list", "--store=cluster").out
        assert "[worker-0] " in other.run("logs", "r1-1", "--store=cluster").out
        assert "no such run: r9" in other.run("status", "r9", "--store=cluster", code=2).err
        assert "There is no run 'r9'" in other.run("status", "r9", code=2).err
        assert "can be read" not in other.run("watch", "r1-1", "--store=cluster", code=2).out
        for command in ("watch", "collect", "cancel", "delete"):
            over = other.run(command, "r1-1")
            assert (" ok (smoke)" in over.out) == (command in {"watch", "collect"})
            assert ("Nothing to cancel" in over.err) == (command in {"cancel", "delete"})
        fill_own_store(own_shell, tmp_path)
        check_each_answer_reads_one_store(own_shell)
        copied = own_shell.run("store", "import", "--from-operator", "r1")
        assert copied.err.startswith("1 run imported; 0 runs were here already.\n")
        assert own_shell.json("status", "r1-1")["source"] == "here"
        for replica, lines in logs.expected.items():
            assert own_shell.archived("r1-1", replica) == lines
        check_what_is_in_both_stores(own_shell)
        # It stands still: what this machine has is printed, and that nothing else could be.
        running.process.send_signal(signal.SIGSTOP)
        own_shell.limits = SILENT
        silent = own_shell.run("list", code=6)
        assert "r1-1" in silent.out
        (first, *_) = silent.err.splitlines()
        assert first.startswith("warning: without the runs of an operator: ")
        assert "answer" in first
        assert own_shell.run("list", "--store=local").err == ""
        insisted = own_shell.run("list", "--store=cluster", code=6)
        assert "The operator cannot be read: " in insisted.err
        running.process.send_signal(signal.SIGCONT)
        operator_process.end(running)
    gone = own_shell.run("results", code=6)
    assert gone.err.startswith("warning: without the runs of an operator")
    for question in (*OF_ALL, *of_set("mine")):
        away = own_shell.run(*question, code=6)
        assert away.err.startswith("warning: without the runs of an operator")
        assert away.out == own_shell.run(*question, "--store=local").out


LOG = ROOT / "tests" / "fixtures" / "logs" / "torchtitan.log"
"""Log of a program of others."""
LIST = ("list", "--output=name")
OF_ALL: list[tuple[str, ...]] = [
    ("results", "--all"),
    LIST,
    ("compare",),
    ("history",),
    ("baseline", "list"),
]
"""Questions without a name."""


def of_set(name: str) -> list[tuple[str, ...]]:
    """Return questions with the name of a set."""
    return [
        ("results", f"--set={name}"),
        (*LIST, f"--set={name}"),
        ("compare", f"set:{name}", f"set:{name}"),
        ("report", name, "--output=report"),
    ]


def fill_own_store(shell: Shell, tmp_path: Path) -> None:
    """Submit, import and observe beside an operator; each names the option that shows its run."""
    again = "k8sbench results --store local"
    logs = shell.logs("own").begin()
    submit = shell.submit("own", ENDLESS, "--set=mine", "--no-operator", "--detach")
    assert again in submit.err
    logs.end()
    shell.finish("own")
    shell.run("collect", "own", "--follow")
    imported = shell.run("import", str(LOG), "--set=imported", "--precision=bf16")
    assert again in imported.err
    for replica in ("master", "worker"):
        (tmp_path / replica).write_text(log_text(LOG.read_text().splitlines()))
    pods = {f"llama-{replica}-0": tmp_path / replica for replica in ("master", "worker")}
    job = pytorch_job("llama", workers=1, gpus=4, run_for="0s")
    shell.namespace.create(job)
    pod_logs.serve_pods(shell.namespace, pods)
    observed = shell.run("observe", "pytorchjob/llama", "--precision=bf16", code=None)
    assert again in observed.err
    assert shell.run("list", "--store=local").out.count("\n") == 4


def check_each_answer_reads_one_store(shell: Shell) -> None:
    """Check whose runs an answer has, and that its first line says so."""
    place = shell.namespace.name
    for words in OF_ALL:
        assert shell.run(*words, code=None).err.startswith(
            f"1 run of the operator in {place}; 3 newer ones here: --store local\n"
        )
    assert {run["run_id"] for run in shell.json("list")} == {"r1-1"}
    for name, source in (("r1", "operator"), ("mine", "here")):
        ((member,),) = [row["members"] for row in shell.json("results", f"--set={name}")["rows"]]
        assert member["source"] == source
        for words in of_set(name):
            shell.run(*words, "--force") if words[0] == "report" else shell.run(*words)
    of_two = shell.run("compare", "set:r1", "set:mine", code=2)
    assert "store import --from-operator" in of_two.err


def check_what_is_in_both_stores(shell: Shell) -> None:
    """Check that a name which is in both stores is an error until an option chooses."""
    for words in of_set("r1"):
        both = shell.run(*words, code=2)
        assert "'r1' is in two stores" in both.err
        for where in ("local", "cluster"):
            assert f"--store {where}" in both.err
    for where, source in (("local", "here"), ("cluster", "operator")):
        (row,) = shell.json("results", "--set=r1", f"--store={where}")["rows"]
        assert [member["source"] for member in row["members"]] == [source]
    # One store has both.
    shell.run("compare", "set:r1", "set:mine")

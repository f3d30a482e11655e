"""Benchmarks of a store whose jobs are on a real cluster: nobody else writes to those."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.model.creation import WAITS_FOR_TURN
from tests.harness import benchmark_files, hosts, old_store
from tests.harness.cluster import operator_process
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.shell import CASE, ENDLESS, Running, Shell, until

SUBMIT = ("submit", *CASE, ENDLESS)
TWO = (*SUBMIT, "--repeats=2")
OWNER = "k8sbench.io/owner"


def only(shell: Shell) -> str:
    """Wait for the only job; return its name."""
    until(lambda: len(shell.on_cluster()) == 1, "one job")
    (name,) = shell.on_cluster()
    return name


def names(shell: Shell) -> set[str]:
    """Names of the store's objects."""
    found = {path.name for path in (shell.store / "benchmarks").glob("*.json")}
    return {name.removesuffix(".json") for name in found if not name.endswith(".status.json")}


def status(shell: Shell, name: str) -> dict[str, Any]:
    text = (shell.store / "benchmarks" / f"{name}.status.json").read_text()
    found: dict[str, Any] = json.loads(text)["status"]
    return found


def complete(shell: Shell, name: str) -> tuple[str, str]:
    """Return status and reason of ``Complete``."""
    (found,) = [one for one in status(shell, name)["conditions"] if one["type"] == "Complete"]
    return found["status"], found["reason"]


# -- broken off -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "command"),
    [
        (signal.SIGINT, ("collect", "--all", "--follow")),
        (signal.SIGHUP, ("watch",)),
        (signal.SIGKILL, ("collect", "--follow")),
    ],
    ids=["Ctrl-C", "terminal closed", "killed"],
)
def test_a_users_own_program_is_created_by_submit_alone(
    own_shell: Shell, number: int, command: Sequence[str]
) -> None:
    """On a cluster nobody is asked for consent: the program runs in a container."""
    variant = benchmark_files.variant(("python3", "train.py"), "registry.example.com/team/mine:1")
    file = own_shell.folder / "mine.yaml"
    file.write_text(yaml.safe_dump(benchmark_files.benchmark(base=variant)))
    words = ("submit", str(file), "--replicas=2", "--gpus=1", ENDLESS, "--repeats=2")
    with own_shell.started(*words, "--set=night") as submit:
        job = only(own_shell)
        (name,) = names(own_shell)
        submit.until("Running")
        submit.process.send_signal(number)
        submit.ends(-number if number == signal.SIGKILL else 130)
    assert own_shell.on_cluster() == [job]
    stored = json.loads((own_shell.store / "benchmarks" / f"{name}.json").read_text())
    place, private = stored["place"], stored["private"]
    assert (place["backend"], private["benchmark"]) == ("kubernetes", str(file))
    assert place["access"]["namespace"] == own_shell.namespace.name
    process = place["process"] or {"pid": None}  # one that could record its end has done so
    assert process["pid"] == (submit.process.pid if number == signal.SIGKILL else None)
    assert str(file) not in json.dumps(stored["object"])
    which = () if "--all" in command else (name,)
    with own_shell.started(*command, *which) as later:
        own_shell.finish(job)
        later.ends(3, 5)
    assert own_shell.on_cluster() == []
    assert complete(own_shell, name) == ("True", "NotStarted")
    assert [run["name"] for run in status(own_shell, name)["runs"]] == [job]
    # Only a resumption creates what has no job; the run without a figure counts for nothing.
    own_shell.run(*words, "--resume=night", "--detach")
    assert len(own_shell.on_cluster()) == 2
    assert names(own_shell) == {name}


WORDS = 'User "a" cannot create resource "pytorchjobs" in API group "kubeflow.org"'


def test_a_refusal_of_the_place_ends_the_command_and_no_run_that_has_a_job(
    own_shell: Shell, proxy: FaultProxy
) -> None:
    head = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}
    more = ("--repeats=4", "--parallel=2", "--set=night")
    with own_shell.started(*SUBMIT, *more) as submit:
        until(lambda: len(own_shell.on_cluster()) == 2, "two jobs")
        first, second = own_shell.on_cluster()
        jobs = f"/{own_shell.kind.plural}"
        with proxy.answer(403, jobs, body={**head, "message": WORDS}, method="POST") as refused:
            own_shell.finish(first)
            refused.wait()
            submit.until("are not started")
        assert own_shell.on_cluster() == [second]
        own_shell.finish(second)
        submit.ends(6)
    assert "--resume night" in submit.err
    phases = {run["run_id"]: run["phase"] for run in own_shell.json("list")}
    assert (phases.pop(first), phases.pop(second)) == ("Succeeded", "Succeeded")
    assert list(phases.values()) == ["Failed"]  # the one that was refused; no other has begun
    (name,) = names(own_shell)
    assert complete(own_shell, name) == ("True", "NotStarted")


def test_a_job_that_a_killed_process_had_measured_is_deleted_by_a_resumption(
    own_shell: Shell, proxy: FaultProxy
) -> None:
    with own_shell.started(*TWO, "--set=night") as submit:
        first = only(own_shell)
        with proxy.answer(503, f"/{own_shell.kind.plural}/", method="DELETE") as refused:
            own_shell.finish(first)
            refused.wait()
            submit.kill()
    assert (own_shell.store / "runs" / first / "measurement.json").exists()
    assert own_shell.on_cluster() == [first]
    own_shell.run(*TWO, "--resume=night", "--detach")
    assert len(own_shell.on_cluster()) == 2
    assert first not in own_shell.on_cluster()
    assert not (own_shell.store / "runs" / first / "wishes.json").exists()


def test_who_detaches_creates_all_jobs_and_limits_nobody(own_shell: Shell) -> None:
    words = (*TWO, "--set=night", "--detach")
    own_shell.run(*words, "--parallel=1", code=2)
    assert own_shell.on_cluster() == []
    own_shell.run(*words, "--parallel=2")
    until(lambda: len(own_shell.on_cluster()) == 2, "two jobs")
    with own_shell.started("collect", "--all", "--follow") as collect:
        collect.until("Running")
        # Somebody follows its runs, and nobody would begin others of it.
        with own_shell.started(*SUBMIT, "--set=night") as submit:
            until(lambda: len(own_shell.on_cluster()) == 3, "the job of the submit")
            submit.interrupt().ends(130)


def test_a_benchmark_that_keeps_its_jobs_has_them_until_it_is_deleted(own_shell: Shell) -> None:
    with own_shell.started(*SUBMIT, "--keep") as submit:
        job = only(own_shell)
        own_shell.finish(job)
        submit.ends(5)  # its pods print nothing
    (name,) = names(own_shell)
    own_shell.run("collect", "--all")
    assert own_shell.on_cluster() == [job]
    own_shell.run("delete", name)
    assert own_shell.on_cluster() == []
    assert names(own_shell) == set()
    assert own_shell.phase(job) == "Succeeded"


# -- another store --------------------------------------------------------------------------------


def test_a_process_whose_job_another_store_takes_over_leaves_it_and_goes_on_with_its_others(
    own_shell: Shell,
) -> None:
    namespace = own_shell.namespace

    def owner(job: str) -> str:
        annotations = namespace.get(namespace.job(job))["metadata"]["annotations"]
        return str(json.loads(annotations[OWNER])["store"])

    colleague = own_shell.colleague()
    with own_shell.started(*TWO, "--set=night") as submit:
        first = only(own_shell)
        (name,) = names(own_shell)
        colleague.run("collect", "--take-over", "--yes", first)
        until(lambda: len(own_shell.on_cluster()) == 2, "the job of the second run")
        (second,) = set(own_shell.on_cluster()) - {first}
        assert (owner(first), owner(second)) == (colleague.identity, own_shell.identity)
        own_shell.finish(second)
        submit.ends(3, 5)
    assert own_shell.on_cluster() == [first]
    (taken,) = [one for one in status(own_shell, name)["runs"] if one["name"] == first]
    assert taken["phase"] == "Lost"
    # The other store has no object of it: it collects the run, and creates none.
    own_shell.finish(first)
    colleague.run("collect", first, "--follow", code=5)
    assert own_shell.on_cluster() == []
    assert not (colleague.store / "benchmarks").exists()


# -- another host ---------------------------------------------------------------------------------


class Elsewhere(Shell):
    """The same user on another host, with the same folders and none of the locks."""

    def argv(self, words: Sequence[str]) -> list[str]:
        """Return the command."""
        return hosts.entering("another", self.store, super().argv(words))


def test_another_host_whose_locks_say_yes_creates_nothing_until_it_takes_over(
    own_shell: Shell,
) -> None:
    kubeconfig = Path(own_shell.environment["KUBECONFIG"])
    with own_shell.started(*TWO, "--set=night") as submit:
        job = only(own_shell)
        (name,) = names(own_shell)
        there = Elsewhere(own_shell.namespace, kubeconfig, own_shell.folder)
        again = (*TWO, "--resume=night")
        refused = there.run(*again, code=2)
        assert f"k8sbench collect --take-over {name}" in refused.err
        # Two that follow one run would each archive its lines.
        for command in ("collect", "watch"):
            assert f"collect --take-over {name}" in there.run(command, name, code=2).err
        assert f"collect --take-over {name}" in there.run("collect", "--all").err
        assert own_shell.on_cluster() == [job]
        assert submit.process.poll() is None
        submit.kill()
    own_shell.finish(job)
    there.run("collect", name, code=2)  # nothing there tells a killed process
    assert own_shell.on_cluster() == [job]
    there.run("collect", "--take-over", "--yes", name, code=5)  # its pods print nothing
    assert own_shell.on_cluster() == []
    assert complete(own_shell, name) == ("True", "NotStarted")
    there.run(*again, "--detach")
    jobs = own_shell.on_cluster()
    assert len(jobs) == 2
    # A process that has ended in good order leaves its jobs to any machine.
    assert "take-over" not in own_shell.run("collect", "--all").err
    there.run("cancel", name)
    assert own_shell.on_cluster() == []


def test_another_host_cancels_the_job_and_leaves_the_record_to_its_process(
    own_shell: Shell,
) -> None:
    kubeconfig = Path(own_shell.environment["KUBECONFIG"])
    with own_shell.started(*TWO, "--set=night") as submit:
        job = only(own_shell)
        (name,) = names(own_shell)
        submit.until("Running")
        there = Elsewhere(own_shell.namespace, kubeconfig, own_shell.folder)
        told = there.run("cancel", name).err
        submit.ends(1)  # its second run was not started
    assert own_shell.on_cluster() == []
    assert own_shell.phase(job) == "Cancelled"
    assert status(own_shell, name)["phase"] == "Cancelled"
    about = [line for line in told.splitlines() if name in line]
    assert about
    assert all("is cancelled" in line for line in about), "one answer"


# -- an operator comes ----------------------------------------------------------------------------


@pytest.fixture
def operator(own_shell: Shell, tmp_path: Path) -> OperatorShell:
    return operator_process.make(own_shell.namespace, tmp_path / "machine")


def has_operator(shell: Shell) -> bool:
    leases = shell.namespace.get("leases")
    return "k8sbench-operator" in {each["metadata"]["name"] for each in leases}


def test_an_operator_that_is_installed_meanwhile_leaves_the_benchmarks_of_a_store_to_it(
    own_shell: Shell, operator: OperatorShell
) -> None:
    namespace = own_shell.namespace
    with own_shell.started(*TWO, "--set=night") as submit:
        first = only(own_shell)
        (name,) = names(own_shell)
        with operator.collecting() as running:
            until(lambda: has_operator(own_shell), "the operator's Lease")
            own_shell.finish(first)
            # The process creates the next job, and not the operator.
            until(lambda: own_shell.on_cluster() not in ([first], []), "the second job")
            second = only(own_shell)
            annotations = namespace.get(namespace.job(second))["metadata"]["annotations"]
            assert json.loads(annotations[OWNER])["store"] == own_shell.identity
            submit.kill()
            # The set is the store's, and not the operator's.
            refused = own_shell.run(*TWO, "--resume=night", code=2)
            assert "--no-operator" in refused.err
            assert own_shell.on_cluster() == [second]
            own_shell.run("cancel", name, code=None)
            assert own_shell.on_cluster() == []
            assert status(own_shell, name)["phase"] == "Cancelled"
            own_shell.run(*TWO, "--resume=night", "--no-operator", "--detach")
            assert len(own_shell.on_cluster()) == 2
            # What is asked for anew is the operator's.
            own_shell.run(*SUBMIT, "--run-id=new", "--detach")
            until(lambda: "new-1" in own_shell.on_cluster(), "the job of the operator")
            assert [run["run_id"] for run in operator.json("list", "--store=local")] == ["new-1"]
            assert len(own_shell.on_cluster()) == 3
            operator_process.end(running)


# -- runs of no object ----------------------------------------------------------------------------


def test_an_open_run_of_0_4_0_is_collected_and_neither_counted_nor_created(
    own_shell: Shell,
) -> None:
    own_shell.limits = {"creation_settle": 1.0}
    logs = own_shell.printing("old", "--set=night")
    own_shell.printing("never", "--set=night")
    namespace = own_shell.namespace
    namespace.kubectl("delete", namespace.job("never"), "--wait=true")
    events = own_shell.store / "runs" / "never" / "events.jsonl"
    events.write_text(events.read_text().splitlines(keepends=True)[0])  # nothing was created yet
    old_store.make(own_shell.store)
    assert "goes on" in own_shell.run("collect", "--all", code=None).err
    assert own_shell.on_cluster() == ["old"]
    with own_shell.started("watch", "old") as watch:
        watch.until("Running")
        # It takes no place of the set.
        with own_shell.started(*SUBMIT, "--set=night", "--parallel=1") as submit:
            until(lambda: len(own_shell.on_cluster()) == 2, "the job of the submit")
            submit.interrupt().ends(130)
        logs.end()
        own_shell.finish("old")
        watch.ends()
    assert " ok (smoke)" in watch.out
    own_shell.run("collect", "--all", code=None)
    assert own_shell.phase("never") in {"Lost", "Failed"}
    assert "never" not in own_shell.on_cluster()


# -- several submits of a set ---------------------------------------------------------------------


def is_planned(shell: Shell, name: str) -> bool:
    """Return True if an object's runs are planned, and those that may have begun."""
    path = shell.store / "benchmarks" / f"{name}.status.json"
    return path.exists() and '"RunsActive"' in path.read_text()


def spans(shell: Shell) -> list[tuple[float, float]]:
    """Return the times at which each run of the store had its turn, and ended."""
    found = []
    for run in (shell.store / "runs").iterdir():
        steps = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        begun = [step["at"] for step in steps[1:] if step["cause_id"] != WAITS_FOR_TURN]
        found += [(at, steps[-1]["at"]) for at in begun[:1]]
    return found


def most_at_once(shell: Shell) -> int:
    """Return the most runs that had their turns at one time."""
    of_runs = spans(shell)
    return max(
        sum(begin <= at < end for begin, end in of_runs) for at in (begin for begin, _ in of_runs)
    )


@pytest.mark.parametrize(
    ("limits", "most"),
    [(("--parallel=2", None, "--parallel=2"), 2), ((None, None, None), 3)],
    ids=["given", "not given"],
)
def test_a_limit_that_is_given_counts_over_all_submits_of_a_set_at_once(
    own_shell: Shell, limits: Sequence[str | None], most: int
) -> None:
    running: list[Running] = []
    with contextlib.ExitStack() as stack:
        for limit in limits:
            given = () if limit is None else (limit,)
            submit = own_shell.started(*TWO, "--set=night", *given)
            running.append(stack.enter_context(submit))
            # Its limit counts from when its object is stored.
            until(lambda: len(names(own_shell)) == len(running), "its object")
        # Each has counted the runs of the set, and begun those that it may.
        until(lambda: all(is_planned(own_shell, name) for name in names(own_shell)), "plans")
        assert len(list((own_shell.store / "runs").iterdir())) == most
        done: set[str] = set()
        while len(done) < 2 * len(limits):
            until(lambda: set(own_shell.on_cluster()) - done, "a job")
            job = min(set(own_shell.on_cluster()) - done)
            own_shell.finish(job)
            done.add(job)
        for one in running:
            one.ends(5)  # the pods print nothing
    assert len(spans(own_shell)) == 2 * len(limits)
    assert most_at_once(own_shell) <= most


@pytest.mark.parametrize(
    ("limits", "most"), [((2, None, 2), 2), ((None, None, None), 3)], ids=["given", "not given"]
)
def test_an_operator_counts_a_limit_that_is_given_over_all_objects_of_a_set(
    own_shell: Shell, operator: OperatorShell, limits: Sequence[int | None], most: int
) -> None:
    with operator.collecting() as running:
        until(lambda: has_operator(own_shell), "the operator's Lease")
        for letter, limit in zip("abc", limits, strict=True):
            given = () if limit is None else (f"--parallel={limit}",)
            own_shell.run(*TWO, "--set=night", f"--run-id={letter}", "--detach", *given)
        recorded = operator.store / "runs"
        until(lambda: len(list(recorded.iterdir())) == 6, "the records of all runs")
        until(lambda: len(own_shell.on_cluster()) == most, f"{most} jobs")
        done: set[str] = set()
        while len(done) < 6:
            until(lambda: set(own_shell.on_cluster()) - done, "a job")
            job = min(set(own_shell.on_cluster()) - done)
            own_shell.finish(job)
            done.add(job)
        own_shell.until_nothing_is_left()
        operator_process.end(running)
    assert len(spans(operator)) == 6
    assert most_at_once(operator) <= most

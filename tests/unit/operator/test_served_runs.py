"""Runs of two stores: each once, as the one has it that knows more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from k8sbench import __version__
from k8sbench.adapters.kubernetes import operator_proxy as proxies
from k8sbench.app import (
    collect,
    comparisons,
    connections,
    ending,
    find,
    follow,
    objects,
    results,
    run_list,
    run_status,
    stores,
)
from k8sbench.app.known_groups import StoredGroups
from k8sbench.app.stores import StoresRead
from k8sbench.lifecycle.context import Note
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import Finding, NotFound, QueryRefused, Unreachable
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.request import ClusterAccess, CollectOptions
from k8sbench.model.run import Run
from k8sbench.operator import http
from k8sbench.results.groups.selection import Report, Wanted
from k8sbench.store.interface import RunFilter, Store
from k8sbench.store.open_store import open_store
from tests.harness.cluster.limits import shorten
from tests.unit.cli import live_runs
from tests.unit.command_line import Cli
from tests.unit.lifecycle.played import Silent
from tests.unit.model.measurements import measurement
from tests.unit.operator.served import HERE, Operator
from tests.unit.store.filled import put

KINDS: tuple[Literal["cancel", "delete"], ...] = ("cancel", "delete")


def run(name: str, *phases: Phase, at: float = 100.0, set_name: str = "", repeat: int = 1) -> Run:
    """Return a run with some phases, which is in a set of its name."""
    phases = (Phase.CREATED, *phases)
    steps = [Transition(phase=phase, at=at + n, cause="") for n, phase in enumerate(phases)]
    return msgspec.structs.replace(
        live_runs.run(name, set_name=set_name or name, repeat=repeat, backend="kubernetes"),
        created_at=at,
        history=tuple(steps),
    )


def measured(name: str, *, log: str = "", at: float = 100.0, **changes: Any) -> Run:
    """Return a run that is over and measured; it has a log of its own."""
    in_set = {key: changes.pop(key) for key in ("set_name", "repeat") if key in changes}
    return msgspec.structs.replace(
        run(name, Phase.SUCCEEDED, at=at, **in_set),
        measurement=measurement(log_digest=log or f"log of {name}", **changes),
    )


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    """An operator with a run that is over, and one that goes on."""
    put(tmp_path / "operator", [measured("a"), run("z", Phase.RUNNING)])
    with open_store(str(tmp_path / "operator")) as store:
        made = Operator(store)
        monkeypatch.setattr(stores, "opened_operator", made.opened)
        monkeypatch.setattr(objects, "served", lambda _: nullcontext())
        yield made


@pytest.fixture
def store(tmp_path: Path) -> str:
    place = str(tmp_path / "store")
    put(Path(place), [measured("b", at=50.0)])
    return place


def shown(report: Report) -> dict[str, list[tuple[str, str]]]:
    """Return the runs of the rows and their stores, by set."""
    return {
        row.group.key.set_name: [(run.run_id, run.source) for run in row.group.members]
        for row in report.results
    }


@pytest.mark.parametrize("breaks_at", ["rows", "groups"])
def test_one_that_does_not_answer_is_missed_and_the_own_rows_are_shown(
    operator: Operator, store: str, breaks_at: str
) -> None:
    operator.breaks_at = breaks_at
    noted: list[str] = []
    scope = StoresRead(where=store, access=HERE)
    report = results.results(Wanted(), scope, noted.append)
    assert shown(report) == {"b": [("b", "here")]}
    assert scope.missed
    assert noted == [scope.missed]
    with pytest.raises(Unreachable, match=r"cannot be read: .* does not answer") as wrong:
        results.results(Wanted(), StoresRead(where=stores.CLUSTER, access=HERE), noted.append)
    assert wrong.value.exit_code == 6


def test_an_answer_fetches_rows_and_the_groups_that_it_is_about(
    operator: Operator, store: str
) -> None:
    scope = StoresRead(where=store, access=HERE)
    wanted = Wanted(every=True)
    assert shown(results.results(wanted, scope, print)) == {
        "a": [("a", "operator")],
        "b": [("b", "here")],
        "z": [("z", "operator")],
    }
    ids = sorted(row.group_id for row in StoredGroups(operator.store, print).rows)
    assert operator.asked == ["rows", f"groups/{','.join(ids)}"]
    assert scope.missed == ""


def test_many_groups_are_asked_for_in_several_requests(
    operator: Operator, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "MOST_GROUPS", 1)
    monkeypatch.setattr(http, "MOST_GROUPS", 1)
    scope = StoresRead(where=store, access=HERE)
    assert shown(results.results(Wanted(every=True), scope, print)).keys() == {"a", "b", "z"}
    assert len(operator.asked) == 3


def test_a_set_in_both_stores_is_one_group(operator: Operator, store: str) -> None:
    put(Path(store), [measured("a2", set_name="a", repeat=2)])
    scope = StoresRead(where=store, access=HERE)
    both = {"a": [("a", "operator"), ("a2", "here")]}
    assert shown(results.results(Wanted(set_name="a"), scope, print)) == both
    assert operator.asked.count("runs") == 1
    with open_store(store) as opened:
        groups = StoredGroups(opened, print)
        kept = {group.key.set_name: group for group in groups.groups(groups.rows)}
    assert [member.run_id for member in kept["a"].members] == ["a2"], "in the store's own index"


def test_an_open_run_here_is_as_the_operator_has_it(operator: Operator, store: str) -> None:
    del operator
    put(Path(store), [run("a", Phase.RUNNING)])
    report = results.results(Wanted(set_name="a"), StoresRead(where=store, access=HERE), print)
    assert shown(report) == {"a": [("a", "operator")]}
    assert [row.group.state for row in report.results] == ["valid"]


def test_copies_of_the_operators_runs_are_read_here(operator: Operator, store: str) -> None:
    put(Path(store), [measured("a")])
    report = results.results(Wanted(set_name="a"), StoresRead(where=store, access=HERE), print)
    assert shown(report) == {"a": [("a", "here")]}
    assert "runs" not in operator.asked


@pytest.mark.parametrize("at", [50.0, 200.0])
def test_a_log_in_both_stores_counts_once(operator: Operator, store: str, at: float) -> None:
    put(Path(store), [measured("c", log="log of a", at=at)])
    report = results.results(Wanted(every=True), StoresRead(where=store, access=HERE), print)
    first, second = ("c", "a") if at < 100 else ("a", "c")
    by_set = {row.group.key.set_name: row.group for row in report.results}
    assert (by_set[first].counted, by_set[second].counted) == (1, 0)
    assert by_set[second].ids("reject") == ("log-counted-twice",)
    assert operator.asked.count("runs") == 1


@pytest.mark.parametrize("accepts", [True, False])
def test_an_overruled_reason_counts_for_the_operators_runs(
    operator: Operator, store: str, accepts: bool
) -> None:
    few = Finding(id="too-few-records", severity="reject", sentence="4 records.")
    put(operator.store.root, [measured("r", verdict="rejected", reasons=(few,))])
    scope = StoresRead(where=store, access=HERE, accept=(few.id,) if accepts else ())
    (row,) = results.results(Wanted(set_name="r"), scope, print).results
    assert row.group.counted == int(accepts)
    assert (operator.asked.count("runs") == 1) is accepts, "of the set that it changes alone"


@pytest.mark.usefixtures("operator")
def test_runs_of_both_stores_are_found_by_their_ids(store: str) -> None:
    scope = StoresRead(where=store, access=HERE)
    (case,) = comparisons.compare("run:a", "run:b", scope, print).cases
    assert case.a is not None
    assert case.b is not None
    assert [case.a.runs, case.b.runs] == [1, 1]
    (first, *_) = results.explain("a", scope, print)
    assert first[1].startswith("a: ")


def test_the_own_store_alone_is_read_without_a_request(
    operator: Operator, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", store)
    scope = StoresRead(where="local", access=HERE)
    assert shown(results.results(Wanted(), scope, print)) == {"b": [("b", "here")]}
    assert comparisons.list_baselines(scope, print) == []
    assert run_status.status("b", "local", HERE, print).run_id == "b"
    with pytest.raises(NotFound):
        run_status.status("a", "local", HERE, print)
    assert listed("local") == ["b"]
    assert operator.connected == 0


def test_without_an_operator_there_is_no_note(
    store: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "configured", lambda _: True)
    monkeypatch.setattr(stores, "opened_operator", lambda *_: nullcontext())
    for command in ("results", "list"):
        assert "operator" not in cli(command, f"--store={store}").err
    assert "There is no operator" in cli("results", "--store=cluster", code=6).err


def test_what_is_not_here_may_be_at_an_operator_that_does_not_answer(
    operator: Operator, store: str
) -> None:
    operator.is_away = True
    scope = StoresRead(where=store, access=HERE)
    with pytest.raises(Unreachable, match="'a'"):
        comparisons.compare("a", "b", scope, print)


BY_COMMAND = {
    "results": ("-o", "json"),
    "list": ("-o", "name"),
    "history": ("seg",),
    "explain": ("b",),
    "compare": ("set:b", "set:b"),
    "baseline list": (),
}


@pytest.mark.parametrize("command", BY_COMMAND)
def test_a_command_without_the_operators_rows_says_so_first_and_ends_with_6(
    operator: Operator, store: str, cli: Cli, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "configured", lambda _: True)
    monkeypatch.setenv("K8SBENCH_STORE", store)
    words = (*command.split(), *BY_COMMAND[command])
    alone = cli(*words, "--store=local")
    operator.breaks_at = "baselines" if command == "baseline list" else "rows"
    missed = cli(*words, code=6)
    assert missed.err.startswith("warning: without the ")
    assert missed.out == alone.out
    assert cli("--quiet", *words, code=6).err.startswith("warning: without the ")


def listed(store: str, limit: int | None = None, note: Note = print) -> list[str]:
    """Return the ids of the runs that ``list`` shows."""
    scope = StoresRead(where=store)
    return run_list.list_runs(RunFilter(limit=limit), scope, note, lambda it: [*it.run_ids()])


OTHERS = [b"<!doctype html>", b"[]", b'[{"schema": 99}]', b'{"columns":["x"],"rows":[],"logs":{}}']


@pytest.mark.parametrize("says", OTHERS)
def test_an_answer_of_another_version_is_one_line_or_an_error_in_words(
    operator: Operator, store: str, says: bytes, tmp_path: Path
) -> None:
    operator.says = says
    noted: list[str] = []
    scope = StoresRead(where=store, access=HERE)
    assert len(results.results(Wanted(), scope, noted.append).results) == 1
    assert noted == [scope.missed]
    assert stores.operator_run(HERE, "a", noted.append) is None
    assert all("not one that this version of k8sbench reads" in text for text in noted)
    with pytest.raises(Unreachable, match="not one that this version"):
        stores.operator_run(HERE, "a", noted.append, insist=True)
    if says != b"[]":
        with pytest.raises(Unreachable, match="not one that this version"):
            stores.operator_files(HERE, "a", tmp_path, "logs")


def test_an_operator_of_an_earlier_version_is_named_with_it(operator: Operator, store: str) -> None:
    operator.lacks = "rows"
    scope = StoresRead(where=store, access=HERE)
    results.results(Wanted(), scope, print)
    assert f"It is of version {__version__}" in scope.missed


@pytest.fixture
def no_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster without jobs."""

    def gone(
        _store: Store, _text: str, _access: ClusterAccess, missing: NotFound, acts: bool
    ) -> None:
        raise missing

    monkeypatch.setattr(find, "foreign_job", gone)


@pytest.mark.usefixtures("operator", "no_jobs")
def test_a_run_that_only_the_operator_has_is_over_for_every_command(store: str) -> None:
    reporter, where = Silent(), (store, HERE)
    watched = follow.watch("a", *where, reporter, Stop())
    options = CollectOptions(runs=("a",), access=HERE, store=store)
    result, rows = collect.collect(options, reporter, Stop(), lambda _: False)
    assert [run.run_id for run in result.closed] == ["a"]
    for shown in (watched, rows):
        (row,) = shown.report.results
        assert [member.verdict for member in row.group.members] == ["valid"]
    for kind in KINDS:
        ending.end(["a"], kind, *where, reporter, Stop())
    over = "The operator has collected run a: nothing is left to do here."
    assert reporter.reported == [over] * 4
    for kind in KINDS:
        with pytest.raises(Unreachable, match="still follows run z"):
            ending.end(["z"], kind, *where, reporter, Stop())
        with pytest.raises(NotFound):
            ending.end(["y"], kind, *where, reporter, Stop())


@pytest.fixture
def many(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of 25 runs, served in pages of ten; two share a time."""
    monkeypatch.setattr(proxies, "MOST_RUNS", 10)
    times = [float(n) for n in range(15)] + [14.0] + [float(n) for n in range(15, 24)]
    more = [run(f"r{n:02}", at=1e9 + at) for n, at in enumerate(times)]
    put(operator.store.root, more)
    return [one.run_id for one in more]


def test_all_runs_are_listed_or_the_newest(
    operator: Operator, store: str, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "configured", lambda _: True)
    assert listed(store) == ["b", "a", "z", *many]
    assert operator.asked.count("runs") == 3
    operator.asked.clear()
    assert listed(store, limit=3) == many[-3:]
    assert operator.asked.count("runs") == 1


def test_where_older_runs_do_not_come_the_own_ones_are_listed(
    operator: Operator, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "configured", lambda _: True)
    shorten(monkeypatch, operator_answers=-1.0)
    noted: list[str] = []
    assert listed(store, note=noted.append) == ["b"]
    assert "without the runs of an operator: It has not sent everything" in noted[0]
    assert operator.asked == ["rows"]


@pytest.mark.usefixtures("no_jobs")
def test_an_id_of_several_runs_of_the_operator_is_an_error_of_the_user(
    operator: Operator, store: str
) -> None:
    put(operator.store.root, [run("s-1", Phase.RUNNING), run("s-2", Phase.RUNNING)])
    reporter = Silent()
    asked: list[Callable[[], object]] = [
        lambda: ending.end(["s"], "cancel", store, HERE, reporter, Stop()),
        lambda: follow.watch("s", store, HERE, reporter, Stop()),
        lambda: run_status.status("s", store, HERE, print),
        lambda: run_status.status("s", "cluster", HERE, print),
    ]
    for ask in asked:
        with pytest.raises(QueryRefused, match="s-2, s-1") as wrong:
            ask()
        assert wrong.value.exit_code == 2
        assert wrong.value.action
    assert reporter.reported == []

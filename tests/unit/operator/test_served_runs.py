"""Answers beside an operator: each reads one store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from k8sbench import __version__
from k8sbench.adapters.kubernetes import operator_proxy as proxies
from k8sbench.app import (
    answers,
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
from k8sbench.app.answers import StoresRead
from k8sbench.client import Client
from k8sbench.lifecycle.context import Note
from k8sbench.lifecycle.stop import Stop
from k8sbench.model.errors import Finding, NotFound, QueryRefused, Unreachable, UsageError
from k8sbench.model.group_filter import GroupFilter
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.request import ClusterAccess, CollectOptions
from k8sbench.model.run import Run
from k8sbench.operator import http
from k8sbench.results.groups.selection import Report, Wanted
from k8sbench.results.stored_groups import StoredGroups
from k8sbench.store.interface import RunFilter, Store
from k8sbench.store.open_store import open_store
from tests.harness.cluster.limits import shorten
from tests.results.report.factory import START, repeats
from tests.tiers import ROOT
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
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The own store, in its default place; a cluster is configured."""
    monkeypatch.delenv("K8SBENCH_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(connections, "configured", lambda _: True)
    place = tmp_path / "k8sbench"
    put(place, [measured("b", at=50.0)])
    return str(place)


def shown(report: Report) -> dict[str, list[tuple[str, str]]]:
    """Return the runs of the rows and their stores, by set."""
    return {
        row.group.key.set_name: [(run.run_id, run.source) for run in row.group.members]
        for row in report.results
    }


EVERY = Wanted(every=True)
OWN = {"b": [("b", "here")]}
THEIRS = {"a": [("a", "operator")], "z": [("z", "operator")]}


def answered(wanted: Wanted = EVERY, note: Note = print, **scope: Any) -> dict[str, Any]:
    """Return the rows of ``results``."""
    return shown(results.results(wanted, StoresRead(access=HERE, **scope), note))


@pytest.mark.parametrize(
    ("option", "variable", "rows"),
    [
        ({}, None, THEIRS),
        ({}, "set", OWN),
        ({"where": "cluster"}, None, THEIRS),
        ({"where": "cluster"}, "set", THEIRS),
        ({"where": "local"}, None, OWN),
        ({"where": "local"}, "set", OWN),
        ({"where": "folder"}, None, OWN),
        ({"where": "folder", "is_typed": True}, None, OWN),
    ],
)
@pytest.mark.usefixtures("operator")
def test_without_a_name_the_store_that_is_given_answers_else_the_operators(
    store: str,
    option: dict[str, Any],
    variable: str | None,
    rows: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable is not None:
        monkeypatch.setenv("K8SBENCH_STORE", store)
    if option.get("where") == "folder":
        option = {**option, "where": store}
    assert answered(**option) == rows


def test_the_first_line_names_the_store_and_what_the_other_holds(
    operator: Operator, store: str
) -> None:
    def head(*names: str, **scope: Any) -> list[str]:
        noted: list[str] = []
        with answers.answering(StoresRead(access=HERE, **scope), noted.append, names):
            return noted

    namespace = "default"  # of the kubeconfig that reaches the operator
    assert head() == [f"2 runs of the operator in {namespace}; 1 here: --store local"]
    put(Path(store), [measured("c", at=200.0), measured("d", at=300.0)])
    assert head() == [f"2 runs of the operator in {namespace}; 2 newer ones here: --store local"]
    put(operator.store.root, [measured("e", at=400.0)])
    theirs = f"1 newer one of the operator in {namespace}: --store cluster"
    assert head("b") == [f"3 runs here; {theirs}"]
    (other,) = head(where=store)
    assert other == head("b")[0]
    assert head(where=store, is_typed=True) == head(where="local") == head(where="cluster") == []


def test_a_store_that_is_given_needs_no_request(operator: Operator, store: str) -> None:
    for scope in (
        StoresRead(where="local"),
        StoresRead(where=store, is_typed=True),
    ):
        assert shown(results.results(Wanted(), scope, print)) == OWN
        assert comparisons.list_baselines(scope, print) == []
        assert run_status.status("b", scope, print).run_id == "b"
        assert listed(scope) == ["b"]
    with pytest.raises(NotFound):
        run_status.status("a", StoresRead(where="local"), print)
    assert operator.connected == 0


NAMED: dict[str, Callable[[str, StoresRead], object]] = {
    "results RUN": lambda name, scope: results.results(Wanted(runs=(name,)), scope, print).results,
    "results --set": lambda name, scope: (
        results.results(Wanted(set_name=name), scope, print).results
    ),
    "explain": lambda name, scope: results.explain(name, scope, print),
    "compare": lambda name, scope: comparisons.compare(f"set:{name}", f"run:{name}", scope, print),
    "list --set": lambda name, scope: run_list.list_runs(
        RunFilter(set_name=name), scope, print, lambda it: [*it.run_ids()]
    ),
}
"""Commands that name a run or a set."""


@pytest.mark.parametrize("command", NAMED)
@pytest.mark.usefixtures("no_jobs")
def test_a_name_decides_and_one_that_both_stores_have_is_an_error_of_the_user(
    operator: Operator, store: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", store)  # which decides without a name alone
    ask = NAMED[command]
    for name in ("a", "b"):
        assert ask(name, StoresRead()) is not None
    put(Path(store), [measured("a", at=60.0)])
    with pytest.raises(UsageError, match=r"'a' is in two stores") as wrong:
        ask("a", StoresRead())
    assert "--store local" in wrong.value.action
    assert "--store cluster" in wrong.value.action
    asked = len(operator.asked)
    ask("a", StoresRead(where="local"))
    assert len(operator.asked) == asked
    ask("a", StoresRead(where="cluster"))
    assert len(operator.asked) > asked


LOOKS: dict[str, Callable[[str, StoresRead], object]] = {
    "status": lambda name, scope: run_status.status(name, scope, print).source,
    "logs": lambda name, scope: list(follow.logs(name, scope, print, Stop())),
}
"""Commands that look at one run."""


@pytest.mark.parametrize("command", LOOKS)
@pytest.mark.usefixtures("no_jobs")
def test_the_beginning_of_an_id_decides_as_a_name_does_and_a_whole_one_is_looked_at_here(
    operator: Operator, store: str, command: str
) -> None:
    look = LOOKS[command]
    put(operator.store.root, [measured("night-2")])
    put(Path(store), [measured("night-1")])
    theirs, ours = look("night-2", StoresRead()), look("b", StoresRead())
    if command == "status":
        assert (theirs, ours) == ("operator", "here")
    with pytest.raises(UsageError, match="'night-' is in two stores"):
        look("night-", StoresRead())
    asked = len(operator.asked)
    assert look("night-1", StoresRead()) == ours
    assert len(operator.asked) == asked


@pytest.mark.usefixtures("operator")
def test_a_whole_name_counts_before_the_beginning_of_another(store: str) -> None:
    put(Path(store), [measured("a-1", at=60.0)])
    assert answered(Wanted(runs=("a",))) == {"a": [("a", "operator")]}
    assert answered(Wanted(runs=("a-",))) == {"a-1": [("a-1", "here")]}


@pytest.mark.usefixtures("operator")
def test_names_of_two_stores_are_an_error_until_one_store_has_all(store: str) -> None:
    def compare() -> list[int]:
        found = comparisons.compare("set:a", "set:b", StoresRead(access=HERE), print)
        return [case.a.runs + case.b.runs for case in found.cases if case.a and case.b]

    with pytest.raises(UsageError, match="one store: 'a' is in the operator's, 'b' in") as wrong:
        compare()
    assert "store import --from-operator" in wrong.value.action
    put(Path(store), [measured("a", at=60.0)])
    assert compare() == [2]


@pytest.mark.usefixtures("operator")
def test_a_baseline_decides_as_a_set_does(operator: Operator, store: str) -> None:
    def save(name: str, of: str, where: str) -> None:
        comparisons.save_baseline(name, [f"set:{of}"], where, lambda _: None, replace=False, at=1.0)

    theirs = str(operator.store.root)
    save("release", "a", theirs)
    save("mine", "b", store)
    scope = StoresRead(access=HERE)
    assert [one.name for one in comparisons.list_baselines(scope, print)] == ["release"]
    assert comparisons.compare("release", "set:a", scope, print).a == "release"
    assert comparisons.compare("baseline:mine", "set:b", scope, print).a == "baseline:mine"
    save("release", "b", store)
    with pytest.raises(UsageError, match="'release' is in two stores"):
        comparisons.compare("release", "release", scope, print)


@pytest.mark.parametrize("breaks_at", ["rows", "groups"])
def test_one_that_does_not_answer_is_missed_and_the_own_rows_are_shown(
    operator: Operator, store: str, breaks_at: str
) -> None:
    del store
    operator.breaks_at = breaks_at
    noted: list[str] = []
    scope = StoresRead(access=HERE)
    assert shown(results.results(Wanted(), scope, noted.append)) == OWN
    assert scope.missed
    assert noted[-1] == scope.missed
    with pytest.raises(Unreachable, match=r"cannot be read: .* does not answer") as wrong:
        answered(where=stores.CLUSTER)
    assert wrong.value.exit_code == 6


@pytest.mark.usefixtures("store")
def test_an_answer_fetches_rows_and_the_groups_that_it_is_about(operator: Operator) -> None:
    scope = StoresRead(access=HERE)
    assert shown(results.results(EVERY, scope, print)) == THEIRS
    ids = sorted(row.group_id for row in StoredGroups(operator.store, print).rows)
    assert operator.asked == ["rows", f"groups/{','.join(ids)}"]
    assert scope.missed == ""


@pytest.mark.usefixtures("store")
def test_many_groups_are_asked_for_in_several_requests(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "MOST_GROUPS", 1)
    monkeypatch.setattr(http, "MOST_GROUPS", 1)
    assert answered().keys() == {"a", "z"}
    assert len(operator.asked) == 3


@pytest.mark.parametrize("accepts", [True, False])
@pytest.mark.usefixtures("store")
def test_an_overruled_reason_counts_for_the_operators_runs(
    operator: Operator, accepts: bool
) -> None:
    few = Finding(id="too-few-records", severity="reject", sentence="4 records.")
    put(operator.store.root, [measured("r", verdict="rejected", reasons=(few,))])
    scope = StoresRead(access=HERE, accept=(few.id,) if accepts else ())
    (row,) = results.results(Wanted(set_name="r"), scope, print).results
    assert row.group.counted == int(accepts)


@pytest.mark.usefixtures("store")
def test_a_level_that_was_accepted_in_the_operators_store_is_accepted_in_its_answer(
    operator: Operator,
) -> None:
    rates = [100.0, 100.4, 99.7, 100.2, 99.9, 100.1, 95.0, 95.2]
    for night, rate in enumerate(rates):
        at = START + 86_400.0 * night
        put(operator.store.root, repeats([rate], set_name=f"n{night}", at=at))
    chosen = GroupFilter(benchmark="resnet50")

    def is_open() -> bool:
        series = comparisons.history(chosen, StoresRead(access=HERE), print)
        return any(one.open is not None for one in series)

    assert is_open()
    there = StoresRead(where=str(operator.store.root))
    comparisons.accept_levels(chosen, there, print, at=START)
    assert not is_open()


@pytest.mark.parametrize("option", ["--accept-level", "--range"])
def test_series_that_are_the_operators_are_not_changed_here(
    operator: Operator, store: str, cli: Cli, option: str
) -> None:
    assert "--store local" in cli("history", "seg", option, code=2).err
    operator.is_away = True
    assert "--store local" in cli("history", "seg", option, code=6).err
    cli("history", "seg", option, "--store", store)
    cli("history", "seg", option, "--store=local")


@pytest.mark.usefixtures("store", "operator")
def test_a_filter_that_no_run_of_the_operator_fits_names_the_nearest(cli: Cli) -> None:
    assert "seg" in cli("list", "--benchmark", "seq", code=2).err
    assert "a" in cli("list", "--set", "aa", code=2).err


def test_an_operator_that_would_not_have_answered_is_not_missed(
    operator: Operator, store: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator.is_away = True
    monkeypatch.setenv("K8SBENCH_STORE", store)
    assert cli("results").err.startswith("warning: without the ")
    assert cli("results", "--set", "b", code=6).err.startswith("warning: without the ")


def test_without_an_operator_there_is_no_note(
    store: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    del store
    monkeypatch.setattr(stores, "opened_operator", lambda *_: nullcontext())
    for command in ("results", "list"):
        assert "operator" not in cli(command).err
    assert "There is no operator" in cli("results", "--store=cluster", code=6).err


@pytest.mark.usefixtures("store")
def test_what_is_not_here_may_be_at_an_operator_that_does_not_answer(operator: Operator) -> None:
    operator.is_away = True
    with pytest.raises(Unreachable, match="'a'"):
        comparisons.compare("a", "b", StoresRead(access=HERE), print)


BY_COMMAND = {
    "results": ("-o", "json"),
    "list": ("-o", "name"),
    "history": ("seg",),
    "explain": ("b",),
    "compare": ("set:b", "set:b"),
    "report": ("b", "-o", "report"),
    "baseline list": (),
}


@pytest.mark.parametrize("command", BY_COMMAND)
@pytest.mark.usefixtures("store")
def test_a_command_without_the_operators_rows_says_so_first_and_ends_with_6(
    operator: Operator, cli: Cli, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = (*command.split(), *BY_COMMAND[command])
    alone = cli(*words, "--store=local")
    operator.is_away = True
    missed = cli(*words, code=6)
    assert missed.err.startswith("warning: without the ")
    assert missed.out == alone.out
    assert cli("--quiet", *words, code=6).err.startswith("warning: without the ")


LOG = "tests/fixtures/logs/detectron2.log"


@pytest.mark.parametrize("variable", [False, True])
@pytest.mark.usefixtures("operator")
def test_what_writes_here_names_the_option_that_shows_it_where_that_is_needed(
    store: str, cli: Cli, variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv("K8SBENCH_STORE", store)
    last = cli("import", str(ROOT / LOG), "--set", "mine", code=None).err.splitlines()[-1]
    found = re.search(r"k8sbench (results .*)", last)
    assert (found is not None) is not variable
    words = "results" if found is None else found[1]
    assert "mine" in {row["set"] for row in cli.json(*words.split(), "-o", "json")["rows"]}


@pytest.mark.usefixtures("store")
def test_a_python_client_reads_the_store_that_has_the_name(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(tmp_path / "other", [measured("o", at=50.0)])
    client, named = Client(namespace="team"), Client(namespace="team", store=tmp_path / "other")
    assert {row.set for row in client.results(every=True)} == {"a", "z"}
    assert {row.set for row in named.results(every=True)} == {"o"}
    for one in (client, named):
        assert [row.set for row in one.results(runs="a")] == ["a"]
        assert one.status("a").source == "operator"


def listed(scope: StoresRead, limit: int | None = None, note: Note = print) -> list[str]:
    """Return the ids of the runs that ``list`` shows."""
    return run_list.list_runs(RunFilter(limit=limit), scope, note, lambda it: [*it.run_ids()])


OTHERS = [
    b"<!doctype html>",
    b"[]",
    b'[{"schema": 99}]',
    b'{"columns":["x"],"rows":[],"created":{}}',
]


@pytest.mark.parametrize("says", OTHERS)
@pytest.mark.usefixtures("store")
def test_an_answer_of_another_version_is_one_line_or_an_error_in_words(
    operator: Operator, says: bytes, tmp_path: Path
) -> None:
    operator.says = says
    noted: list[str] = []
    scope = StoresRead(access=HERE)
    assert len(results.results(Wanted(), scope, noted.append).results) == 1
    assert noted == [scope.missed]
    assert stores.operator_run(HERE, "a", noted.append) is None
    assert all("not one that this version of k8sbench reads" in text for text in noted)
    with pytest.raises(Unreachable, match="not one that this version"):
        stores.operator_run(HERE, "a", noted.append, insist=True)
    if says != b"[]":
        with pytest.raises(Unreachable, match="not one that this version"):
            stores.operator_files(HERE, "a", tmp_path, "logs")


@pytest.mark.usefixtures("store")
def test_an_operator_of_an_earlier_version_is_named_with_it(operator: Operator) -> None:
    operator.lacks = "rows"
    scope = StoresRead(access=HERE)
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


@pytest.mark.usefixtures("store")
def test_all_runs_are_listed_or_the_newest(operator: Operator, many: list[str]) -> None:
    assert listed(StoresRead()) == ["a", "z", *many]
    assert operator.asked.count("runs") == 3
    operator.asked.clear()
    assert listed(StoresRead(), limit=3) == many[-3:]
    assert operator.asked.count("runs") == 1


@pytest.mark.usefixtures("store")
def test_where_older_runs_do_not_come_the_own_ones_are_listed(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, operator_answers=-1.0)
    noted: list[str] = []
    assert listed(StoresRead(), note=noted.append) == ["b"]
    assert "without the runs of an operator: It has not sent everything" in noted[-1]
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
        lambda: run_status.status("s", StoresRead(access=HERE), print),
        lambda: run_status.status("s", StoresRead(where="cluster", access=HERE), print),
    ]
    for ask in asked:
        with pytest.raises(QueryRefused, match="s-2, s-1") as wrong:
            ask()
        assert wrong.value.exit_code == 2
        assert wrong.value.action
    assert reporter.reported == []

"""Runs of two stores: each once, as the one has it that knows more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from k8sbench.adapters.kubernetes import operator_proxy as proxies
from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy
from k8sbench.adapters.store.opening import open_store
from k8sbench.app import collect, find, follow, objects, results, stores
from k8sbench.app.stores import StoresRead
from k8sbench.lifecycle.stop import Stop
from k8sbench.measure.group.selection import Wanted
from k8sbench.model.errors import NotFound, Unreachable
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.request import ClusterAccess, CollectOptions
from k8sbench.model.run import Run
from k8sbench.ports import Store
from k8sbench.report import document
from tests.harness.cluster.limits import shorten
from tests.unit.cli import live_runs
from tests.unit.lifecycle.played import Silent
from tests.unit.store.examples import PROCESS, measurement, plan, step

HERE = ClusterAccess(namespace="team")
KINDS: tuple[Literal["cancel", "delete"], ...] = ("cancel", "delete")


def run(name: str, *phases: Phase, measured: bool = False, at: float = 100.0) -> Run:
    phases = (Phase.CREATED, *phases)
    steps = [Transition(phase=phase, at=at + n, cause="") for n, phase in enumerate(phases)]
    return msgspec.structs.replace(
        live_runs.run(name, set_name=name, backend="kubernetes"),
        created_at=at,
        history=tuple(steps),
        measurement=measurement() if measured else None,
    )


class Proxy(OperatorProxy):
    """An operator that answers, or does not."""

    def __init__(self, *runs: Run) -> None:
        self.asked: list[Mapping[str, str]] = []
        self.breaks_at: int | None = None
        """The request from which on it does not answer any more."""
        self.has = runs
        self.says: bytes | None = None
        """Its answer to everything, instead of runs."""

    def read(self, path: str, query: Mapping[str, str]) -> bytes | None:
        self.asked.append(query)
        if self.says is not None:
            return self.says
        if path.startswith("runs/"):
            named = next((run for run in self.has if path == f"runs/{run.run_id}"), None)
            return None if named is None else msgspec.json.encode(document.status(named))
        if self.breaks_at is not None and len(self.asked) >= self.breaks_at:
            raise Unreachable("The operator does not answer.")
        until = float(query.get("until", "inf"))
        found = [run for run in self.has if run.created_at <= until]
        page = found[-int(query["limit"]) :]
        return msgspec.json.encode([document.status(run) for run in page])


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Proxy:
    proxy = Proxy(run("a", Phase.SUCCEEDED, measured=True), run("z", Phase.RUNNING))

    @contextmanager
    def opened(access: ClusterAccess, seconds: float = 0.0) -> Iterator[OperatorProxy]:
        assert access in {HERE, ClusterAccess()}
        yield proxy

    monkeypatch.setattr(stores, "opened_operator", opened)
    monkeypatch.setattr(objects, "served", lambda _: nullcontext())
    return proxy


@pytest.fixture
def store(tmp_path: Path) -> str:
    place = str(tmp_path / "store")
    with open_store(place) as store:
        store.record(plan("b", set_name="b"), at=50.0, process=PROCESS)
        store.move("b", step(Phase.SUCCEEDED))
        store.measured("b", measurement())
    return place


def test_one_that_does_not_answer_is_noted(proxy: Proxy, store: str) -> None:
    proxy.breaks_at = 1
    noted: list[str] = []
    report = results.results(Wanted(), StoresRead(where=store, access=HERE), noted.append)
    assert [member.run_id for row in report.results for member in row.group.members] == ["b"]
    assert noted == ["note: without the runs of an operator: The operator does not answer."]
    with pytest.raises(Unreachable, match="does not answer") as wrong:
        results.results(Wanted(), StoresRead(where=stores.CLUSTER, access=HERE), noted.append)
    assert wrong.value.exit_code == 6


@pytest.mark.parametrize("says", [b"<!doctype html>", b"{}", b'[{"schema": 99}]'])
def test_an_answer_of_another_version_is_a_note_or_an_error_in_words(
    proxy: Proxy, store: str, says: bytes, tmp_path: Path
) -> None:
    proxy.says = says
    noted: list[str] = []
    report = results.results(Wanted(), StoresRead(where=store, access=HERE), noted.append)
    assert len(report.results) == 1
    assert stores.operator_baselines(HERE, noted.append) == []
    assert stores.operator_run(HERE, "a", noted.append) is None
    assert all("not one that this version of k8sbench reads" in text for text in noted)
    assert len(noted) == 3
    with pytest.raises(Unreachable, match="not one that this version"):
        stores.operator_run(HERE, "a", noted.append, insist=True)
    with pytest.raises(Unreachable, match="not one that this version"):
        stores.operator_files(HERE, "a", tmp_path, "logs")


def test_a_run_that_only_the_operator_has_is_over_for_every_command(
    proxy: Proxy, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(
        _store: Store, _text: str, _access: ClusterAccess, missing: NotFound, acts: bool
    ) -> None:
        raise missing

    monkeypatch.setattr(find, "_foreign_job", gone)
    reporter, where = Silent(), (store, HERE)
    watched = follow.watch("a", *where, reporter, Stop())
    options = CollectOptions(runs=("a",), access=HERE, store=store)
    result, rows = collect.collect(options, reporter, Stop(), lambda _: False)
    assert [run.run_id for run in result.closed] == ["a"]
    for shown in (watched, rows):
        (row,) = shown.report.results
        assert [member.verdict for member in row.group.members] == ["valid"]
    for kind in KINDS:
        follow.end(["a"], kind, *where, reporter, Stop())
    over = "The operator has collected run a: nothing is left to do here."
    assert reporter.reported == [over] * 4
    for kind in KINDS:
        with pytest.raises(Unreachable, match="still follows run z"):
            follow.end(["z"], kind, *where, reporter, Stop())
        with pytest.raises(NotFound):
            follow.end(["y"], kind, *where, reporter, Stop())


@pytest.fixture
def many(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of 25 runs, served in pages of ten; two share a time."""
    monkeypatch.setattr(proxies, "MOST_RUNS", 10)
    times = [float(n) for n in range(15)] + [14.0] + [float(n) for n in range(15, 24)]
    proxy.has = tuple(run(f"r{n:02}", at=1e9 + at) for n, at in enumerate(times))
    return [one.run_id for one in proxy.has]


def test_a_store_of_many_runs_is_read_to_its_beginning(proxy: Proxy, many: list[str]) -> None:
    noted: list[str] = []
    for insist in (False, True):
        proxy.asked.clear()
        found = stores.operator_runs(HERE, noted.append, insist=insist)
        assert [one.run_id for one in found] == many
        assert [query["limit"] for query in proxy.asked] == ["10", "10", "10"]
    assert not noted


@pytest.mark.parametrize("breaks", [True, False])
def test_where_the_older_ones_do_not_come_the_newest_are_shown_and_it_is_said(
    proxy: Proxy, many: list[str], monkeypatch: pytest.MonkeyPatch, breaks: bool
) -> None:
    shorten(monkeypatch, operator_answer=2.0 if breaks else -1.0)
    proxy.breaks_at = 2 if breaks else None
    why = "The operator does not answer." if breaks else "It has not answered in -1 s."
    noted: list[str] = []
    found = stores.operator_runs(HERE, noted.append)
    assert [one.run_id for one in found] == many[-10:]
    (note,) = noted
    assert note == (
        "note: without some runs of an operator, those created before 2001-09-09T01:46:54Z (--store"
        f" cluster waits for all, --benchmark asks for fewer): {why}"
    )
    # Who insists is given all or an error.
    if breaks:
        proxy.asked.clear()
        with pytest.raises(Unreachable, match="The operator cannot be read: The operator does"):
            stores.operator_runs(HERE, lambda _: None, insist=True)

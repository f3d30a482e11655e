"""Run files read from an operator: growing logs and GPU series."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.adapters.kubernetes.client.api import ApiFault
from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy
from k8sbench.app import stores
from k8sbench.model.errors import Unreachable, UsageError
from k8sbench.model.phase import Phase
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.unit.command_line import Cli
from tests.unit.lifecycle.gathering import Bench, Source
from tests.unit.operator.served import HERE, Operator
from tests.unit.store.examples import NOW, archive, plan, step


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    with open_store(str(tmp_path / "operator")) as store:
        made = Operator(store)
        monkeypatch.setattr(stores, "opened_operator", made.opened)
        yield made


@pytest.fixture
def going_on(operator: Operator) -> SqlStore:
    """An operator's store with a run that goes on."""
    two = plan(backend="kubernetes", replicas=2)
    operator.store.record(two, at=NOW, process=None)
    operator.store.move("seg-1", step(Phase.RUNNING))
    return operator.store


def test_logs_are_printed_as_far_as_the_operator_has_them(
    operator: Operator, going_on: SqlStore, cli: Cli
) -> None:
    archive(going_on, "two", replica="worker-0", at=NOW + 1)
    archive(going_on, "one")
    words = ("logs", "seg-1", "--follow", "--store=cluster", "--namespace=team")
    out, err = cli(*words)
    assert out == "[master-0] one\n[worker-0] two\n"
    assert "Run seg-1 is Running." in err
    operator.is_away = True
    assert "does not answer" in cli(*words, code=6).err


@pytest.mark.usefixtures("going_on")
def test_a_file_that_did_not_come_whole_is_an_error(
    operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(operator.store, *(f"line {number}" for number in range(100)))
    whole = operator.store.log_files("seg-1")[0].read_bytes()
    real = OperatorProxy.pieces

    def breaks(self: OperatorProxy, path: str) -> Iterator[bytes]:
        if not path.endswith(".log"):
            yield from real(self, path)
            return
        yield whole[:1000]
        raise ApiFault(None, "", "it closed the connection before the end of its answer")

    why = r"logs/master-0\.log of run seg-1 cannot be read: it clo"
    with monkeypatch.context() as patched:
        patched.setattr(OperatorProxy, "pieces", breaks)
        with pytest.raises(Unreachable, match=why):
            stores.operator_files(HERE, "seg-1", tmp_path, "logs")
    (path,) = stores.operator_files(HERE, "seg-1", tmp_path, "logs")
    assert path.read_bytes() == whole
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, path)] == [0o700, 0o600]


@pytest.fixture
def measured(operator: Operator) -> Bench:
    """A run with GPU metrics that the operator followed, measured and archived."""
    bench = Bench(operator.store, Source(250.0))
    bench.submit()
    bench.finish()
    assert (operator.store.folder("seg-1") / "gpu" / "prometheus.jsonl").exists()
    return bench


@pytest.mark.usefixtures("measured")
def test_a_report_has_an_operators_runs_and_their_logs(
    operator: Operator, cli: Cli, tmp_path: Path
) -> None:
    run, folder = operator.store.run("seg-1"), tmp_path / "report"
    archive(operator.store, "two", replica="worker-0")
    archive(operator.store, "one")
    words = ("report", run.plan.set_name, "-o", str(folder), "--namespace=team")
    assert "1 of 1" in cli(*words, "--store=cluster").err
    copies = sorted(folder.glob("logs/*/rank*.log"))
    theirs = operator.store.log_files("seg-1")
    assert len(copies) == 2
    assert [path.read_bytes() for path in copies] == [path.read_bytes() for path in theirs]


def test_what_the_operator_refuses_is_its_answer_and_no_silence(
    operator: Operator, going_on: SqlStore
) -> None:
    going_on.record(plan("seg-2", repeat=2), at=NOW, process=None)
    with operator.opened(HERE) as there, pytest.raises(UsageError) as raised:
        there.run("seg")
    assert "2 runs begin with 'seg'" in raised.value.message

"""``Client``: what the commands do, from Python, as docs/reference.md shows."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import k8sbench
from k8sbench import Client
from k8sbench.app import imports, submit
from k8sbench.measure.run.expectation import MeasureOptions
from k8sbench.model.errors import JobFailed, NotFound, TimedOut, UsageError
from k8sbench.model.request import SubmitRequest
from tests.tiers import ROOT

LOG = str(ROOT / "tests" / "fixtures" / "logs" / "k8sbench_master.log")


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(store=str(tmp_path / "store"), backend="local")


@pytest.fixture
def imported(client: Client, tmp_path: Path) -> str:
    """The run of a log that was imported into the client's store."""
    done = imports.import_logs(
        [LOG], MeasureOptions(family="auto"), lambda _: None, where=str(tmp_path / "store")
    )
    return done.added[0].run_id


def test_the_package_imports_nothing_until_the_client_is_asked_for() -> None:
    program = "import sys; import k8sbench; print([m for m in sys.modules if 'k8sbench.' in m])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        k8sbench.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_options_are_called_as_typed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SubmitRequest] = []

    def submitted(request: SubmitRequest, reporter: Any, _: object) -> None:
        asked.append(request)
        reporter.planned(SimpleNamespace(run_id="seg-1"))

    monkeypatch.setattr(submit, "submit", submitted)
    run = client.submit("tsm", set="s", timeout="2h", speed_option=("compile",), batch_size=4)
    assert run.run_id == "seg-1"
    (request,) = asked
    assert (request.set_name, request.timeout_s, request.batch_sizes) == ("s", 7200.0, (4,))
    assert (request.backend, request.speed_options) == ("local", ("compile",))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batchsize": 4}, "Did you mean batch_size?"),
        ({"dry_run": "client"}, "one run at a time"),
        ({"gpus": 0}, "--gpus 0 is out of range"),
    ],
)
def test_bad_requests_are_our_errors(client: Client, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        client.submit("resnet50", **options)
    with pytest.raises(NotFound, match="no benchmark 'resnet5'"):
        client.submit("resnet5")


def test_waiting_raises_by_exit_code(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: object, reporter: Any, stop: Any) -> None:
        reporter.planned(SimpleNamespace(run_id="seg-1"))
        assert ended.wait(100)
        raise JobFailed("master-0 exited with code 1.")

    ended = threading.Event()
    monkeypatch.setattr(submit, "submit", failing)
    run = client.submit("tsm")
    with pytest.raises(TimedOut):
        run.wait(timeout=0.1)
    ended.set()
    with pytest.raises(JobFailed, match="exited with code 1"):
        run.wait()


def test_a_row_has_its_figures_and_why_one_is_missing(client: Client, imported: str) -> None:
    run = client.run(imported[:-2])
    assert (run.run_id, run.status.phase) == (imported, "Succeeded")
    assert run.wait() == run.row
    (row,) = client.results()
    assert (row.throughput, row.unit, row.state) == (16.0, "samples/s", "valid")
    assert row.speedup is None
    assert row.missing["speedup"]
    assert row.document["runs_total"] == row.runs_total == 1
    assert len(run.logs()) == len(Path(LOG).read_text().splitlines())
    with pytest.raises(NotFound):
        client.results(benchmark="tsm")
    with pytest.raises(UsageError, match="no filter"):
        client.results(frameworks="pytorch")


def test_render_and_compare_are_those_of_the_commands(client: Client, imported: str) -> None:
    job = client.render("tsm", backend="kubernetes", replicas=4, gpus=8, amp=True)[-1]
    assert job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3
    compared = client.compare(imported, imported)
    assert len(compared.cases) == 1

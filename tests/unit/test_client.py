"""``Client``: what the commands do, from Python, as docs/python.md shows."""

import inspect
import itertools
import json
import re
import shlex
import subprocess
import sys
import threading
import typing
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

import k8sbench
from k8sbench import Client
from k8sbench.app import imports, option_types, option_values, submit
from k8sbench.app.option_values import Option
from k8sbench.catalog.measure_options import LOG_FLAGS, MeasureOptions
from k8sbench.cli.main import main
from k8sbench.model.errors import BenchError, InputError, JobFailed, NotFound, TimedOut, UsageError
from k8sbench.model.request import SubmitRequest
from tests.tiers import ROOT
from tests.unit.cli import live_runs
from tests.unit.command_line import Cli

RUN = live_runs.run("seg-1")
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
        reporter.planned(RUN)

    monkeypatch.setattr(submit, "submit", submitted)
    run = client.submit("tsm", set="s", timeout="2h", speed_option=("compile",), batch_size=4)
    assert run.run_id == "seg-1"
    (request,) = asked
    assert (request.set_name, request.timeout_s, request.batch_sizes) == ("s", 7200.0, (4,))
    assert (request.backend, request.speed_options) == ("local", ("compile",))


Capture = Callable[[Callable[[], object]], SubmitRequest | BenchError]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Capture:
    """Return the request that a submit makes, or the error that keeps it from one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("K8SBENCH_STORE", raising=False)

    def capture(act: Callable[[], object]) -> SubmitRequest | BenchError:
        made: list[SubmitRequest] = []

        def submitted(request: SubmitRequest, *_: object) -> None:
            made.append(request)
            raise BenchError("It is seen.")

        monkeypatch.setattr(submit, "submit", submitted)
        with pytest.raises(BenchError) as raised:
            act()
        return made[0] if made else raised.value

    return capture


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("--precision=fp8", {"precision": "fp8"}),
    ("--precision=fp16", {"precision": "fp16"}),
    ("--preset=smok", {"preset": "smok"}),
    ("--backend=lokal", {"backend": "lokal"}),
    ("--timeout='2 hours'", {"timeout": "2 hours"}),
    ("--timeout=2h", {"timeout": 7200}),
    ("--timeout=2h", {"timeout": "2h"}),
    ("--replicas=2", {"replicas": "2"}),
    ("--replicas=2", {"replicas": 2}),
    ("--replicas=two", {"replicas": "two"}),
    ("--replicas=0", {"replicas": 0}),
    ("--target=78.5", {"target": 78.5}),
    ("--target=none", {"target": "none"}),
    ("--target=high", {"target": "high"}),
    ("--batch-size=64", {"batch_size": 64}),
    ("--batch-size=64", {"batch_size": [64]}),
    ("--batch-size=64,0", {"batch_size": "64,0"}),
    ("--speed-option=compile", {"speed_option": "compile"}),
    ("--speed-option=compile --speed-option=tf32", {"speed_option": ["compile", "tf32"]}),
    ("--speed-option=worker=2", {"speed_option": "worker=2"}),
    ("--data=pictures", {"data": Path("pictures")}),
    ("--data=pvc:pictures", {"data": "pvc:pictures"}),
    ("--store=there", {"store": Path("there")}),
    ("--amp", {"amp": True}),
    ("--amp --precision=fp16", {"amp": True, "precision": "fp16"}),
    ("--set=nightly", {"set": "nightly"}),
    ("--prometheus=ftp://a", {"prometheus": "ftp://a"}),
    ("--yes", {"agree": True}),
]


@pytest.mark.parametrize(("typed", "given"), OPTIONS)
def test_an_option_is_read_as_the_command_line_reads_it(
    asked: Capture, typed: str, given: dict[str, Any]
) -> None:
    words = ["submit", "resnet50", "--debug", *shlex.split(typed)]
    command = asked(lambda: main(words))
    client = asked(lambda: Client().submit("resnet50", **given))
    if isinstance(command, BenchError):
        assert isinstance(client, BenchError)
        assert (str(client), client.exit_code) == (str(command), command.exit_code)
    else:
        assert client == command


@pytest.mark.parametrize(
    "given",
    [
        {"replicas": True},
        {"replicas": 2.5},
        {"amp": "yes"},
        {"timeout": True},
        {"timeout": 0},
        {"queue": 5},
        {"speed_option": [1]},
        {"batch_size": [True]},
        {"preset": ["smoke"]},
        {"target": True},
    ],
)
def test_what_cannot_be_typed_is_an_error_of_ours(asked: Capture, given: dict[str, Any]) -> None:
    refused = asked(lambda: Client().submit("resnet50", **given))
    assert isinstance(refused, UsageError)
    assert refused.message.startswith(f"--{next(iter(given)).replace('_', '-')} ")
    assert refused.action


def test_the_client_checks_its_own_options_and_filters(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--yes 'no' is neither"):
        Client(backend="local").submit("resnet50", agree="no")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--backend 'lokal' is none of"):
        Client(backend="lokal")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--namespace 5 is not a text"):
        Client(namespace=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--precision 'fp8' is none of"):
        Client(store=tmp_path).results(precision="fp8")  # type: ignore[arg-type]


WRONG_TYPES: list[tuple[str, Callable[[Any], object]]] = [
    ("--set ['s']", lambda client: client.results(set=["s"])),
    ("--set 3", lambda client: client.results(set=3)),
    ("runs 3", lambda client: client.results(runs=3)),
    ("runs None", lambda client: client.results(runs=["r", None])),
    ("--set ['s']", lambda client: client.runs(set=["s"])),
    ("--set 1", lambda client: client.runs(set=1)),
    ("--benchmark ['tsm']", lambda client: client.runs(benchmark=["tsm"])),
    ("--since 3600", lambda client: client.runs(since=3600)),
    ("--since datetime.timedelta", lambda client: client.runs(since=timedelta(days=3))),
    ("--since datetime.date", lambda client: client.history("tsm", since=date(2026, 1, 1))),
    ("a ['x']", lambda client: client.compare(["x"], ["x"])),
    ("b 3", lambda client: client.compare("x", 3)),
    ("job None", lambda client: client.observe(None)),
    ("--set 3", lambda client: client.observe("job/x", set=3)),
    ("--set ['s']", lambda client: client.import_logs([LOG], set=["s"])),
    ("logs 3", lambda client: client.import_logs(3)),
    ("logs 3", lambda client: client.measure(3)),
    ("logs None", lambda client: client.measure(None)),
    ("run_id None", lambda client: client.run(None)),
    ("run_id 3", lambda client: client.status(3)),
    ("run_id ['r']", lambda client: client.cancel(["r"])),
    ("run_id None", lambda client: client.logs(None)),
    ("replica 0", lambda client: client.logs("r", 0)),
    ("what None", lambda client: client.explain(None)),
    ("benchmark None", lambda client: client.render(None)),
    ("benchmark 3", lambda client: client.submit(3)),
]


@pytest.mark.parametrize(("named", "call"), WRONG_TYPES)
def test_an_argument_of_a_wrong_type_is_named(
    client: Client, imported: str, named: str, call: Callable[[Client], object]
) -> None:
    assert len(client.runs()) == 1
    with pytest.raises(UsageError, match=f"^{re.escape(named)}.* is not a text") as raised:
        call(client)
    assert raised.value.action


def test_a_set_may_be_named_by_a_path(client: Client, imported: str) -> None:
    (row,) = client.results()
    assert client.results(set=Path(row.set)) == [row]  # type: ignore[arg-type]


@pytest.mark.parametrize("none", [[], ()])
def test_rows_of_no_run_are_none(client: Client, imported: str, none: Sequence[str]) -> None:
    assert client.results(runs=none) == client.results(runs=none, every=True) == []
    assert len(client.results()) == len(client.results(runs=None)) == 1
    assert client.results(runs=imported) == client.results(runs=[imported]) == client.results()
    with pytest.raises(UsageError, match="--precision 'fp8' is none of"):
        client.results(runs=none, precision="fp8")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("offered", "read"),
    [
        (option_types.SubmitOptions, option_values.SUBMIT),
        (option_types.LogOptions, option_values.options(MeasureOptions, LOG_FLAGS)),
        (option_types.RowFilters, option_values.FILTERS),
    ],
)
def test_the_keywords_that_editors_offer_are_those_of_the_tables(
    offered: type, read: dict[str, Option]
) -> None:
    kinds = typing.get_type_hints(offered)
    assert sorted(kinds) == sorted(option.keyword for option in read.values())
    for option in read.values():
        literals = [kinds[option.keyword], *typing.get_args(kinds[option.keyword])]
        words = [typing.get_args(one) for one in literals if typing.get_origin(one) is Literal]
        assert sorted(itertools.chain.from_iterable(words)) == sorted(option.words)


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


@pytest.mark.parametrize("several", [{"batch_size": [32, 64]}, {"repeats": 2}])
def test_a_client_submits_no_sweep(asked: Capture, several: dict[str, Any]) -> None:
    assert isinstance(asked(lambda: Client().submit("resnet50", **several)), UsageError)


def test_waiting_raises_by_exit_code(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: object, reporter: Any, stop: Any) -> None:
        reporter.planned(RUN)
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
    assert repr(run) == f"<Run {imported}: Succeeded>"
    (row,) = client.results()
    assert "16.0 samples/s" in repr(row)
    assert len(repr(row)) < 200
    assert (row.throughput, row.unit, row.state) == (16.0, "samples/s", "valid")
    assert row.speedup is None
    assert row.missing["speedup"]
    assert row.document["runs_total"] == row.runs_total == 1
    assert len(run.logs()) == len(Path(LOG).read_text().splitlines())
    with pytest.raises(NotFound):
        client.results(benchmark="tsm")
    with pytest.raises(UsageError, match="Did you mean framework"):
        client.results(frameworks="pytorch")  # type: ignore[call-arg]


def test_render_and_compare_are_those_of_the_commands(client: Client, imported: str) -> None:
    job = client.render("tsm", backend="kubernetes", replicas=4, gpus=8, amp=True)[-1]
    assert job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3
    compared = client.compare(imported, imported)
    assert len(compared.cases) == 1


def test_logs_are_measured_and_imported_as_by_the_commands(
    client: Client, cli: Cli, tmp_path: Path
) -> None:
    (found,) = client.measure(Path(LOG), format="k8sbench")
    assert json.loads(msgspec.json.encode([found])) == cli.json(
        "measure", LOG, "--format=k8sbench", "-o", "json"
    )
    assert client.runs() == []
    (row,) = client.import_logs([LOG], set="old")
    (run,) = client.runs(set="old", since="2000-01-01")
    store = f"--store={tmp_path / 'store'}"
    assert json.loads(msgspec.json.encode([run])) == cli.json("list", store, "-o", "json")
    assert client.results(set="old") == [row]
    calls: list[Callable[..., object]] = [client.measure, client.import_logs]
    for call in calls:
        with pytest.raises(InputError, match="nothing"):
            call(tmp_path / "nothing.log")
        with pytest.raises(UsageError, match="--precision 'fp8' is none of"):
            call(LOG, precision="fp8")
        with pytest.raises(UsageError, match="Did you mean gpu_model"):
            call(LOG, gpu_modell="A")


def test_unreadable_logs_are_left_out_if_asked(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "empty.log").touch()
    logs: list[str | Path] = [LOG, tmp_path / "empty.log"]
    with pytest.raises(InputError, match="empty"):
        client.import_logs(logs)
    (row,) = client.import_logs(logs, skip_unreadable=True)
    assert row.runs_total == 1
    assert "left out" in caplog.text


def test_a_run_is_explained_and_its_benchmark_shown_over_its_sets(
    client: Client, imported: str
) -> None:
    assert client.explain(imported) == client.run(imported).explain()
    assert "gpu-count" in client.explain("gpu-count")
    (case,) = client.history(client.results()[0].benchmark, precision="amp")
    assert [point.group.key.set_name for point in case.points] == [client.results()[0].set]


def test_the_options_are_completed_in_a_notebook() -> None:
    """IPython reads signatures."""
    offered = inspect.signature(Client.submit).parameters
    assert offered["batch_size"].kind is inspect.Parameter.KEYWORD_ONLY
    assert {"self", "benchmark", "agree", *option_types.SubmitOptions.__annotations__} == {*offered}
    assert "gpu_model" in inspect.signature(Client.import_logs).parameters
    assert "precision" in inspect.signature(Client.results).parameters

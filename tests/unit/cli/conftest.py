"""A store of a test's own, which commands find where they are typed."""

import functools
import pathlib
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest

from k8sbench.adapters import processes
from k8sbench.cli.main import main
from k8sbench.model import creation
from k8sbench.model.phase import Phase
from k8sbench.model.run import Location, Run
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.unit import goldens
from tests.unit.model.measurements import measurement
from tests.unit.store.examples import NOW, PROCESS, REJECTION, archive, plan, step
from tests.unit.store.filled import put

DAY = 86400.0
Fill = Callable[[Iterable[Run]], None]
Typed = Callable[..., tuple[int, str, str]]
Told = Callable[..., None]


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return the future store of the commands, in the working folder."""
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


@pytest.fixture
def store(root: pathlib.Path) -> Iterator[SqlStore]:
    """The commands' store, empty."""
    with open_store() as opened:
        yield opened


@pytest.fixture
def fill(root: pathlib.Path) -> Fill:
    """Put runs into the commands' store, as submit would."""
    return functools.partial(put, root)


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command that may end with any code; gives code, stdout, stderr."""

    def type_it(*words: str) -> tuple[int, str, str]:
        return main(words), *capsys.readouterr()

    return type_it


@pytest.fixture
def told(typed: Typed, tmp_path: pathlib.Path) -> Told:
    """Type lines; what follows each, data or not, is a golden text."""

    def check(name: str, lines: Iterable[str], *, data: bool = True) -> None:
        parts = []
        for line in lines:
            code, out, err = typed(*shlex.split(line))
            notes = "".join(f"! {each}\n" for each in err.splitlines())
            printed = f"{out if data else ''}{notes}{f'exit {code}' if code else ''}"
            parts.append(f"$ k8sbench {line}\n{printed.replace(str(tmp_path / 'store'), 'STORE')}")
        text = "\n".join(parts).replace(str(tmp_path), "HERE").replace("\x1b", "ESC")
        text = re.sub("Identity: .* [0-9a-f]+$", "Identity: ID", text, flags=re.MULTILINE)
        goldens.check(pathlib.Path(__file__).parent / "golden" / f"{name}.txt", text)

    return check


@pytest.fixture
def no_cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure no cluster, whatever the machine's own user has."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def runs(store: SqlStore, no_cluster: None, monkeypatch: pytest.MonkeyPatch) -> SqlStore:
    """Provide valid, rejected and lost runs, one restarted elsewhere, one on a cluster."""
    monkeypatch.setattr(time, "time", lambda: NOW + 3 * DAY)
    store.record(plan(replicas=2), at=NOW, process=PROCESS)
    store.move("seg-1", step(Phase.RUNNING, NOW + 4))
    archive(store, "one")
    archive(store, "three", at=NOW + 2)
    archive(store, "two", replica="worker-0", at=NOW + 1)
    archive(store, "  four\t\x1b[32m", replica="worker-0", at=NOW + 3)
    store.move("seg-1", step(Phase.SUCCEEDED, NOW + 94, cause="All replicas ended with 0."))
    store.save_measurement("seg-1", measurement())
    accepted = msgspec.structs.replace(REJECTION, id="gpu-count", accepted=True, evidence=())
    rejected = {"throughput": None, "verdict": "rejected", "reasons": (REJECTION, accepted)}
    store.record(plan("seg-2", repeat=2), at=NOW + DAY, process=None)
    store.move("seg-2", step(Phase.SUCCEEDED, NOW + DAY + 60))
    store.save_measurement("seg-2", measurement(**rejected))
    restarted = plan("arc-1", benchmark="arcface", max_restarts=3, replicas=3)
    store.record(restarted, at=NOW + 2 * DAY, process=PROCESS)
    again = creation.attempt_restarts(restarted, 1, "worker-1 was killed.", NOW + 2 * DAY + 10)
    store.move("arc-1", again)
    archive(store, "one", run_id="arc-1")
    gone = msgspec.structs.replace(processes.this_process(), started=1.0)
    store.record(plan("old-1", set_name="weekly"), at=NOW + 3 * DAY - 7200, process=gone)
    away = Location(server="https://s", namespace="team", context="gone", kubeconfig=None)
    for name in ("far-1", "far-2"):
        far = plan(name, set_name=name, backend="kubernetes")
        store.record(far, at=NOW + 5, process=None, location=away)
    store.move("far-2", step(Phase.FAILED, NOW + 20, cause="Evicted."))
    return store

"""``k8sbench logs``: what a run's replicas printed."""

import subprocess
import sys
import time

import pytest

from k8sbench import Client
from k8sbench.adapters import processes
from k8sbench.cli.main import main
from k8sbench.model.phase import Phase
from k8sbench.store.sql_store import SqlStore
from tests.harness.credentials import written
from tests.tiers import ROOT
from tests.unit.presence import present
from tests.unit.store.examples import NOW, archive, plan, step

PATIENCE = 100.0
"""Seconds until a process that does not end counts as hanging."""


def logs(store: SqlStore, *words: str) -> subprocess.Popen[str]:
    """Start the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "k8sbench", "logs", *words, "seg-1", f"--store={store.root}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_binary_is_printed(store: SqlStore, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    store.record(plan(), at=NOW, process=None)
    log = archive(store, "one")
    store.move("seg-1", step(Phase.FAILED))
    log.write_bytes(log.read_bytes() + b"\xff\xfe\0\n" + b"no end")
    assert main(["logs", "seg"]) == 0
    assert capfdbinary.readouterr().out == b"one\n\xff\xfe\0\nno end\n"


def test_credentials_are_not_printed(
    store: SqlStore, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    store.record(plan(), at=NOW, process=None)
    archive(store, "\n".join(one.text for one in written()))
    store.move("seg-1", step(Phase.FAILED))
    assert main(["logs", "seg", "--timestamps"]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert len(out.splitlines()) == sum(len(one.text.splitlines()) for one in written())
    assert not [secret for one in written() for secret in one.secrets if secret in out]
    assert Client(store=str(store.root)).logs("seg-1") == [
        line.partition(" ")[2] for line in out.splitlines()
    ]


@pytest.mark.slow
def test_following_ends_when_the_runs_process_is_killed(store: SqlStore) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    store.record(plan(), at=time.time(), process=processes.describe(owner.pid))
    store.move("seg-1", step(Phase.RUNNING, time.time()))
    archive(store, "hello", at=time.time())
    reader = logs(store, "-f")
    assert present(reader.stdout).readline() == "hello\n"
    owner.kill()
    owner.communicate()
    _, err = reader.communicate(timeout=PATIENCE)
    assert "Run seg-1 is Lost." in err
    assert reader.returncode == 0

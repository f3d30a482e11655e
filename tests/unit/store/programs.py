"""Programs on a store, which tests start as processes of their own."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from k8sbench.app import archived_logs, stores
from k8sbench.store import exchange
from k8sbench.store.open_store import open_store
from tests.harness import children


def open_at_once(root: str) -> None:
    """Open a store when others do; prints how many runs it has, and its identity."""
    children.say_ready()
    with open_store(root) as store:
        print(len(store.ids()), store.identity)


def answer(root: str) -> None:
    """Do what stdin says, an action on claims and a run a line; prints what came of each."""
    store = open_store(root)
    print("ready", flush=True)
    for line in sys.stdin:
        asked, run_id = line.split()
        print(json.dumps(getattr(store.claims, asked)(run_id)), flush=True)


def sleep() -> None:
    """Stay until stdin ends."""
    print("ready", flush=True)
    sys.stdin.read()


def claim(run_id: str) -> None:
    """Claim a run of the usual store until stdin ends."""
    store = open_store()
    store.claims.claim(run_id)
    sleep()


def reindex(root: str) -> None:
    stores.reindex(root, print)


def measure_logs(root: str) -> None:
    archived_logs.measure_logs(root, print)


def import_runs(root: str, file: str) -> None:
    with open_store(root) as store, Path(file).open("rb") as source:
        exchange.import_runs(store, source, "x")


def remove(root: str, run_id: str) -> None:
    exchange.remove_run(open_store(root), run_id)


def remove_and_die(root: str, run_id: str) -> None:
    """Remove a run, and be killed once something is renamed."""
    rename = os.rename

    def rename_and_die(*names: Any) -> None:
        rename(*names)
        os.kill(os.getpid(), signal.SIGKILL)

    os.rename = rename_and_die  # type: ignore[assignment]
    remove(root, run_id)


def prune(root: str, run_id: str) -> None:
    exchange.prune_run(open_store(root), run_id, at=1.0, rule="first")

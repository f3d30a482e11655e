"""Programs on a store, which tests start as processes of their own."""

import json
import os
import signal

import msgspec

from k8sbench.model.errors import RepeatTaken, StoreError
from k8sbench.model.identity import case_key
from k8sbench.model.phase import Phase
from k8sbench.store import indexing
from k8sbench.store.open_store import open_store
from tests.harness import children
from tests.unit.model.measurements import THROUGHPUT, measurement
from tests.unit.store.examples import NOW, fill, plan, step


def fill_disk(root: str) -> None:
    """Record runs until the disk is full; prints how many there are, and the error."""
    recorded = []
    try:
        with open_store(root) as store:
            for number in range(1, 100_000):
                run_id = f"seg-{number}"
                store.record(plan(run_id, repeat=number), at=NOW + number, process=None)
                recorded.append(run_id)
                store.move(run_id, step(Phase.SUCCEEDED))
                store.save_measurement(run_id, measurement())
    except StoreError as wrong:
        print(len(recorded))
        print(wrong)


def fill_and_die(root: str, *run_ids: str) -> None:
    """Record runs, and leave the database open."""
    store = open_store(root)
    fill(store, *run_ids)
    os.kill(os.getpid(), signal.SIGKILL)


def open_at_once(root: str) -> None:
    """Open a store when others do; prints how many runs it has, and how much was told."""
    indexing.SHOWN_SECONDS = 0.0
    children.say_ready()
    told: list[str] = []
    with open_store(root, tell=told.append) as store:
        print(len(store.ids()), len(told))


def measure_anew(root: str, rate: float) -> None:
    """Print the rates of the index, then measure the only run anew."""
    with open_store(root) as store:
        if not store.ids():
            fill(store, "seg-1")
        with store.database.reading() as db:
            print([row["throughput"] for row in db.execute("SELECT throughput FROM runs")])
        found = msgspec.structs.replace(THROUGHPUT, median=rate)
        store.save_measurement("seg-1", measurement(throughput=found, estimator="median"))


def write_runs(root: str, name: str, count: int) -> None:
    """Record whole runs when others do; prints the repeats that they have got."""
    store = open_store(root)
    children.say_ready()
    key = case_key(plan())
    repeats = []
    for number in range(count):
        run_id = f"{name}-{number}"
        while True:
            repeat = store.next_repeat("nightly", key)
            try:
                store.record(plan(run_id, repeat=repeat), at=NOW + number, process=None)
                break
            except RepeatTaken:
                pass
        store.move(run_id, step(Phase.RUNNING))
        store.move(run_id, step(Phase.SUCCEEDED))
        store.save_measurement(run_id, measurement(final_loss=float(repeat)))
        repeats.append(repeat)
    store.close()
    print(json.dumps(repeats))

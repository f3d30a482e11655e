"""A store with runs in it, as submit would have recorded them."""

from collections.abc import Iterable
from pathlib import Path

from k8sbench.model.phase import Transition
from k8sbench.model.run import Run
from k8sbench.store.open_store import open_store


def put(where: Path, runs: Iterable[Run]) -> None:
    """Record runs with their states and measurements."""
    with open_store(str(where)) as store:
        for one in runs:
            store.record(one.plan, at=one.created_at, process=None)
            for step in one.history[1:]:
                store.move(one.run_id, Transition(phase=step.phase, at=step.at, cause="test"))
            if one.measurement is not None:
                store.save_measurement(one.run_id, one.measurement)

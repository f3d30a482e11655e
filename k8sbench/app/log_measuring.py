"""Measuring the logs of observed jobs in another process, as an operator does.

Jobs of a night end together: one process measures all that wait. The module is the child's program,
too: ``python -m k8sbench.app.log_measuring``.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from k8sbench.adapters import measuring
from k8sbench.catalog.imported_logs import MeasuredLog
from k8sbench.catalog.measure_options import MeasureOptions
from k8sbench.json_decoders import decoder
from k8sbench.model.errors import InputError, StoreError
from k8sbench.reader.measuring import expectation

MODULE = "k8sbench.app.log_measuring"
MOST = 64
"""Most jobs that are measured by one process."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of :func:`.imports.measure_run`."""

    files: Mapping[str, str]
    """Path → name of the logs, rank 0 first."""
    first: str
    options: MeasureOptions


_Waiting = tuple[Task, "Future[Any]"]
waiting: list[_Waiting] = []
"""Tasks of which no child knows, and their answers."""
TURN = threading.Lock()
"""Held while a child measures; whoever gets it measures for all that wait."""
_coming: set[str] = set()
"""Runs whose tasks the next child shall have, too."""
_ARRIVAL = threading.Condition()
"""Notified when a run is no longer among them."""


def expect(run_ids: Iterable[str]) -> None:
    """Have the next child wait for the tasks of these runs.

    Each needs a thread of its own, which measures it or calls :func:`arrived`.
    """
    with _ARRIVAL:
        _coming.update(run_ids)


def arrived(run_id: str) -> None:
    """Have no child wait for the task of a run: it waits itself, or never comes."""
    with _ARRIVAL:
        _coming.discard(run_id)
        _ARRIVAL.notify_all()


def measure_run(
    files: Mapping[str, str], first: str, *, options: MeasureOptions, run_id: str = ""
) -> MeasuredLog:
    """Measure the logs of one run as :func:`.imports.measure_run`; blocks until it is done."""
    answer: Future[Any] = Future()
    waiting.append((Task(files=files, first=first, options=options), answer))
    arrived(run_id)
    with _ARRIVAL:
        _ARRIVAL.wait_for(lambda: not _coming)
    while not answer.done():
        with TURN:
            batch = waiting[:MOST]
            del waiting[: len(batch)]
            if batch:
                _measure(batch)
    found = answer.result()
    if isinstance(found, MeasuredLog):
        return found
    message, action, file = found
    raise InputError(message, action, file=file)


def _measure(batch: Sequence[_Waiting]) -> None:
    """Have a child measure; one by one where it fails with several."""
    tasks = [task for task, _ in batch]
    try:
        text = measuring.in_child(MODULE, msgspec.json.encode(tasks), tasks[0].first)
    except (InputError, StoreError) as error:
        if len(batch) == 1:
            batch[0][1].set_exception(error)
            return
        for one in batch:
            _measure([one])
        return
    found = pickle.loads(text)  # noqa: S301 - our own child's
    for (_, answer), one in zip(batch, found, strict=True):
        answer.set_result(one)


def _measured(text: bytes) -> bytes:
    """Measure tasks; returns of each what was found, or the parts of an :class:`InputError`."""
    from k8sbench.app import imports
    from k8sbench.catalog import spec_files

    found: list[object] = []
    loaded = spec_files.load_all()
    for task in decoder(list[Task]).decode(text):
        try:
            candidates = expectation.candidates(task.options, loaded)
            log = imports.measure_run(task.files, task.first, candidates, task.options)
        except InputError as error:
            message = error.message.removeprefix(f"{error.file}: ")
            found.append((message, error.action, error.file))
        else:
            found.append(log)
    return pickle.dumps(found)


if __name__ == "__main__":
    sys.exit(measuring.main(_measured, int(sys.argv[1])))

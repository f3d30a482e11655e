"""Client of the collector: its runs, merged with the local store's.

The collector has two seconds for each answer. If it is unreachable, a note says so and the local
runs are shown alone; ``--store cluster`` makes that an error.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from k8sbench.app import connections, records
from k8sbench.lifecycle.gathering import is_owed
from k8sbench.model import attempts
from k8sbench.model.errors import BenchError, Unreachable, is_refused
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Baseline, Run

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.collectors import CollectorProxy

T = TypeVar("T")

SECONDS = 2.0
"""Time limit of the collector's answer, of all of its pages."""
INSIST_SECONDS = 10.0
"""Time limit of each answer if no other data are shown."""
LOG_SECONDS = 30.0
"""Until the next piece of a log must come."""
SOURCE = "collector"
"""The source of its runs."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class _File(msgspec.Struct):
    """Fields read from an entry of ``/artifacts``."""

    name: str
    bytes: int


# Made once, here: msgspec crashes where two threads are the first to use a type.
_RUN = msgspec.json.Decoder(Run)
_RUNS = msgspec.json.Decoder(list[Run])
_FILES = msgspec.json.Decoder(list[_File])
_BASELINES = msgspec.json.Decoder(list[Baseline])


def asked(
    access: ClusterAccess,
    read: Callable[[CollectorProxy], T],
    note: Callable[[str], None],
    *,
    insist: bool = False,
    missing: Callable[[], str] = lambda: "the runs of a collector",
) -> T | None:
    """Read from the collector; None if there is none that can be read.

    A failure is noted together with what is ``missing`` from the output. With ``insist`` it raises
    :class:`Unreachable`.
    """
    if not insist and not connections.configured(access):
        return None
    try:
        with opened(access, INSIST_SECONDS if insist else SECONDS) as collector, _understood():
            if collector is not None:
                return read(collector)
        if insist:
            raise Unreachable(
                "There is no collector in the namespace.",
                "Name its namespace with -n, or install it with the chart.",
            )
    except BenchError as wrong:
        if insist:
            action = wrong.action
            raise Unreachable(f"The collector cannot be read: {wrong.message}", action) from wrong
        note(f"note: without {missing()}: {wrong.message}")
    return None


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Make an error of an answer that this version cannot read; :class:`Unreachable`."""
    try:
        yield
    except msgspec.MsgspecError as error:
        raise Unreachable(
            f"Its answer is not one that this version of k8sbench reads ({error}).",
            "Use the version of k8sbench that the collector has.",
        ) from error


def runs(
    access: ClusterAccess,
    note: Callable[[str], None],
    *,
    insist: bool = False,
    **query: str | None,
) -> list[Run]:
    """Return its runs, oldest first; note if older ones are missing.

    ``query`` is the benchmark or the framework that they have.
    """
    found: dict[str, Run] = {}
    until = time.monotonic() + SECONDS

    def oldest() -> float:
        return min(status.created_at for status in found.values())

    def read(there: CollectorProxy) -> None:
        given = {name: value for name, value in query.items() if value is not None}
        given |= {"detail": "status", "limit": f"{records.PAGE}"}
        while True:
            page = _RUNS.decode(there.read("runs", dict(given)) or b"[]")
            before = len(found)
            found.update((status.run_id, status) for status in page)
            if len(found) == before or len(page) < records.PAGE:
                return
            if not insist and time.monotonic() > until:
                raise Unreachable(f"It has not answered in {SECONDS:g} s.", "Try again.")
            # The oldest one comes again: another may have been created at the same time.
            given["until"] = repr(oldest())

    def missing() -> str:
        if not found:
            return "the runs of a collector"
        before = datetime.datetime.fromtimestamp(oldest(), datetime.UTC)
        return (
            f"some runs of a collector, those created before {before:%Y-%m-%dT%H:%M:%SZ} (--store"
            " cluster waits for all, --benchmark asks for fewer)"
        )

    asked(access, read, note, insist=insist, missing=missing)
    ordered = sorted(found.values(), key=lambda status: (status.created_at, status.run_id))
    return [as_run(status) for status in ordered]


def run(
    access: ClusterAccess, text: str, note: Callable[[str], None], *, insist: bool = False
) -> Run | None:
    """Return the run with this id or unique id prefix, if there is one."""
    return asked(access, partial(_run, text), note, insist=insist)


def _run(text: str, there: CollectorProxy) -> Run | None:
    answer = there.read(f"runs/{text}", {})
    return None if answer is None else as_run(_RUN.decode(answer))


def baselines(
    access: ClusterAccess, note: Callable[[str], None], *, insist: bool = False
) -> list[Baseline]:
    """Return its baselines; none of a collector that knows no such."""
    found = asked(
        access,
        lambda there: _BASELINES.decode(there.read("baselines", {}) or b"[]"),
        note,
        insist=insist,
        missing=lambda: "the baselines of a collector",
    )
    return found or []


def copied(
    access: ClusterAccess, run_id: str, folder: Path, *kinds: Literal["logs", "gpu", ""]
) -> list[Path]:
    """Copy a run's files from a collector into a folder.

    These are its logs, GPU series or other files (``""``). Returns the copies; raises
    :class:`BenchError`.
    """
    from k8sbench.adapters.kubernetes.client.faults import ApiFault
    from k8sbench.adapters.store import disk

    copies = []
    with opened(access, LOG_SECONDS) as collector, _understood():
        if collector is None:
            return []
        files = collector.read(f"runs/{run_id}/artifacts", {}) or b"[]"
        for entry in _FILES.decode(files):
            kind, _, name = entry.name.rpartition("/")
            if kind not in kinds or _FILE_NAME.fullmatch(name) is None:
                continue
            path = folder / kind / name
            disk.make_folder(path.parent)
            copies.append(path)
            try:
                with disk.create(path, "wb") as out:
                    if entry.bytes:
                        out.writelines(collector.pieces(f"runs/{run_id}/artifacts/{entry.name}"))
            except ApiFault as fault:
                raise Unreachable(
                    f"The collector's file {entry.name} of run {run_id} cannot be read:"
                    f" {fault.message.rstrip('.')}.",
                    "Try again.",
                ) from fault
    return copies


def collected_elsewhere(access: ClusterAccess, run: Run, folder: Path) -> Run | None:
    """Return the collector's record of a run, and copy its files.

    Returns None if this user may read no collector, or it does not know the run. Raises
    :class:`Unreachable` if it does not answer, still follows the run, or is still fetching its GPU
    metrics.
    """
    there = connections.access_to(run.location, access)
    if not connections.configured(there):
        return None
    try:
        with opened(there, INSIST_SECONDS) as collector, _understood():
            theirs = None if collector is None else _run(run.run_id, collector)
        if theirs is not None and theirs.attempt < run.attempt:
            return None  # it says nothing of the present attempt
        is_complete = theirs is not None and theirs.is_closed and not is_owed(theirs)
        if theirs is not None and is_complete and not attempts.is_taken_over(theirs, run):
            copied(there, run.run_id, folder, "logs", "gpu")
    except BenchError as error:
        if is_refused(error):
            return None
        raise
    except OSError as error:
        raise Unreachable(f"Its files cannot be copied: {error.strerror}.", "Try again.") from error
    if theirs is not None and not is_complete:
        raise Unreachable("The collector follows it still.", "Collect it again later.")
    return theirs


@contextlib.contextmanager
def opened(access: ClusterAccess, seconds: float = SECONDS) -> Iterator[CollectorProxy | None]:
    """Give the collector of a namespace; None where it has none."""
    from k8sbench.adapters.kubernetes.collectors import CollectorProxy

    with contextlib.closing(connections.connect(access)) as api:
        connections.check_answers(api, seconds)
        api.retry_s = seconds
        collector = CollectorProxy(api)
        yield collector if collector.is_there() else None


def as_run(answer: Run) -> Run:
    """Make of its answer the run that it has."""
    return msgspec.structs.replace(
        answer,
        owner=None,
        artifacts=None,
        artifacts_missing=f"The collector has its files: k8sbench logs {answer.run_id}",
        source=SOURCE,
    )


def may_know_more(ours: Run) -> bool:
    """Return True if a collector may know more about a run."""
    return ours.plan.backend == "kubernetes" and _known(ours) < (False, True)


def knows_more(theirs: Run, ours: Run | None) -> bool:
    """Return True if the collector's record should replace ours."""
    return ours is None or _known(theirs) > _known(ours)


def merged(ours: Sequence[Run], theirs: Sequence[Run]) -> tuple[list[Run], set[str]]:
    """Merge both stores' runs, oldest first, without duplicates.

    Also returns the ids of the runs taken from the collector.
    """
    by_id = {run.run_id: run for run in ours}
    added = {run.run_id: run for run in theirs if knows_more(run, by_id.get(run.run_id))}
    both = sorted((by_id | added).values(), key=lambda run: (run.created_at, run.run_id))
    return both, set(added)


def _known(run: Run) -> tuple[bool, bool]:
    return run.measurement is not None, run.phase.final and run.phase is not Phase.LOST
